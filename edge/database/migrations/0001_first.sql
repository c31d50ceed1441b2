-- Times are integers: microseconds since the epoch, UTC. Every table of a customer's data names its organization.

CREATE TABLE instance (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id_key      BLOB NOT NULL,              -- key of the permutation that makes public ids
    id_count    INTEGER NOT NULL DEFAULT 0, -- how many ids were ever given out; never goes back
    badge_key   BLOB NOT NULL,              -- keys the hashes of badges; the key of tokens is in no database
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
    created_at INTEGER NOT NULL,
    -- MQTT topics from here down are its own. One organization may have none: it owns what nobody else does.
    topic_prefix TEXT
) STRICT;
CREATE UNIQUE INDEX organization_topics ON organization (ifnull(topic_prefix, ''));

-- People ------------------------------------------------------------------------------------------------------

CREATE TABLE person (
    id              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    email           TEXT COLLATE NOCASE, -- null for an operator who signs in by badge or name only
    name            TEXT NOT NULL,
    role            TEXT NOT NULL CHECK (role IN ('administrator', 'editor', 'operator', 'viewer')),
    password_hash   TEXT,
    pin_hash        TEXT,
    wrong_pins      INTEGER NOT NULL DEFAULT 0, -- since the PIN was set
    badge_hash      BLOB,                       -- keyed hash of the badge's code
    language        TEXT,                       -- of the pages they see; null: as the browser asks
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    disabled_at     INTEGER
) STRICT;
-- Unique in each organization only: otherwise one would learn whom another knows.
CREATE UNIQUE INDEX person_email ON person (email, organization_id) WHERE email IS NOT NULL;
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

-- Who was signed in on a shared device, and when: a scan that arrives late is theirs only if they were.
CREATE TABLE device_use (
    no        INTEGER PRIMARY KEY,
    device_id INTEGER NOT NULL REFERENCES device (id),
    person_id INTEGER NOT NULL REFERENCES person (id),
    began_at  INTEGER NOT NULL,
    ended_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX device_use_person ON device_use (device_id, person_id, ended_at);
CREATE TRIGGER web_session_ended AFTER DELETE ON web_session WHEN old.device_id IS NOT NULL BEGIN
    INSERT INTO device_use (device_id, person_id, began_at, ended_at)
    VALUES (old.device_id, old.person_id, old.created_at,
            min(old.expires_at, CAST(strftime('%s', 'now') AS INTEGER) * 1000000));
END;

-- Who changed what. Names are those of the time, so that a line can be read when its record is long gone.
CREATE TABLE audit (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER REFERENCES organization (id), -- null for what concerns the box
    at              INTEGER NOT NULL,
    actor_kind      TEXT NOT NULL, -- person, api_key, shell, device, reader, hub, service
    actor_id        TEXT,          -- of a person, key, device, reader or hub
    actor_name      TEXT NOT NULL,
    device_name     TEXT,          -- of the shared device on which the person acted
    action          TEXT NOT NULL, -- asset.created
    subject_kind    TEXT NOT NULL,
    subject_id      TEXT NOT NULL,
    subject_name    TEXT NOT NULL,
    detail          TEXT NOT NULL  -- JSON
) STRICT;
CREATE INDEX audit_recent ON audit (organization_id, at);
CREATE INDEX audit_subject ON audit (subject_id, at);
CREATE INDEX audit_actor ON audit (actor_id, at) WHERE actor_id IS NOT NULL;

CREATE TABLE label_printer (
    organization_id INTEGER PRIMARY KEY REFERENCES organization (id),
    address         TEXT NOT NULL, -- host:port on the site's network
    paper           TEXT NOT NULL, -- one of edge.labels.papers
    dots_per_mm     INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;

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
CREATE TABLE token_family (
    no         INTEGER PRIMARY KEY,
    api_key_id TEXT NOT NULL REFERENCES api_key (id),
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
CREATE INDEX token_family_key ON token_family (api_key_id);

CREATE TABLE refresh_token (
    token_hash BLOB PRIMARY KEY,
    family_id   INTEGER NOT NULL REFERENCES token_family (no) ON DELETE CASCADE,
    expires_at INTEGER NOT NULL,
    spent_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX refresh_token_family ON refresh_token (family_id);

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
CREATE INDEX asset_key_in_any_case ON asset (organization_id, external_key COLLATE NOCASE) WHERE deleted_at IS NULL;
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
CREATE INDEX location_key_in_any_case ON location (organization_id, external_key COLLATE NOCASE)
    WHERE deleted_at IS NULL;
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
    gs1_key         TEXT,          -- what the value means by GS1's standards, whatever its type and spelling
    created_at      INTEGER NOT NULL,
    deleted_at      INTEGER,
    CHECK ((asset_id IS NULL) <> (location_id IS NULL))
) STRICT;
CREATE UNIQUE INDEX tag_live_value ON tag (organization_id, tag_type, value) WHERE deleted_at IS NULL;
CREATE INDEX tag_match ON tag (organization_id, tag_type, match_key) WHERE deleted_at IS NULL;
CREATE INDEX tag_gs1 ON tag (organization_id, gs1_key) WHERE deleted_at IS NULL AND gs1_key IS NOT NULL;
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
    status_topic    TEXT,          -- MQTT topic filter of its status and its last will, where that is another one
    format          TEXT NOT NULL,
    mapping         TEXT,          -- JSON, of the format that is configured
    location_id     INTEGER REFERENCES location (id), -- of antennas without one of their own
    min_rssi        REAL,
    clock_setting   TEXT NOT NULL DEFAULT 'auto', -- auto, reader, receipt, or a time zone; see edge.store.reader_clocks
    is_enabled           INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
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
    is_enabled       INTEGER NOT NULL DEFAULT 1 CHECK (is_enabled IN (0, 1)),
    PRIMARY KEY (reader_id, port)
) STRICT, WITHOUT ROWID;

-- Antennas that have names: the port stands for the name wherever antennas have numbers.
CREATE TABLE antenna_name (
    reader_id INTEGER NOT NULL REFERENCES reader (id),
    name      TEXT NOT NULL,
    port      INTEGER NOT NULL,
    PRIMARY KEY (reader_id, name),
    UNIQUE (reader_id, port)
) STRICT, WITHOUT ROWID;

-- What being heard by an antenna means, where it is not a zone: said for one antenna, a reader (port is null), or all
-- antennas at a location and below.
CREATE TABLE antenna_kind (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    reader_id       INTEGER REFERENCES reader (id),
    port            INTEGER,
    location_id     INTEGER REFERENCES location (id),
    kind            TEXT NOT NULL CHECK (kind IN ('zone', 'portal', 'direct')),
    CHECK ((reader_id IS NULL) <> (location_id IS NULL))
) STRICT;
CREATE UNIQUE INDEX antenna_kind_subject ON antenna_kind (ifnull(reader_id, location_id), ifnull(port, -1));
CREATE TRIGGER antenna_kind_added AFTER INSERT ON antenna_kind BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER antenna_kind_removed AFTER DELETE ON antenna_kind BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER location_moved AFTER UPDATE OF parent_id ON location BEGIN UPDATE version SET readers = readers + 1; END;

-- The reader's account at the broker, whose password file is written from these rows.
CREATE TABLE broker_account (
    reader_id     INTEGER PRIMARY KEY REFERENCES reader (id),
    name          TEXT NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 64 AND name NOT GLOB '*[^a-z0-9-]*'),
    password_hash TEXT NOT NULL, -- in mosquitto's form
    created_at    INTEGER NOT NULL
) STRICT;

CREATE TRIGGER reader_added AFTER INSERT ON reader BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER reader_changed AFTER UPDATE ON reader BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER antenna_added AFTER INSERT ON antenna BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER antenna_changed AFTER UPDATE ON antenna BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER antenna_removed AFTER DELETE ON antenna BEGIN UPDATE version SET readers = readers + 1; END;
-- A soft-deleted location no longer gives its readers a location, a soft-deleted asset no longer takes scans.
CREATE TRIGGER location_gone AFTER UPDATE OF deleted_at ON location BEGIN UPDATE version SET readers = readers + 1; END;

-- What readers last did; written by the ingest writer, so that it does not touch `reader` and wake its triggers.
CREATE TABLE reader_state (
    reader_id     INTEGER PRIMARY KEY REFERENCES reader (id),
    last_heard_at INTEGER NOT NULL, -- any recognised message
    last_read_at  INTEGER,
    clock_offset  INTEGER,          -- microseconds the reader's clock is ahead; null: not known yet
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
    port            INTEGER,                        -- null where the reader has no antennas
    site_no         INTEGER REFERENCES site (no),   -- on a hub: the site whose reader or person it was
    remote_reader   INTEGER,                        -- the ids of these at the site; `remote_name` has their names
    remote_person   INTEGER
) STRICT;
CREATE UNIQUE INDEX source_origin ON source (
    location_id, ifnull(reader_id, 0), ifnull(port, -1), ifnull(site_no, 0), ifnull(remote_reader, 0),
    ifnull(remote_person, 0)
);

-- What one box knows of one asset. An ordinary box has one track for each scanned asset, its own; a hub also keeps one
-- for every site that saw the asset. Numbers are never used again: a site names its tracks by them.
CREATE TABLE track (
    no               INTEGER PRIMARY KEY AUTOINCREMENT,
    asset_id         INTEGER NOT NULL REFERENCES asset (id),
    site_no          INTEGER REFERENCES site (no), -- null: seen by this box itself
    remote_no        INTEGER,                      -- its number at the site
    organization_id  INTEGER NOT NULL REFERENCES organization (id),
    location_id      INTEGER NOT NULL REFERENCES location (id),
    last_seen_at     INTEGER NOT NULL,
    dwell_started_at INTEGER NOT NULL,
    row_at           INTEGER NOT NULL, -- key of its newest history row, whose stay ends at last_seen_at
    row_seq          INTEGER NOT NULL,
    row_rule         INTEGER NOT NULL DEFAULT 0,
    history_rows     INTEGER NOT NULL,
    is_newest        INTEGER NOT NULL DEFAULT 1 -- of the tracks of its asset; kept by triggers where there are several
) STRICT;
CREATE UNIQUE INDEX track_asset ON track (asset_id, ifnull(site_no, 0), ifnull(remote_no, 0));
CREATE UNIQUE INDEX track_remote ON track (site_no, remote_no) WHERE site_no IS NOT NULL;
CREATE INDEX track_newest ON track (organization_id, last_seen_at DESC, asset_id) WHERE is_newest = 1;
CREATE INDEX track_location ON track (location_id) WHERE is_newest = 1;
CREATE TRIGGER track_added AFTER INSERT ON track BEGIN UPDATE version SET records = records + 1; END;
CREATE TRIGGER track_removed AFTER DELETE ON track BEGIN UPDATE version SET records = records + 1; END;

-- The newest scan of each scanned asset, whichever box made it.
CREATE VIEW position AS
    SELECT no, asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, row_seq, history_rows
    FROM track WHERE is_newest = 1;

-- One row for each stay: seen first at `observed_at`, then again and again until `seen_for` later. The newest
-- row of an asset is still open: its end is the track's `last_seen_at`, so most reads write no history at all.
-- No secondary index and small numbers: a row costs about 50 bytes of disk.
CREATE TABLE history (
    position_no INTEGER NOT NULL REFERENCES track (no),
    observed_at INTEGER NOT NULL,
    seq         INTEGER NOT NULL, -- order of arrival among rows of one instant
    seen_for    INTEGER NOT NULL, -- microseconds
    source_no   INTEGER NOT NULL REFERENCES source (no),
    delay       INTEGER NOT NULL, -- received_at - observed_at
    quality     INTEGER NOT NULL, -- of the time; see edge.store.stays.Quality
    rssi        INTEGER,          -- tenths of a dBm
    rule        INTEGER NOT NULL DEFAULT 0, -- why it is there; see edge.store.evidence.Rule
    PRIMARY KEY (position_no, observed_at, seq)
) STRICT, WITHOUT ROWID;

-- The reads of the last minutes, from which positions are decided: one row for each batch, see edge.store.recent_reads.
CREATE TABLE recent_read (
    no           INTEGER PRIMARY KEY,
    received_at  INTEGER NOT NULL,
    until        INTEGER NOT NULL, -- no read of the batch was observed later
    gap          INTEGER NOT NULL, -- microseconds; the sighting gap in force
    bytes_before INTEGER NOT NULL, -- in all batches before it, ever
    reads        BLOB NOT NULL
) STRICT;

-- A scan by a person, under the id its device made: the same id again is a repeat.
CREATE TABLE handheld_scan (
    id              TEXT PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    person_id       INTEGER NOT NULL REFERENCES person (id), -- who made it
    sent_by         INTEGER NOT NULL REFERENCES person (id), -- who was signed in when it arrived
    device_id       INTEGER REFERENCES device (id),
    location_id     INTEGER REFERENCES location (id),
    asset_id        INTEGER REFERENCES asset (id), -- null when the code was unknown
    code            TEXT NOT NULL,
    outcome         TEXT NOT NULL,
    observed_at     INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    seq             INTEGER,                       -- of its history row
    undone_at       INTEGER,
    waits_for       TEXT                           -- while the code is unknown: what a tag that fits has in common with it
) STRICT, WITHOUT ROWID;
CREATE INDEX handheld_scan_waiting ON handheld_scan (organization_id, waits_for) WHERE waits_for IS NOT NULL;
CREATE INDEX handheld_scan_person ON handheld_scan (person_id, received_at);
CREATE INDEX handheld_scan_asset ON handheld_scan (asset_id, observed_at) WHERE asset_id IS NOT NULL;

-- What is, or was, on which carrier. While it is on it, it goes where the carrier is seen.
CREATE TABLE carrier_load (
    asset_id    INTEGER NOT NULL REFERENCES asset (id),
    loaded_at   INTEGER NOT NULL,
    carrier_id  INTEGER NOT NULL REFERENCES asset (id),
    loaded_by   INTEGER REFERENCES person (id),
    location_id INTEGER REFERENCES location (id), -- where the carrier took it last
    unloaded_at INTEGER,
    PRIMARY KEY (asset_id, loaded_at)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX carrier_load_open ON carrier_load (asset_id) WHERE unloaded_at IS NULL;
CREATE INDEX carrier_load_carrier ON carrier_load (carrier_id);

-- What should be at a location compared with what is. Scans are kept here until somebody signs off, and are recorded
-- then; the lines are the result as it was at that moment.
CREATE TABLE stock_take (
    id                TEXT PRIMARY KEY, -- made by the device that began it
    organization_id   INTEGER NOT NULL REFERENCES organization (id),
    location_id       INTEGER NOT NULL REFERENCES location (id),
    with_sublocations INTEGER NOT NULL CHECK (with_sublocations IN (0, 1)),
    started_at        INTEGER NOT NULL,
    started_by        INTEGER NOT NULL REFERENCES person (id),
    finished_at       INTEGER,
    finished_by       INTEGER REFERENCES person (id),
    cancelled_at      INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX stock_take_newest ON stock_take (organization_id, started_at);

CREATE TABLE stock_take_expected (
    stock_take_id TEXT NOT NULL REFERENCES stock_take (id),
    asset_id      INTEGER NOT NULL REFERENCES asset (id),
    PRIMARY KEY (stock_take_id, asset_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE stock_take_scan (
    id            TEXT PRIMARY KEY, -- of the scan, as in handheld_scan
    stock_take_id TEXT NOT NULL REFERENCES stock_take (id),
    location_id   INTEGER NOT NULL REFERENCES location (id),
    person_id     INTEGER NOT NULL REFERENCES person (id),
    device_id     INTEGER REFERENCES device (id),
    code          TEXT NOT NULL,
    asset_id      INTEGER REFERENCES asset (id), -- null when the code is unknown
    observed_at   INTEGER NOT NULL,
    received_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX stock_take_scan_of ON stock_take_scan (stock_take_id, asset_id);

CREATE TABLE stock_take_line (
    stock_take_id TEXT NOT NULL REFERENCES stock_take (id),
    no            INTEGER NOT NULL,
    result        TEXT NOT NULL,              -- here, elsewhere, missing or unknown
    asset_id      INTEGER REFERENCES asset (id),
    code          TEXT NOT NULL,
    how           TEXT NOT NULL,              -- scan or reader
    location_id   INTEGER REFERENCES location (id), -- where it was seen last, and when
    seen_at       INTEGER,
    PRIMARY KEY (stock_take_id, no)
) STRICT, WITHOUT ROWID;

-- Assets that somebody marked as lost. The mark counts until the asset is seen again.
CREATE TABLE lost_asset (
    asset_id        INTEGER PRIMARY KEY REFERENCES asset (id),
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    marked_at       INTEGER NOT NULL,
    marked_by       INTEGER NOT NULL REFERENCES person (id)
) STRICT;

-- Ingest accounting -------------------------------------------------------------------------------------------

-- Every message in exactly one bucket, every read in exactly one bucket. reader_id 0: no reader claims the topic.
CREATE TABLE ledger (
    reader_id INTEGER NOT NULL,
    hour      INTEGER NOT NULL, -- hours since the epoch, by time of receipt
    bucket    TEXT NOT NULL,
    messages  INTEGER NOT NULL,
    reads     INTEGER NOT NULL,
    not_kept  INTEGER NOT NULL DEFAULT 0, -- of these, how many are only counted: there was no room for more of the reader's
    PRIMARY KEY (reader_id, hour, bucket)
) STRICT, WITHOUT ROWID;

-- The messages that were committed but perhaps not acknowledged when the process died: a redelivery carries the
-- same packet id, of which there are 65,535. One row for each transaction.
CREATE TABLE receipt (
    number  INTEGER PRIMARY KEY, -- of the last message in the row, counted from the first one ever
    entries BLOB NOT NULL        -- packet id (two bytes), whether recorded (one), and digest (16) of each message
) STRICT;

CREATE TABLE dead_letter (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER REFERENCES organization (id),
    reader_id       INTEGER REFERENCES reader (id),
    topic           TEXT NOT NULL,
    payload         BLOB NOT NULL,    -- of a message that was too large only its beginning
    size            INTEGER NOT NULL, -- of the whole message
    reason          TEXT NOT NULL,
    received_at     INTEGER NOT NULL,
    kept_bytes      INTEGER NOT NULL GENERATED ALWAYS AS (length(payload) + length(topic)) STORED
) STRICT;
CREATE INDEX dead_letter_reader ON dead_letter (reader_id, no, kept_bytes);

-- Messages that wait for some seconds, until it is known how far their reader's clock is off.
CREATE TABLE held_message (
    no          INTEGER PRIMARY KEY,
    reader_id   INTEGER NOT NULL REFERENCES reader (id),
    topic       TEXT NOT NULL,
    payload     BLOB NOT NULL,
    received_at INTEGER NOT NULL,
    newest      INTEGER NOT NULL -- of its reads, by the reader's clock
) STRICT;
CREATE INDEX held_message_reader ON held_message (reader_id, no);

-- The last few messages of each reader that its format does not know, so that a wrong format can be seen.
CREATE TABLE ignored_message (
    no          INTEGER PRIMARY KEY,
    reader_id   INTEGER NOT NULL REFERENCES reader (id),
    topic       TEXT NOT NULL,
    payload     BLOB NOT NULL,    -- its beginning
    size        INTEGER NOT NULL, -- of the whole message
    note        TEXT,             -- why, where the format can tell
    received_at INTEGER NOT NULL
) STRICT;
CREATE INDEX ignored_message_reader ON ignored_message (reader_id, no);

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
CREATE INDEX unknown_tag_reader ON unknown_tag (organization_id, reader_id, last_seen_at);

-- Messages that did not count, or not wholly, for a while: in packs of one reader and one batch, compressed.
CREATE TABLE raw_message (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER REFERENCES organization (id), -- null: outside of what any organization owns
    reader_id       INTEGER NOT NULL,                     -- 0: no reader claims the topic
    received_at     INTEGER NOT NULL,                     -- of the newest message in it
    waits_for       BLOB NOT NULL,                        -- four bytes of hash for each tag in it that no asset has
    data            BLOB NOT NULL,
    size            INTEGER NOT NULL                      -- of the row
) STRICT;
CREATE INDEX raw_message_reader ON raw_message (reader_id, organization_id, no);
CREATE INDEX raw_message_age ON raw_message (received_at);

-- What was set up since and may make those count: a reader, or a tag.
CREATE TABLE replay (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    reader_id       INTEGER REFERENCES reader (id),
    tag_hash        BLOB
) STRICT;

-- Topics that are heard but set up for no reader.
CREATE TABLE unassigned_topic (
    topic           TEXT PRIMARY KEY,
    first_heard_at  INTEGER NOT NULL,
    last_heard_at   INTEGER NOT NULL,
    messages        INTEGER NOT NULL,
    sample          BLOB NOT NULL,
    organization_id INTEGER REFERENCES organization (id) -- null: outside of what any organization owns
) STRICT, WITHOUT ROWID;
CREATE INDEX unassigned_topic_recent ON unassigned_topic (organization_id, last_heard_at);

-- The drawing of an area, and where on it locations are.
CREATE TABLE floor_plan (
    location_id     INTEGER PRIMARY KEY REFERENCES location (id), -- the area
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    media_type      TEXT NOT NULL,
    width           INTEGER NOT NULL, -- pixels
    height          INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    image           BLOB NOT NULL
) STRICT;

CREATE TABLE floor_shape (
    plan_id     INTEGER NOT NULL REFERENCES floor_plan (location_id) ON DELETE CASCADE,
    location_id INTEGER NOT NULL REFERENCES location (id),
    points      TEXT NOT NULL, -- JSON: [x, y] in thousandths of the plan's width and height
    PRIMARY KEY (plan_id, location_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX floor_shape_location ON floor_shape (location_id);

-- What somebody does not want to be told of any more: unknown tags, and topics of no reader.
CREATE TABLE dismissal (
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    kind            TEXT NOT NULL CHECK (kind IN ('tag', 'topic')),
    subject         TEXT NOT NULL, -- type:match_key of a tag, or a topic filter
    name            TEXT NOT NULL, -- as it was shown
    dismissed_at    INTEGER NOT NULL,
    PRIMARY KEY (organization_id, kind, subject)
) STRICT, WITHOUT ROWID;

-- Sync: what changed here ------------------------------------------------------------------------------------

-- Which rows changed, in the order of the commits; what they are now is read when it is sent. Filled by triggers that
-- exist only while a hub, or a site below this hub, wants to know: see edge.store.changes. AUTOINCREMENT, since an
-- emptied table must never use a number again.
CREATE TABLE change (
    seq  INTEGER PRIMARY KEY AUTOINCREMENT,
    kind INTEGER NOT NULL, -- see edge.store.changes.Kind
    a    INTEGER NOT NULL,
    b    INTEGER,
    c    INTEGER
) STRICT;

-- Sync: this box is a site of a hub --------------------------------------------------------------------------

CREATE TABLE target (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    url             TEXT NOT NULL,
    code            TEXT NOT NULL, -- of this site at the hub
    hub_name        TEXT NOT NULL,
    client_id       TEXT NOT NULL, -- its secret is in a file of its own
    joined_at       INTEGER NOT NULL,
    paused_at       INTEGER,
    stopped         TEXT,          -- why it stopped for good, in words
    epoch           TEXT NOT NULL, -- of this database; a restored one gets a new one
    former_epochs   TEXT NOT NULL DEFAULT '[]', -- JSON
    acked_seq       INTEGER NOT NULL DEFAULT 0, -- the hub has everything up to here on its disk
    chain           BLOB NOT NULL DEFAULT x'',  -- over all batches it acknowledged
    board_at        INTEGER,                    -- the hub knows where everything was at this time
    pending         BLOB,                       -- the batch on its way, stored before it is sent
    pending_seq     INTEGER,
    pending_board_at INTEGER,                   -- what `board_at` will be with it; null while it does not tell all
    horizon         INTEGER NOT NULL DEFAULT 0, -- retention dropped history that ended before; nothing is said of it
    restored_from   INTEGER,                    -- after a restore: the hub may know more than this box from here on
    recovering      TEXT,                       -- JSON: how far records and history are back from the hub
    verify_wanted   INTEGER NOT NULL DEFAULT 0, -- the feed does not tell all that differs
    verify_from     INTEGER,                    -- the next day (since the epoch) of the comparison that is under way
    verify_found    INTEGER NOT NULL DEFAULT 0, -- differences in it so far
    verified_at     INTEGER,
    verify_result   TEXT,                       -- in words
    master_seq      INTEGER NOT NULL DEFAULT 0, -- master data of the hub is here up to its change
    hub_epoch       TEXT,
    clock_offset    INTEGER,
    last_contact_at INTEGER,
    last_commit_at  INTEGER,
    last_error      TEXT,
    last_error_at   INTEGER,
    day             INTEGER NOT NULL DEFAULT 0, -- days since the epoch, of the two counters
    bytes_sent      INTEGER NOT NULL DEFAULT 0,
    bytes_received  INTEGER NOT NULL DEFAULT 0
) STRICT;

-- When the hub was last told that each track was seen. Most reads change nothing but that, so they are found by
-- comparing: a trigger would look at every one of them.
CREATE TABLE told (
    track_no     INTEGER PRIMARY KEY,
    last_seen_at INTEGER NOT NULL
) STRICT;

-- Where the site can go back to when the hub was restored from a backup.
CREATE TABLE checkpoint (
    seq   INTEGER PRIMARY KEY,
    chain BLOB NOT NULL,
    at    INTEGER NOT NULL
) STRICT;

-- Sync: this box is the hub of sites -------------------------------------------------------------------------

CREATE TABLE site (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    code            TEXT NOT NULL,
    name            TEXT NOT NULL,
    location_id     INTEGER NOT NULL REFERENCES location (id), -- its locations are below this one
    api_key_id      TEXT UNIQUE REFERENCES api_key (id),       -- null until it has joined
    join_hash       BLOB UNIQUE,                               -- of the one-time code; null once used
    join_until      INTEGER,
    instance        TEXT,                                      -- which box it is
    epoch           TEXT,                                      -- which state of its database
    acked_seq       INTEGER NOT NULL DEFAULT 0,
    chain           BLOB NOT NULL DEFAULT x'',
    horizon         INTEGER NOT NULL DEFAULT 0, -- the site says nothing of history that ended before
    report          TEXT NOT NULL DEFAULT '{}', -- what it last told of itself, JSON
    last_contact_at INTEGER,
    last_commit_at  INTEGER,
    last_error      TEXT,          -- why it was refused the last time, in words
    last_error_at   INTEGER,
    day             INTEGER NOT NULL DEFAULT 0,
    bytes_received  INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    removed_at      INTEGER
) STRICT;
CREATE UNIQUE INDEX site_live_code ON site (organization_id, code) WHERE removed_at IS NULL;

-- A hub that was restored from a backup has another epoch, and its sites fetch its master data anew.
CREATE TABLE hub (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    epoch   TEXT NOT NULL,
    horizon INTEGER NOT NULL DEFAULT 0 -- retention of this hub dropped history that ended before
) STRICT;

-- Epochs of databases that were replaced: a box that still has one is a copy, and must not speak for the site.
CREATE TABLE retired_epoch (
    site_no    INTEGER NOT NULL REFERENCES site (no),
    epoch      TEXT NOT NULL,
    retired_at INTEGER NOT NULL,
    PRIMARY KEY (site_no, epoch)
) STRICT, WITHOUT ROWID;

-- Names of a site's readers and people, for the history it sent.
CREATE TABLE remote_name (
    site_no   INTEGER NOT NULL, -- 0: of this box itself, before it was recovered from its hub
    remote_id INTEGER NOT NULL,
    kind      INTEGER NOT NULL, -- Kind.READER or Kind.PERSON
    name      TEXT NOT NULL,
    PRIMARY KEY (site_no, kind, remote_id)
) STRICT, WITHOUT ROWID;

-- Sync: both -------------------------------------------------------------------------------------------------

-- Which record of another box is which of ours. `peer` is the number of a site, or 0 for the hub above.
CREATE TABLE link (
    peer      INTEGER NOT NULL,
    remote_id INTEGER NOT NULL,
    local_id  INTEGER NOT NULL, -- of an asset or a location
    PRIMARY KEY (peer, remote_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX link_local ON link (local_id);

-- Records whose home is another box: they are shown and tracked here, and changed there.
CREATE TABLE mirror (
    record_id INTEGER PRIMARY KEY, -- of an asset or a location
    peer      INTEGER NOT NULL,    -- where its changes come from, as in `link`
    home      TEXT NOT NULL        -- the name of that box, for people
) STRICT;

-- A record that came from another box and clashes with one that is here: kept as it came, until somebody decides.
CREATE TABLE conflict (
    peer      INTEGER NOT NULL,
    remote_id INTEGER NOT NULL,
    kind      INTEGER NOT NULL,
    local_id  INTEGER NOT NULL, -- of the clashing record here
    reason    TEXT NOT NULL,
    record    TEXT NOT NULL,    -- JSON, as it came
    since     INTEGER NOT NULL,
    PRIMARY KEY (peer, remote_id)
) STRICT, WITHOUT ROWID;

-- What could not be taken, so that the rest could go on.
CREATE TABLE set_aside (
    no     INTEGER PRIMARY KEY,
    peer   INTEGER NOT NULL,
    what   TEXT NOT NULL, -- in words
    reason TEXT NOT NULL,
    since  INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX set_aside_what ON set_aside (peer, what);

-- Outbound events --------------------------------------------------------------------------------------------

-- What may have to be told, in the order of the commits. Filled by triggers that exist only while somebody is told: see
-- edge.store.event_making.
CREATE TABLE event_candidate (
    no   INTEGER PRIMARY KEY,
    kind INTEGER NOT NULL, -- see edge.store.event_making.Candidate
    key  INTEGER NOT NULL
) STRICT;

-- What was told of each asset and reader last: an event is what differs now.
CREATE TABLE event_asset (
    asset_id    INTEGER PRIMARY KEY REFERENCES asset (id),
    is_live     INTEGER NOT NULL,
    location_id INTEGER REFERENCES location (id), -- null: it was never seen, or is unseen
    observed_at INTEGER                           -- of the last stay that was told
) STRICT;

CREATE TABLE event_reader (
    reader_id  INTEGER PRIMARY KEY REFERENCES reader (id),
    is_offline INTEGER NOT NULL
) STRICT;

CREATE TABLE event (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    nonce           TEXT NOT NULL, -- a box that was restored uses a number again, but never with the same nonce
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    kind            TEXT NOT NULL, -- see edge.store.events.EventKind
    subject_id      INTEGER NOT NULL, -- asset or reader: what is told of it is told in order
    at              INTEGER NOT NULL, -- when it happened
    made_at         INTEGER NOT NULL,
    within          TEXT NOT NULL, -- JSON: ids of the locations it happened in, each with those above it
    within_before   TEXT NOT NULL, -- of a move: those of the location it came from
    data            TEXT NOT NULL  -- JSON
) STRICT;
CREATE INDEX event_organization ON event (organization_id, seq);

-- Who is told.
CREATE TABLE event_destination (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    kind            TEXT NOT NULL CHECK (kind IN ('webhook', 'mqtt', 'stream')),
    name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    url             TEXT NOT NULL,
    topic           TEXT NOT NULL,    -- template, of MQTT
    event_kinds     TEXT NOT NULL,    -- blank-separated
    location_id     INTEGER REFERENCES location (id), -- with its sub-locations; null: all
    network         TEXT NOT NULL CHECK (network IN ('internet', 'private', 'loopback')), -- where it may be
    secret          BLOB NOT NULL,    -- encrypted to a key that is in no backup; see edge.auth.sealed
    created_at      INTEGER NOT NULL,
    disabled_at     INTEGER,
    disabled_reason TEXT,             -- why it was given up, in words; null: by hand
    seq             INTEGER NOT NULL, -- up to here every event is delivered, or waits in event_retry
    failures        INTEGER NOT NULL DEFAULT 0, -- attempts since the last success
    failing_since   INTEGER,
    next_try_at     INTEGER NOT NULL DEFAULT 0,
    last_error      TEXT,
    last_success_at INTEGER,
    delivered       INTEGER NOT NULL DEFAULT 0,
    lost            INTEGER NOT NULL DEFAULT 0, -- given up after days, or dropped from the log before they could be sent
    is_test_wanted  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX event_destination_name ON event_destination (organization_id, name);

-- Events that a receiver refused while it took others: tried again, and what follows of the same asset waits for them.
CREATE TABLE event_retry (
    destination_no INTEGER NOT NULL REFERENCES event_destination (no) ON DELETE CASCADE,
    seq            INTEGER NOT NULL,
    subject_id     INTEGER NOT NULL,
    since          INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    next_try_at    INTEGER NOT NULL,
    PRIMARY KEY (destination_no, seq)
) STRICT, WITHOUT ROWID;

-- The newest attempts of each destination.
CREATE TABLE event_attempt (
    no             INTEGER PRIMARY KEY,
    destination_no INTEGER NOT NULL REFERENCES event_destination (no) ON DELETE CASCADE,
    at             INTEGER NOT NULL,
    milliseconds   INTEGER NOT NULL,
    event_id       TEXT NOT NULL,
    event_kind     TEXT NOT NULL,
    is_delivered   INTEGER NOT NULL,
    told           TEXT NOT NULL -- what the receiver answered, in words
) STRICT;
CREATE INDEX event_attempt_destination ON event_attempt (destination_no, no);
