-- What each device said last about an open stock-take: whether it has it open, and how many of its scans are not sent.
-- Who sees it: the organization's operators, before they sign off. Each device changes its own row, so it is not audited.
-- Bound: 100 devices of one stock-take. Retention: until it is signed off or cancelled. Backup: with the database. Sync:
-- none. Personal data: the person's name, of a device that is not enrolled.
CREATE TABLE stock_take_device (
    stock_take_id TEXT NOT NULL REFERENCES stock_take (id),
    device        TEXT NOT NULL, -- made by the device: a session ends earlier than what waits in it
    name          TEXT NOT NULL, -- of the enrolled device, else of the person
    is_open       INTEGER NOT NULL CHECK (is_open IN (0, 1)),
    unsent        INTEGER NOT NULL,
    unsent_since  INTEGER,       -- when the oldest of them was scanned
    reported_at      INTEGER NOT NULL,
    PRIMARY KEY (stock_take_id, device)
) STRICT, WITHOUT ROWID;
CREATE INDEX stock_take_device_of ON stock_take_device (device);

-- The same of the other devices, as it was on the screen of the person who signed off.
-- Who sees it: whoever sees the signed sheet. Nobody changes it; that it was signed off is audited. Bound: 100 rows of one
-- stock-take. Retention, backup: those of the stock-take. Sync: none. Personal data: as above.
CREATE TABLE stock_take_unsent (
    stock_take_id TEXT NOT NULL REFERENCES stock_take (id),
    no            INTEGER NOT NULL,
    name          TEXT NOT NULL,
    unsent        INTEGER NOT NULL,
    unsent_since  INTEGER,
    reported_at      INTEGER NOT NULL,
    PRIMARY KEY (stock_take_id, no)
) STRICT, WITHOUT ROWID;
