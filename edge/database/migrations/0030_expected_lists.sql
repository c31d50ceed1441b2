-- Expected lists: what should be loaded or received, at a door in one direction or at a location.

-- A list with its place. Ticks are not stored: they follow from passages and scans between `started_at` and seven days
-- later. Seen by viewers, created and deleted by editors, started and signed off by operators, audited. Bound: 20,000 in
-- an organization, 500 of them not signed off (quotas). Retention: like history, from sign-off, or from its creation if it
-- was never signed off. Backup: with the database. Sync: none, a list stays on the box of its door. Personal data: who
-- created and who signed it off.
CREATE TABLE expected_list (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL,
    door_id         INTEGER REFERENCES door (id),
    direction       INTEGER CHECK (direction IN (1, 2)), -- of a door: 1 in, 2 out
    location_id     INTEGER REFERENCES location (id),
    created_at      INTEGER NOT NULL,
    created_by      INTEGER REFERENCES person (id),
    started_at      INTEGER,
    signed_at       INTEGER,
    signed_by       INTEGER REFERENCES person (id),
    CHECK ((door_id IS NULL) = (direction IS NULL) AND (door_id IS NULL) <> (location_id IS NULL))
) STRICT;
CREATE INDEX expected_list_newest ON expected_list (organization_id, signed_at, created_at);
CREATE UNIQUE INDEX expected_list_of_door ON expected_list (door_id, direction)
    WHERE door_id IS NOT NULL AND started_at IS NOT NULL AND signed_at IS NULL;
CREATE UNIQUE INDEX expected_list_of_location ON expected_list (location_id)
    WHERE location_id IS NOT NULL AND started_at IS NOT NULL AND signed_at IS NULL;

-- The assets of a list until it is signed off. Seen and changed with the list. Bound: 5,000 in a list. Retention: until
-- sign-off. Backup: with the database. Sync: none. Personal data: where an asset belongs to a person.
CREATE TABLE expected_item (
    list_id  INTEGER NOT NULL REFERENCES expected_list (id),
    asset_id INTEGER NOT NULL REFERENCES asset (id),
    PRIMARY KEY (list_id, asset_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX expected_item_asset ON expected_item (asset_id);

-- The result as it was signed, with the keys and names of that moment. `result`: missing, wrong, surplus or ticked. `how`:
-- door, scan or carrier. `other` is the list of a wrong item. Seen with the list; nobody changes it. Bound: 10,000 in a
-- list. Retention: with the list. Backup: with the database. Sync: none. Personal data: as above.
CREATE TABLE expected_line (
    list_id   INTEGER NOT NULL REFERENCES expected_list (id),
    no        INTEGER NOT NULL,
    result    TEXT NOT NULL,
    asset_id  INTEGER NOT NULL REFERENCES asset (id),
    asset_key TEXT NOT NULL,
    name      TEXT NOT NULL,
    how       TEXT NOT NULL,
    seen_at   INTEGER,
    other     TEXT NOT NULL,
    PRIMARY KEY (list_id, no)
) STRICT, WITHOUT ROWID;

-- Scans of a location, for its list.
CREATE INDEX handheld_scan_location ON handheld_scan (location_id, observed_at) WHERE asset_id IS NOT NULL;
