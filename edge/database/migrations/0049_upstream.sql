-- Upstream: a service with the v1 API that gets a copy of this box's assets, locations and tags, see edge.upstream.

-- The service of an organization: address, client id and sealed secret. `seq` is the last change of the feed that is
-- there. `walk_id` is the place in a comparison of all records, NULL if none is under way. The columns from `failures` on
-- are the progress. Seen and changed in the shell, audited; the progress is not. Bound: one in an organization.
-- Retention: until it is removed. Backup: with the database, the key of sealed secrets excepted. Sync: none. Personal
-- data: none.
CREATE TABLE upstream (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL UNIQUE REFERENCES organization (id),
    url             TEXT NOT NULL,
    network         TEXT NOT NULL,
    client_id       TEXT NOT NULL,
    secret          BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    paused_at       INTEGER,
    seq             INTEGER NOT NULL,
    walk_id         INTEGER,
    walked_at       INTEGER,
    failures        INTEGER NOT NULL DEFAULT 0,
    failing_since   INTEGER,
    next_try_at     INTEGER NOT NULL DEFAULT 0,
    last_error      TEXT,
    last_success_at INTEGER,
    written         INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A record and its counterpart at the service. `base` has hashes of the fields that the service had after the last
-- write, `sent` those of this box's values then, NULL if equal, and `sending` those of a write whose answer is not
-- stored yet; `sending_key` is the key of such a record that is not known to exist there. `trouble` says why the record is not equal there. Seen and changed as above; the decision to overwrite is
-- audited. Bound: the records of the organization. Retention: until the record is deleted there, or the upstream is
-- removed. Backup: with the database. Sync: none. Personal data: none, since hashes are of whole values.
CREATE TABLE upstream_record (
    upstream_no  INTEGER NOT NULL REFERENCES upstream (no) ON DELETE CASCADE,
    record_id    INTEGER NOT NULL,
    kind         INTEGER NOT NULL CHECK (kind IN (2, 3)),
    remote_id    INTEGER,
    base         TEXT,
    sent         TEXT,
    sending      TEXT,
    sending_key  TEXT,
    is_forced    INTEGER NOT NULL DEFAULT 0,
    trouble_kind TEXT,
    trouble      TEXT,
    trouble_at   INTEGER,
    attempts     INTEGER NOT NULL DEFAULT 0,
    retry_at     INTEGER,
    PRIMARY KEY (upstream_no, record_id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX upstream_record_remote ON upstream_record (upstream_no, remote_id) WHERE remote_id IS NOT NULL;
CREATE INDEX upstream_record_due ON upstream_record (upstream_no, retry_at) WHERE retry_at IS NOT NULL;
