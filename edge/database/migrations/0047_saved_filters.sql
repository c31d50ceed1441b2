-- Filters of the board that were saved under a name, and lists of them by email.

-- A saved filter (JSON). Seen by viewers, saved and removed by editors, sent by email by administrators; all are audited.
-- `minute` is that of the local day at which the list is sent, `weekday` is 0 for Monday and NULL for every day. Bound: 100 in an
-- organization, 20 of them by email (quotas). Retention: until it is removed. Backup: with the database. Sync: none. Personal
-- data: possibly in the search text.
CREATE TABLE saved_filter (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    filter          TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    channel_no      INTEGER REFERENCES channel (no) ON DELETE SET NULL,
    minute          INTEGER NOT NULL DEFAULT 360 CHECK (minute BETWEEN 0 AND 1439),
    weekday         INTEGER CHECK (weekday BETWEEN 0 AND 6),
    next_at         INTEGER
) STRICT;
CREATE UNIQUE INDEX saved_filter_name ON saved_filter (organization_id, name COLLATE NOCASE);
CREATE INDEX saved_filter_due ON saved_filter (next_at) WHERE channel_no IS NOT NULL;
CREATE INDEX saved_filter_channel ON saved_filter (channel_no) WHERE channel_no IS NOT NULL;

-- The file that a waiting message brings. Everything as for the message; at most 1 MB, at most 20 in a channel.
CREATE TABLE channel_file (
    message_no INTEGER PRIMARY KEY REFERENCES channel_message (no) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    content    BLOB NOT NULL CHECK (length(content) <= 1048576)
) STRICT;
