-- The newest report of each device about an expected list, as in stock_take_device.
-- Who sees it: the organization's operators, before they sign off. Each device changes its own row, so it is not audited.
-- Bound: 100 devices of one list. Retention: until it is signed off or deleted. Backup: with the database. Sync: none.
-- Personal data: the person's name, of a device that is not enrolled.
CREATE TABLE expected_list_device (
    list_id      INTEGER NOT NULL REFERENCES expected_list (id) ON DELETE CASCADE,
    device       TEXT NOT NULL,
    name         TEXT NOT NULL,
    is_open      INTEGER NOT NULL CHECK (is_open IN (0, 1)),
    unsent       INTEGER NOT NULL,
    unsent_since INTEGER,
    reported_at  INTEGER NOT NULL,
    PRIMARY KEY (list_id, device)
) STRICT, WITHOUT ROWID;
CREATE INDEX expected_list_device_of ON expected_list_device (device);
