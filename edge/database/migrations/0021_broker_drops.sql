-- How many messages the broker had dropped when it was asked last, since its start; what came to it since is counted in the
-- ledger, under no reader. Who sees it: the doctor. The service writes it, so it is not audited. Bound: one row.
-- Retention: none. Backup: with the database. Sync: none, each box has its own broker. Personal data: none.
CREATE TABLE broker_drops (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    counted INTEGER NOT NULL
) STRICT;
