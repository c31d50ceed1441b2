-- What the optional paths of each reader's mapping led to, since the mapping was last changed.
-- Written by ingest; seen by the people who set readers up, and by `edge doctor`. Not audited, since nobody acts. One
-- row for each path of a mapping, so bounded by its keys; halved when it is long, so that it follows the device.
-- Dropped with a change of the mapping. Part of backups, never of sync. No personal data: an example is one value.
CREATE TABLE mapped_field (
    reader_id  INTEGER NOT NULL REFERENCES reader (id),
    field      TEXT NOT NULL,    -- the key in the mapping
    reads      INTEGER NOT NULL, -- in which it was looked for
    missing    INTEGER NOT NULL, -- in which there was nothing at the path
    unreadable INTEGER NOT NULL,
    example    TEXT NOT NULL,    -- why it was unreadable, most recently
    PRIMARY KEY (reader_id, field)
) STRICT, WITHOUT ROWID;
