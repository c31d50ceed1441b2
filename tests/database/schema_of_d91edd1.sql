-- Times are integers: microseconds since the epoch, UTC. Every table of a customer's data names its organization.

CREATE TABLE instance (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id_key      BLOB NOT NULL,              -- key of the permutation that makes public ids
    id_count    INTEGER NOT NULL DEFAULT 0, -- how many ids were ever given out; never goes back
    signing_key BLOB NOT NULL,              -- of access and session tokens
    created_at  INTEGER NOT NULL
) STRICT;

-- What the ingest writer keeps in memory is dropped when these numbers change, whichever process changed them.
CREATE TABLE version (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    tags    INTEGER NOT NULL DEFAULT 0,
    readers INTEGER NOT NULL DEFAULT 0,
    records INTEGER NOT NULL DEFAULT 0 -- anything a list of assets, locations or positions counts
) STRICT;
INSERT INTO version (one) VALUES (1);

CREATE TABLE organization (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 255),
    created_at INTEGER NOT NULL
) STRICT;

-- People ------------------------------------------------------------------------------------------------------

CREATE TABLE person (
    id              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    email           TEXT UNIQUE COLLATE NOCASE, -- null for an operator who signs in by badge or name only
    name            TEXT NOT NULL,
    role            TEXT NOT NULL CHECK (role IN ('administrator', 'editor', 'operator', 'viewer')),
    password_hash   TEXT,
    pin_hash        TEXT,
    badge_hash      BLOB,                       -- keyed hash of the badge's code
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    disabled_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX person_badge ON person (organization_id, badge_hash) WHERE badge_hash IS NOT NULL;
CREATE UNIQUE INDEX person_name ON person (organization_id, name COLLATE NOCASE) WHERE disabled_at IS NULL;

CREATE TABLE device (
    id              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL,
    token_hash      BLOB UNIQUE,  -- of the cookie it got when it was enrolled
    enrolment_hash  BLOB UNIQUE,  -- of the link's one-time code; null once used
    enrolment_until INTEGER,
    created_by      INTEGER REFERENCES person (id),
    created_at      INTEGER NOT NULL,
    last_seen_at    INTEGER,
    revoked_at      INTEGER
) STRICT;

CREATE TABLE web_session (
    token_hash   BLOB PRIMARY KEY,
    person_id    INTEGER NOT NULL REFERENCES person (id),
    device_id    INTEGER REFERENCES device (id),
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX web_session_person ON web_session (person_id);

CREATE TABLE audit (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER REFERENCES organization (id),
    at              INTEGER NOT NULL,
    actor           TEXT NOT NULL, -- "person:ID", "key:UUID", "cli"
    action          TEXT NOT NULL,
    detail          TEXT NOT NULL  -- JSON
) STRICT;
CREATE INDEX audit_recent ON audit (organization_id, at);

-- API credentials ---------------------------------------------------------------------------------------------

CREATE TABLE api_key (
    id              TEXT PRIMARY KEY, -- UUID: the client_id and the `sub` of its tokens
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL,
    scopes          TEXT NOT NULL,    -- blank-separated
    secret_hash     BLOB NOT NULL,
    created_by      INTEGER REFERENCES person (id),
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER,
    last_used_at    INTEGER,
    revoked_at      INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_organization ON api_key (organization_id, created_at);

-- A chain is one exchange of the secret and every refresh that follows from it.
CREATE TABLE token_chain (
    no         INTEGER PRIMARY KEY,
    api_key_id TEXT NOT NULL REFERENCES api_key (id),
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
CREATE INDEX token_chain_key ON token_chain (api_key_id);

CREATE TABLE refresh_token (
    token_hash BLOB PRIMARY KEY,
    chain_no   INTEGER NOT NULL REFERENCES token_chain (no) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL,
    spent_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX refresh_token_chain ON refresh_token (chain_no);

-- Master data -------------------------------------------------------------------------------------------------

CREATE TABLE asset (
    id              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    external_key    TEXT NOT NULL CHECK (length(external_key) BETWEEN 1 AND 255),
    key_number      INTEGER, -- NNNN of a key that looks minted (ASSET-NNNN)
    name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    description     TEXT,
    is_active       INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1)),
    metadata        TEXT NOT NULL DEFAULT '{}',
    valid_from      INTEGER NOT NULL,
    valid_to        INTEGER CHECK (valid_to > valid_from),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deleted_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX asset_live_key ON asset (organization_id, external_key) WHERE deleted_at IS NULL;
CREATE INDEX asset_key_number ON asset (organization_id, key_number)
    WHERE deleted_at IS NULL AND key_number IS NOT NULL;

CREATE INDEX asset_window ON asset (organization_id, valid_from, valid_to, is_active) WHERE deleted_at IS NULL;

CREATE TABLE location (
    id              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    parent_id       INTEGER REFERENCES location (id),
    external_key    TEXT NOT NULL CHECK (length(external_key) BETWEEN 1 AND 255),
    key_number      INTEGER,
    name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    description     TEXT,
    is_active       INTEGER NOT NULL DEFAULT 1 CHECK (is_active IN (0, 1)),
    valid_from      INTEGER NOT NULL,
    valid_to        INTEGER CHECK (valid_to > valid_from),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deleted_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX location_live_key ON location (organization_id, external_key) WHERE deleted_at IS NULL;
CREATE INDEX location_key_number ON location (organization_id, key_number)
    WHERE deleted_at IS NULL AND key_number IS NOT NULL;
CREATE INDEX location_children ON location (parent_id, name, id);

CREATE TABLE tag (
    id              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    asset_id        INTEGER REFERENCES asset (id),
    location_id     INTEGER REFERENCES location (id),
    tag_type        TEXT NOT NULL,
    value           TEXT NOT NULL CHECK (length(value) BETWEEN 1 AND 255),
    match_key       TEXT NOT NULL, -- what reads are compared by when no value is exactly equal
    created_at      INTEGER NOT NULL,
    deleted_at      INTEGER,
    CHECK ((asset_id IS NULL) <> (location_id IS NULL))
) STRICT;
CREATE UNIQUE INDEX tag_live_value ON tag (organization_id, tag_type, value) WHERE deleted_at IS NULL;
CREATE INDEX tag_match ON tag (organization_id, tag_type, match_key) WHERE deleted_at IS NULL;
CREATE INDEX tag_asset ON tag (asset_id, id) WHERE asset_id IS NOT NULL;
CREATE INDEX tag_location ON tag (location_id, id) WHERE location_id IS NOT NULL;

CREATE TRIGGER tag_added AFTER INSERT ON tag BEGIN UPDATE version SET tags = tags + 1; END;
CREATE TRIGGER tag_changed AFTER UPDATE ON tag BEGIN UPDATE version SET tags = tags + 1; END;

-- What `q` searches, case-folded: `text` is name, key and live tags, divided by a character no query can have.
-- The other columns repeat the record's, so that counting the matches of a broad query reads one table only.
CREATE TABLE searchable (
    id              INTEGER PRIMARY KEY, -- of an asset or a location
    organization_id INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    is_active       INTEGER NOT NULL,
    valid_from      INTEGER NOT NULL,
    valid_to        INTEGER,
    deleted_at      INTEGER,
    text            TEXT NOT NULL,
    description     TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE trigram USING fts5 (
    text, description, content='searchable', content_rowid='id', tokenize='trigram case_sensitive 1'
);
CREATE TRIGGER searchable_added AFTER INSERT ON searchable BEGIN
    INSERT INTO trigram (rowid, text, description) VALUES (new.id, new.text, new.description);
END;
CREATE TRIGGER searchable_changed AFTER UPDATE ON searchable
WHEN old.text <> new.text OR old.description <> new.description BEGIN
    INSERT INTO trigram (trigram, rowid, text, description) VALUES ('delete', old.id, old.text, old.description);
    INSERT INTO trigram (rowid, text, description) VALUES (new.id, new.text, new.description);
END;

CREATE TRIGGER asset_recorded AFTER INSERT ON asset BEGIN UPDATE version SET records = records + 1; END;
CREATE TRIGGER asset_altered AFTER UPDATE ON asset BEGIN UPDATE version SET records = records + 1; END;
CREATE TRIGGER location_recorded AFTER INSERT ON location BEGIN UPDATE version SET records = records + 1; END;
CREATE TRIGGER location_altered AFTER UPDATE ON location BEGIN UPDATE version SET records = records + 1; END;
CREATE TRIGGER searchable_recorded AFTER INSERT ON searchable BEGIN UPDATE version SET records = records + 1; END;
CREATE TRIGGER searchable_altered AFTER UPDATE ON searchable BEGIN UPDATE version SET records = records + 1; END;

-- Readers -----------------------------------------------------------------------------------------------------

CREATE TABLE reader (
    id              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    topic           TEXT NOT NULL, -- MQTT topic filter
    format          TEXT NOT NULL,
    mapping         TEXT,          -- JSON, of the format that is configured
    location_id     INTEGER REFERENCES location (id), -- of antennas without one of their own
    min_rssi        REAL,
    is_on           INTEGER NOT NULL DEFAULT 1 CHECK (is_on IN (0, 1)),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deleted_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX reader_live_name ON reader (organization_id, name) WHERE deleted_at IS NULL;
CREATE UNIQUE INDEX reader_live_topic ON reader (topic) WHERE deleted_at IS NULL;

CREATE TABLE antenna (
    reader_id   INTEGER NOT NULL REFERENCES reader (id),
    port        INTEGER NOT NULL CHECK (port >= 0),
    location_id INTEGER REFERENCES location (id),
    min_rssi    REAL,
    is_on       INTEGER NOT NULL DEFAULT 1 CHECK (is_on IN (0, 1)),
    PRIMARY KEY (reader_id, port)
) STRICT, WITHOUT ROWID;

-- The reader's account at the broker, whose password file is written from these rows.
CREATE TABLE broker_account (
    reader_id     INTEGER PRIMARY KEY REFERENCES reader (id),
    name          TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL, -- in mosquitto's form
    created_at    INTEGER NOT NULL
) STRICT;

CREATE TRIGGER reader_added AFTER INSERT ON reader BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER reader_changed AFTER UPDATE ON reader BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER antenna_added AFTER INSERT ON antenna BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER antenna_changed AFTER UPDATE ON antenna BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER antenna_removed AFTER DELETE ON antenna BEGIN UPDATE version SET readers = readers + 1; END;
-- A soft-deleted location no longer gives its readers a place, a soft-deleted asset no longer takes scans.
CREATE TRIGGER location_gone AFTER UPDATE OF deleted_at ON location BEGIN UPDATE version SET readers = readers + 1; END;

-- What readers last did; written by the ingest writer, so that it does not touch `reader` and wake its triggers.
CREATE TABLE reader_state (
    reader_id     INTEGER PRIMARY KEY REFERENCES reader (id),
    last_heard_at INTEGER NOT NULL, -- any recognised message
    last_read_at  INTEGER,
    clock_offset  INTEGER,          -- microseconds the reader's clock is ahead, when it is constant
    qos           INTEGER NOT NULL,
    note          TEXT,             -- what its last status message told
    is_offline    INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE antenna_state (
    reader_id    INTEGER NOT NULL REFERENCES reader (id),
    port         INTEGER NOT NULL, -- 0 where the reader has no antennas
    last_read_at INTEGER NOT NULL,
    PRIMARY KEY (reader_id, port)
) STRICT, WITHOUT ROWID;

-- Tracking ----------------------------------------------------------------------------------------------------

-- Where a scan can come from: an antenna as it was placed, or a person at a location. Rows never change, so
-- history keeps a small number instead of three ids and stays true when an antenna is moved.
CREATE TABLE source (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    location_id     INTEGER NOT NULL REFERENCES location (id),
    reader_id       INTEGER REFERENCES reader (id), -- null for a handheld scan
    port            INTEGER                         -- null where the reader has no antennas
) STRICT;
CREATE UNIQUE INDEX source_place ON source (location_id, ifnull(reader_id, 0), ifnull(port, -1));

-- The newest scan of each scanned asset.
CREATE TABLE position (
    no               INTEGER PRIMARY KEY, -- small number of the asset in `history`
    asset_id         INTEGER NOT NULL UNIQUE REFERENCES asset (id),
    organization_id  INTEGER NOT NULL REFERENCES organization (id),
    location_id      INTEGER NOT NULL REFERENCES location (id),
    last_seen_at     INTEGER NOT NULL,
    dwell_started_at INTEGER NOT NULL,
    row_at           INTEGER NOT NULL, -- key of its newest history row, whose stay ends at last_seen_at
    row_seq          INTEGER NOT NULL,
    history_rows     INTEGER NOT NULL
) STRICT;
CREATE TRIGGER position_added AFTER INSERT ON position BEGIN UPDATE version SET records = records + 1; END;
CREATE TRIGGER position_removed AFTER DELETE ON position BEGIN UPDATE version SET records = records + 1; END;
CREATE INDEX position_newest ON position (organization_id, last_seen_at DESC, asset_id);
CREATE INDEX position_place ON position (location_id);

-- One row for each stay: seen first at `observed_at`, then again and again until `seen_for` later. The newest
-- row of an asset is still open: its end is the position's `last_seen_at`, so most reads write no history at all.
-- No secondary index and small numbers: a row costs about 50 bytes of disk.
CREATE TABLE history (
    position_no INTEGER NOT NULL REFERENCES position (no),
    observed_at INTEGER NOT NULL,
    seq         INTEGER NOT NULL, -- order of arrival among rows of one instant
    seen_for    INTEGER NOT NULL, -- microseconds
    source_no   INTEGER NOT NULL REFERENCES source (no),
    delay       INTEGER NOT NULL, -- received_at - observed_at
    quality     INTEGER NOT NULL, -- of the time; see edge.store.stays.Quality
    rssi        INTEGER,          -- tenths of a dBm
    PRIMARY KEY (position_no, observed_at, seq)
) STRICT, WITHOUT ROWID;

-- A scan by a person, under the id its device made: the same id again is a repeat.
CREATE TABLE handheld_scan (
    id              TEXT PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    person_id       INTEGER NOT NULL REFERENCES person (id),
    device_id       INTEGER REFERENCES device (id),
    location_id     INTEGER REFERENCES location (id),
    asset_id        INTEGER REFERENCES asset (id), -- null when the code was unknown
    code            TEXT NOT NULL,
    outcome         TEXT NOT NULL,
    observed_at     INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    seq             INTEGER,                       -- of its history row
    undone_at       INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX handheld_scan_person ON handheld_scan (person_id, received_at);
CREATE INDEX handheld_scan_asset ON handheld_scan (asset_id, observed_at) WHERE asset_id IS NOT NULL;

-- Ingest accounting -------------------------------------------------------------------------------------------

-- Every message in exactly one bucket, every read in exactly one bucket. reader_id 0: no reader claims the topic.
CREATE TABLE ledger (
    reader_id INTEGER NOT NULL,
    hour      INTEGER NOT NULL, -- hours since the epoch, by time of receipt
    bucket    TEXT NOT NULL,
    messages  INTEGER NOT NULL,
    reads     INTEGER NOT NULL,
    PRIMARY KEY (reader_id, hour, bucket)
) STRICT, WITHOUT ROWID;

-- The messages that were committed but perhaps not acknowledged when the process died: a redelivery carries the
-- same packet id, of which there are 65,535. One row for each transaction.
CREATE TABLE receipt (
    number  INTEGER PRIMARY KEY, -- of the last message in the row, counted from the first one ever
    entries BLOB NOT NULL        -- packet id (two bytes) and digest (16) of each message
) STRICT;

CREATE TABLE dead_letter (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER REFERENCES organization (id),
    reader_id       INTEGER REFERENCES reader (id),
    topic           TEXT NOT NULL,
    payload         BLOB NOT NULL,
    reason          TEXT NOT NULL,
    received_at     INTEGER NOT NULL
) STRICT;
CREATE INDEX dead_letter_reader ON dead_letter (reader_id, no);

CREATE TABLE unknown_tag (
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    tag_type        TEXT NOT NULL,
    match_key       TEXT NOT NULL,
    reader_id       INTEGER NOT NULL DEFAULT 0, -- 0: seen by a handheld
    value           TEXT NOT NULL,
    reason          TEXT NOT NULL,              -- unmatched or ambiguous
    first_seen_at   INTEGER NOT NULL,
    last_seen_at    INTEGER NOT NULL,
    sightings       INTEGER NOT NULL,
    location_id     INTEGER REFERENCES location (id),
    PRIMARY KEY (organization_id, tag_type, match_key, reader_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX unknown_tag_recent ON unknown_tag (organization_id, last_seen_at DESC);

-- Topics that are heard but set up for nobody, so they belong to no organization yet.
CREATE TABLE unclaimed_topic (
    topic          TEXT PRIMARY KEY,
    first_heard_at INTEGER NOT NULL,
    last_heard_at  INTEGER NOT NULL,
    messages       INTEGER NOT NULL,
    sample         BLOB NOT NULL
) STRICT, WITHOUT ROWID;
