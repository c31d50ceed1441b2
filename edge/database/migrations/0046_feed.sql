-- The open feed: other programs read all changes from the table `change`, see edge.feed.

-- One row while the feed is open. `horizon`: retention dropped history that ended before. Seen and changed by nobody but
-- the program, not audited. Bound: one row. Retention: until the last reader is forgotten. Backup: with the database.
-- Sync: none. Personal data: none.
CREATE TABLE feed (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    horizon INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A program that reads the feed, from its first request on. `number` is the newest change that it has fetched. Seen by
-- administrators; not audited, since it changes nothing. Bound: 10 for each API key, 50 in an organization. Retention:
-- 30 days after its last request. Backup: with the database, but a restored one forgets all readers. Sync: none.
-- Personal data: none.
CREATE TABLE feed_reader (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    api_key_id      TEXT NOT NULL REFERENCES api_key (id),
    site_no         INTEGER,
    created_at      INTEGER NOT NULL,
    read_at         INTEGER NOT NULL,
    number          INTEGER NOT NULL
) STRICT;
CREATE INDEX feed_reader_of ON feed_reader (organization_id, api_key_id);

-- A random mark for each cursor of a reader. A database whose files were copied back reaches the same numbers again, but
-- has other marks, so a later cursor is recognized and refused. Bound and retention: the newest 1,000 of a reader. All
-- else as above.
CREATE TABLE feed_mark (
    reader_no INTEGER NOT NULL REFERENCES feed_reader (no) ON DELETE CASCADE,
    number    INTEGER NOT NULL,
    mark      TEXT NOT NULL,
    PRIMARY KEY (reader_no, number)
) STRICT, WITHOUT ROWID;

-- Changes of records, which a hub with an open feed finds among many of history.
CREATE INDEX change_of_record ON change (seq) WHERE kind IN (2, 3);
