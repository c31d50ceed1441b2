-- Channels: how people are notified of alerts, and the messages that wait to be sent.

-- A channel with its settings (JSON, by kind) and its sealed password or token. `digest` is in seconds, 0 sends at once.
-- Quiet hours are minutes after local midnight. The columns from `failures` on are the progress of sending. Seen and
-- changed by administrators, audited; the progress is not. Bound: 50 in an organization (quotas). Retention: until it is
-- removed. Backup: with the database, the key of sealed secrets excepted. Sync: none. Personal data: addresses of
-- recipients.
CREATE TABLE channel (
    no                INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id   INTEGER NOT NULL REFERENCES organization (id),
    kind              TEXT NOT NULL,
    name              TEXT NOT NULL,
    settings          TEXT NOT NULL,
    secret            BLOB NOT NULL,
    network           TEXT NOT NULL,
    digest            INTEGER NOT NULL DEFAULT 0 CHECK (digest >= 0),
    quiet_from        INTEGER CHECK (quiet_from BETWEEN 0 AND 1439),
    quiet_until       INTEGER CHECK (quiet_until BETWEEN 0 AND 1439),
    is_sent_when_over INTEGER NOT NULL DEFAULT 1,
    created_at        INTEGER NOT NULL,
    disabled_at       INTEGER,
    failures          INTEGER NOT NULL DEFAULT 0,
    failing_since     INTEGER,
    next_try_at       INTEGER NOT NULL DEFAULT 0,
    last_error        TEXT,
    last_success_at   INTEGER,
    sent              INTEGER NOT NULL DEFAULT 0,
    lost              INTEGER NOT NULL DEFAULT 0,
    is_test_requested INTEGER NOT NULL DEFAULT 0,
    tested_at         INTEGER,
    test_ms           INTEGER,
    test_result       TEXT,
    is_test_ok        INTEGER
) STRICT;
CREATE UNIQUE INDEX channel_name ON channel (organization_id, name COLLATE NOCASE);

-- Messages that wait to be sent. Rules write them in the transaction that decides, so they are not audited. Nobody sees
-- them; administrators see their number. Bound: 2,000 for each channel, the oldest go first and are counted as lost.
-- Retention: until sent, at most five days of failed attempts. Backup: with the database. Sync: none. Personal data:
-- where an asset belongs to a person.
CREATE TABLE channel_message (
    no          INTEGER PRIMARY KEY AUTOINCREMENT,
    channel_no  INTEGER NOT NULL REFERENCES channel (no) ON DELETE CASCADE,
    enqueued_at INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    next_try_at INTEGER NOT NULL DEFAULT 0,
    subject     TEXT NOT NULL,
    text        TEXT NOT NULL,
    rule_no     INTEGER NOT NULL,
    alert_no    INTEGER,
    asset_id    INTEGER,
    occurred_at INTEGER NOT NULL,
    is_over     INTEGER NOT NULL,
    is_late     INTEGER NOT NULL
) STRICT;
CREATE INDEX channel_message_of ON channel_message (channel_no, no);
