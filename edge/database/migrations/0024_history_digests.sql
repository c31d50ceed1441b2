-- Digests of the history of one day, of this box (site_no 0) or on a hub of one site, so that a comparison of site and
-- hub reads only the days that changed since the last one. Optional triggers delete the row of a day that changes, see
-- edge.database.triggers. Who sees and changes it: sync. Audited: no, it is computed from the history. Bound: one row a
-- day with history between. Retention: with the history, since the rows of other days are not asked for; all of a box
-- that leaves its hub. Backup: with the database. Sync: not sent as a table. Personal data: none, people are not hashed.
CREATE TABLE history_digest (
    site_no   INTEGER NOT NULL,
    day       INTEGER NOT NULL, -- since the epoch, UTC
    row_count INTEGER,          -- null while it is computed
    total     INTEGER NOT NULL, -- sum of the hashes; while it is computed, the number of that computation
    PRIMARY KEY (site_no, day)
) STRICT, WITHOUT ROWID;
