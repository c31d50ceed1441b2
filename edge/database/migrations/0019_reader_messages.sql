-- The last few messages of each reader that had reads, which a new release is tried with before it takes over.
-- Who sees it: nobody but the trial of a release. Ingest writes it, so it is not audited. Bound: three messages of at
-- most 16 KB for each reader, at most one written a minute. Retention: until a newer one takes the slot. Backup: with the
-- database, which is where the trial finds it. Sync: none. Personal data: none beyond what the reader sends.
CREATE TABLE reader_message (
    reader_id   INTEGER NOT NULL REFERENCES reader (id),
    slot        INTEGER NOT NULL,
    topic       TEXT NOT NULL,
    payload     BLOB NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (reader_id, slot)
) STRICT, WITHOUT ROWID;
