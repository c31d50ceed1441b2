-- Doors, their antennas, and which assets passed them.

-- A door with its name, and the location that stands for it in events. Seen by viewers, changed by administrators,
-- audited. Bound: 500 in an organization (quotas). Retention: none; a removed one is kept for its passages. Backup: with
-- the database. Sync: a site reports the doors of its passages; the hub keeps them with the site's number. Personal
-- data: none.
CREATE TABLE door (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL,
    location_id     INTEGER REFERENCES location (id),
    created_at      INTEGER NOT NULL,
    deleted_at      INTEGER,
    site_no         INTEGER,
    remote_id       INTEGER
) STRICT;
CREATE INDEX door_of ON door (organization_id, deleted_at);
CREATE UNIQUE INDEX door_site ON door (site_no, remote_id) WHERE site_no IS NOT NULL;

-- Which antennas read which side of a door: 0 inner, 1 outer. A null port is all antennas of the reader. Seen and changed
-- like the door. Bound: 16 for each side. Retention: with the door. Backup: with the database. Sync: none. Personal
-- data: none.
CREATE TABLE door_antenna (
    no        INTEGER PRIMARY KEY,
    door_id   INTEGER NOT NULL REFERENCES door (id),
    side      INTEGER NOT NULL CHECK (side IN (0, 1)),
    reader_id INTEGER NOT NULL REFERENCES reader (id),
    port      INTEGER
) STRICT;
CREATE UNIQUE INDEX door_antenna_subject ON door_antenna (door_id, reader_id, ifnull(port, -1));

ALTER TABLE version ADD COLUMN doors INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER door_antenna_added AFTER INSERT ON door_antenna BEGIN UPDATE version SET doors = doors + 1; END;
CREATE TRIGGER door_antenna_removed AFTER DELETE ON door_antenna BEGIN UPDATE version SET doors = doors + 1; END;
CREATE TRIGGER door_ended AFTER UPDATE OF deleted_at ON door BEGIN UPDATE version SET doors = doors + 1; END;

-- The last reads at doors, from which passages are decided again if late reads arrive. Times in microseconds, RSSI in
-- tenths of a dBm (-32768: not reported). Nobody sees them; ingest writes them, so they are not audited. Bound: 300,000,
-- the oldest go first. Retention: 10 minutes after receipt. Backup: with the database. Sync: none. Personal data: none
-- beyond the history of assets.
CREATE TABLE door_read (
    asset_id    INTEGER NOT NULL,
    observed_at INTEGER NOT NULL,
    door_id     INTEGER NOT NULL,
    side        INTEGER NOT NULL,
    tenths      INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (asset_id, observed_at, door_id, side, tenths)
) STRICT, WITHOUT ROWID;
CREATE INDEX door_read_age ON door_read (received_at);

-- Passages: direction 0 unknown, 1 in, 2 out, 3 turned back, 4 withdrawn after late reads. Confidence in thousandths.
-- `reads` are those behind the decision, thinned to at most 60. `revision` counts how often later reads changed the direction.
-- Seen by viewers; ingest writes them, so they are not audited. Bound and retention: by age, like
-- history. Backup: with the database. Sync: from a site to its hub, without the reads. Personal data: where an
-- asset belongs to a person.
CREATE TABLE passage (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    door_id         INTEGER NOT NULL REFERENCES door (id),
    asset_id        INTEGER NOT NULL REFERENCES asset (id),
    at              INTEGER NOT NULL,
    direction       INTEGER NOT NULL CHECK (direction BETWEEN 0 AND 4),
    confidence      INTEGER NOT NULL,
    inner_reads     INTEGER NOT NULL,
    outer_reads     INTEGER NOT NULL,
    since           INTEGER NOT NULL,
    until           INTEGER NOT NULL,
    decided_at      INTEGER NOT NULL,
    revision        INTEGER NOT NULL DEFAULT 0,
    reads           BLOB,
    site_no         INTEGER,
    remote_no       INTEGER
) STRICT;
CREATE INDEX passage_of_door ON passage (door_id, at);
CREATE INDEX passage_of_asset ON passage (asset_id, at);
CREATE INDEX passage_age ON passage (at);
CREATE UNIQUE INDEX passage_site ON passage (site_no, remote_no) WHERE site_no IS NOT NULL;

-- For sync and events, which both need nothing while they are off.
CREATE TRIGGER passage_added_for_hub AFTER INSERT ON passage WHEN new.site_no IS NULL AND EXISTS (SELECT 1 FROM target)
BEGIN INSERT INTO change (kind, a, b) VALUES (8, new.no, NULL); END;
CREATE TRIGGER passage_changed_for_hub AFTER UPDATE ON passage
WHEN new.site_no IS NULL AND EXISTS (SELECT 1 FROM target)
BEGIN INSERT INTO change (kind, a, b) VALUES (8, new.no, NULL); END;
CREATE TRIGGER passage_added_for_events AFTER INSERT ON passage
WHEN EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = 'event_stay_added')
BEGIN INSERT INTO event_candidate (kind, key) VALUES (4, new.no); END;
CREATE TRIGGER passage_changed_for_events AFTER UPDATE OF direction ON passage WHEN new.direction <> old.direction AND
EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = 'event_stay_added')
BEGIN INSERT INTO event_candidate (kind, key) VALUES (4, new.no); END;
