-- Assets that are people, and musters: who is safe at a muster point.

-- Which assets are people (by the beginning of their key, or by a value in their metadata), who may see their positions,
-- who runs musters, and how long both are kept. `seen_by` and `muster_by` are the least role. No row: no asset is a person.
-- Seen and changed by administrators, audited. Bound: one row for each organization. Retention: none. Backup: with the
-- database. Sync: none, each box has its own. Personal data: none.
CREATE TABLE people_setting (
    organization_id INTEGER PRIMARY KEY REFERENCES organization (id),
    key_prefix      TEXT NOT NULL,
    metadata_name   TEXT NOT NULL,
    metadata_value  TEXT NOT NULL,
    seen_by         TEXT NOT NULL CHECK (seen_by IN ('viewer', 'operator', 'editor', 'administrator')),
    muster_by       TEXT NOT NULL CHECK (muster_by IN ('operator', 'editor', 'administrator')),
    is_in_api       INTEGER NOT NULL CHECK (is_in_api IN (0, 1)),
    history_days    INTEGER NOT NULL CHECK (history_days BETWEEN 1 AND 36500),
    report_days     INTEGER NOT NULL CHECK (report_days BETWEEN 1 AND 36500)
) STRICT;

CREATE VIEW person_asset AS
    SELECT a.id AS asset_id, a.organization_id
    FROM people_setting s JOIN asset a ON a.organization_id = s.organization_id
    WHERE (s.key_prefix <> '' AND substr(a.external_key, 1, length(s.key_prefix)) = s.key_prefix)
       OR (s.metadata_name <> '' AND EXISTS (
            SELECT 1 FROM json_each(a.metadata) WHERE key = s.metadata_name AND CAST(value AS TEXT) = s.metadata_value));

-- The assets of `person_asset`, retired ones included, and on each track whether its asset is one: lists leave their
-- positions out. Kept by triggers, so that no way of changing an asset is missed. Seen by nobody, not audited. Bound: one
-- row for each asset. Retention: with the asset. Backup: with the database. Sync: none, each box keeps its own. Personal
-- data: that an asset is a person.
CREATE TABLE tracked_person (
    asset_id INTEGER PRIMARY KEY REFERENCES asset (id) ON DELETE CASCADE
) STRICT;
ALTER TABLE track ADD COLUMN is_person INTEGER NOT NULL DEFAULT 0;

CREATE TRIGGER person_added AFTER INSERT ON asset
WHEN EXISTS (SELECT 1 FROM people_setting WHERE organization_id = new.organization_id) BEGIN
    INSERT INTO tracked_person (asset_id) SELECT asset_id FROM person_asset WHERE asset_id = new.id;
END;
CREATE TRIGGER person_changed AFTER UPDATE OF external_key, metadata, organization_id ON asset
WHEN EXISTS (SELECT 1 FROM people_setting WHERE organization_id = new.organization_id) BEGIN
    DELETE FROM tracked_person WHERE asset_id = new.id
        AND NOT EXISTS (SELECT 1 FROM person_asset WHERE asset_id = new.id);
    INSERT INTO tracked_person (asset_id) SELECT asset_id FROM person_asset
        WHERE asset_id = new.id AND NOT EXISTS (SELECT 1 FROM tracked_person WHERE asset_id = new.id);
END;
CREATE TRIGGER tracked_person_added AFTER INSERT ON tracked_person BEGIN
    UPDATE track SET is_person = 1 WHERE asset_id = new.asset_id;
END;
CREATE TRIGGER tracked_person_removed AFTER DELETE ON tracked_person BEGIN
    UPDATE track SET is_person = 0 WHERE asset_id = old.asset_id;
END;
CREATE TRIGGER track_of_person_added AFTER INSERT ON track
WHEN EXISTS (SELECT 1 FROM tracked_person WHERE asset_id = new.asset_id) BEGIN
    UPDATE track SET is_person = 1 WHERE no = new.no;
END;
CREATE TRIGGER track_moved_to_person AFTER UPDATE OF asset_id ON track BEGIN
    UPDATE track SET is_person = EXISTS (SELECT 1 FROM tracked_person WHERE asset_id = new.asset_id)
    WHERE no = new.no;
END;

DROP VIEW position;
CREATE VIEW position AS
    SELECT no, asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, row_seq, history_rows,
           is_retired, is_person
    FROM track WHERE is_newest = 1;
-- Counts leave people out by these indexes alone.
DROP INDEX track_newest;
CREATE INDEX track_newest ON track (organization_id, last_seen_at DESC, asset_id, is_retired, is_person, row_at)
    WHERE is_newest = 1;
DROP INDEX track_location;
CREATE INDEX track_location ON track (location_id, is_retired, is_person, row_at) WHERE is_newest = 1;

-- A plan for musters: which people (`chosen` is all, key, metadata or list), and its muster points. Seen by who runs
-- musters, changed by editors, audited. Bound: 200 in an organization (quotas), 50 points and 5,000 listed people in a
-- plan. Retention: until it is deleted. Backup: with the database. Sync: none. Personal data: the listed people.
CREATE TABLE muster_plan (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL,
    chosen          TEXT NOT NULL CHECK (chosen IN ('all', 'key', 'metadata', 'list')),
    chosen_name     TEXT NOT NULL, -- of the metadata
    chosen_value    TEXT NOT NULL, -- prefix of the key, or value of the metadata
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX muster_plan_of ON muster_plan (organization_id, name);
CREATE TABLE muster_plan_point (
    plan_id     INTEGER NOT NULL REFERENCES muster_plan (id) ON DELETE CASCADE,
    location_id INTEGER NOT NULL REFERENCES location (id),
    PRIMARY KEY (plan_id, location_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE muster_plan_person (
    plan_id  INTEGER NOT NULL REFERENCES muster_plan (id) ON DELETE CASCADE,
    asset_id INTEGER NOT NULL REFERENCES asset (id),
    PRIMARY KEY (plan_id, asset_id)
) STRICT, WITHOUT ROWID;

-- A muster. While it is open, who is safe follows from positions and `ticked_at`; at its end the result is stored.
-- `started_at` is the time from which reads count. Seen by who runs musters; who started and ended it, and each tick, is
-- audited. Bound: 5,000 in an organization, one open for each plan (quotas), 20,000 people in one. Retention:
-- `people_setting.report_days` from its end. Backup: with the database. Sync: none, a muster stays on the box of its
-- muster points. Personal data: who was safe, who was missing, and where.
CREATE TABLE muster (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    plan_id         INTEGER REFERENCES muster_plan (id) ON DELETE SET NULL,
    name            TEXT NOT NULL, -- of the plan at the start
    is_drill        INTEGER NOT NULL CHECK (is_drill IN (0, 1)),
    started_at      INTEGER NOT NULL,
    started_by      TEXT NOT NULL,
    ended_at        INTEGER,
    ended_by        TEXT,
    note            TEXT
) STRICT;
CREATE INDEX muster_newest ON muster (organization_id, ended_at);
CREATE UNIQUE INDEX muster_open ON muster (plan_id) WHERE ended_at IS NULL;

-- The muster points at the start. All as above.
CREATE TABLE muster_point (
    muster_id   INTEGER NOT NULL REFERENCES muster (id) ON DELETE CASCADE,
    location_id INTEGER NOT NULL REFERENCES location (id),
    name        TEXT NOT NULL,
    PRIMARY KEY (muster_id, location_id)
) STRICT, WITHOUT ROWID;

-- Readers at the muster points that were connected at the start. Reads without a time of their own, from other readers,
-- may be old ones that were sent late. Bound: the readers of the organization. All else as above.
CREATE TABLE muster_reader (
    muster_id INTEGER NOT NULL REFERENCES muster (id) ON DELETE CASCADE,
    reader_id INTEGER NOT NULL REFERENCES reader (id),
    PRIMARY KEY (muster_id, reader_id)
) STRICT, WITHOUT ROWID;

-- A person in a muster, with key and name at the start. `seen_before`: the newest read known at the start, which does not
-- count, whatever the clock says. The last five columns are the result at the end. All else as above.
CREATE TABLE muster_person (
    muster_id   INTEGER NOT NULL REFERENCES muster (id) ON DELETE CASCADE,
    asset_id    INTEGER NOT NULL REFERENCES asset (id),
    asset_key   TEXT NOT NULL,
    name        TEXT NOT NULL,
    seen_before INTEGER NOT NULL,
    ticked_at   INTEGER,
    ticked_by   TEXT,
    result      TEXT CHECK (result IN ('safe', 'missing')),
    how         TEXT,
    place       TEXT,
    seen_at     INTEGER,
    PRIMARY KEY (muster_id, asset_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX muster_person_asset ON muster_person (asset_id);
