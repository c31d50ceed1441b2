-- Sleds: handheld RFID readers that publish over MQTT. Their reads are scans of the person who carries them, at the
-- location that this person chose last on the scan page.

-- Whose a sled is since a time: a person's, an enrolled handheld's, or nobody's, whose reads count as those of any reader.
-- Seen by editors, changed by administrators, audited. Bound: 100 of a reader, the oldest go first. Retention: with the
-- reader. Backup: with the database. Sync: none, a sled is read at its own site; the stays of its scans go up as those of
-- other scans. Personal data: who carries a sled.
CREATE TABLE sled_assignment (
    reader_id       INTEGER NOT NULL REFERENCES reader (id),
    since           INTEGER NOT NULL,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    person_id       INTEGER REFERENCES person (id),
    device_id       INTEGER REFERENCES device (id),
    PRIMARY KEY (reader_id, since),
    CHECK (person_id IS NULL OR device_id IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX sled_assignment_person ON sled_assignment (person_id) WHERE person_id IS NOT NULL;
CREATE INDEX sled_assignment_device ON sled_assignment (device_id) WHERE device_id IS NOT NULL;
CREATE VIEW sled AS
    SELECT a.reader_id, a.organization_id, a.person_id, a.device_id
    FROM sled_assignment a JOIN reader r ON r.id = a.reader_id AND r.deleted_at IS NULL
    WHERE (a.person_id IS NOT NULL OR a.device_id IS NOT NULL)
      AND a.since = (SELECT max(since) FROM sled_assignment WHERE reader_id = a.reader_id);
CREATE TRIGGER sled_assigned AFTER INSERT ON sled_assignment BEGIN UPDATE version SET readers = readers + 1; END;

-- The locations that a person with a sled chose on the scan page; null: signed out, or an unknown label. Stored only for
-- people and handhelds that have a sled. Seen by nobody, but the scans that follow from it are; not audited, like scans.
-- Bound: the quota of the person, and retention: 7 days from receipt. Backup: with the database. Sync: none. Personal data:
-- where a person was working.
CREATE TABLE location_choice (
    id              TEXT PRIMARY KEY, -- made by the device, so that a repeat is known
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    person_id       INTEGER NOT NULL REFERENCES person (id),
    device_id       INTEGER REFERENCES device (id),
    location_id     INTEGER REFERENCES location (id),
    chosen_at       INTEGER NOT NULL,
    received_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX location_choice_person ON location_choice (person_id, chosen_at, id);
CREATE INDEX location_choice_device ON location_choice (device_id, chosen_at, id) WHERE device_id IS NOT NULL;
CREATE INDEX location_choice_age ON location_choice (received_at);

-- Reads of assets by sleds, from which scans are made again when a choice of a location arrives late, and the signal
-- strength for finding an asset. Seen by the person who carries the sled, as strength only. Not audited. Bound: 100,000 of a
-- sled, the oldest go first. Retention: 24 hours. Backup: with the database. Sync: none. Personal data: when a sled was near
-- an asset that is a person.
CREATE TABLE sled_read (
    reader_id   INTEGER NOT NULL REFERENCES reader (id),
    observed_at INTEGER NOT NULL,
    asset_id    INTEGER NOT NULL REFERENCES asset (id),
    received_at INTEGER NOT NULL,
    rssi        REAL,
    code        TEXT NOT NULL,
    PRIMARY KEY (reader_id, observed_at, asset_id)
) STRICT, WITHOUT ROWID;

-- Reads of a sled to compare with the choices again, from `since` (in it, after this asset) until before `until`. Worked off
-- in slices. Seen by nobody, not audited. Bound: one row for each sled. Retention: until worked off, seconds. Backup: with
-- the database. Sync: none. Personal data: none.
CREATE TABLE sled_recount (
    reader_id   INTEGER PRIMARY KEY REFERENCES reader (id),
    since       INTEGER NOT NULL,
    after_asset INTEGER NOT NULL DEFAULT 0,
    until       INTEGER NOT NULL
) STRICT;
