-- Corrections of EPCIS events: written by triggers that exist only while a webhook sends EPCIS, see edge.epcis.changes.

-- One row while the triggers exist. `is_forgetting` is 1 inside a transaction that deletes history by age: those events
-- were no errors. Seen and changed by nobody. Bound: one row. Retention: until the last such webhook ends. Backup: with
-- the database. Sync: none. Personal data: none.
CREATE TABLE epcis (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    is_forgetting INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Moments at which events of an asset came or went and that are not in the log of events yet. `at` is rounded down to
-- milliseconds, like the times of events. `kind`: 1 a stay, 2 a load of a carrier, 3 its end, 4 a passage; `place_id` is
-- the location, the carrier or the door. `is_added`: no event of this kind was there before. Seen and changed by nobody.
-- Bound: changes of some seconds. Retention: until they are logged. Backup: with the database. Sync: none. Personal data:
-- where people were, if they are tracked.
CREATE TABLE epcis_pending (
    no       INTEGER PRIMARY KEY,
    asset_id INTEGER NOT NULL REFERENCES asset (id),
    at       INTEGER NOT NULL,
    kind     INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 4),
    place_id INTEGER NOT NULL,
    is_added INTEGER NOT NULL,
    UNIQUE (asset_id, at, kind, place_id)
) STRICT;

-- Events that later reads, an undo or a correction took away: EPCIS declares them as errors. Columns as above; `kind` 4
-- is a passage inward and 5 one outward. Seen in GET /epcis/events, changed by nobody. Bound: corrections of history.
-- Retention: like history. Backup: with the database. Sync: none. Personal data: where people were, like history.
CREATE TABLE epcis_withdrawn (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    asset_id        INTEGER NOT NULL REFERENCES asset (id),
    at              INTEGER NOT NULL,
    kind            INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 5),
    place_id        INTEGER NOT NULL,
    recorded_at     INTEGER NOT NULL,
    declared_at     INTEGER NOT NULL,
    UNIQUE (asset_id, at, kind, place_id)
) STRICT;
CREATE INDEX epcis_withdrawn_age ON epcis_withdrawn (at);
