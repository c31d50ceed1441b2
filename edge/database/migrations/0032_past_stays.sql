-- Stays that have ended, by cell of time, so that the board of a past moment need not compute all positions where there are
-- more than 20,000. Optional triggers keep it, see edge.database.triggers; the service fills it in the background. A stay
-- lasts until the next row of its track; which of several tracks of an asset decides is for the reader of the table.
-- Who sees it: whoever sees the asset. Audited: no, it is computed from the history. Bound: one row for each row of
-- history. Retention: with the history. Backup: with the database. Sync: not sent. Personal data: none.
CREATE TABLE past_stay (
    cell        INTEGER NOT NULL,
    source_no   INTEGER NOT NULL,
    observed_at INTEGER NOT NULL,
    track_no    INTEGER NOT NULL,
    seen_until  INTEGER NOT NULL,
    until       INTEGER NOT NULL,
    PRIMARY KEY (cell, source_no, observed_at, track_no)
) STRICT, WITHOUT ROWID;
CREATE INDEX past_stay_seen ON past_stay (cell, seen_until, until);

-- How far the table is filled: the last track, or null if all are in it. Without a row nothing is. Who sees it, audited,
-- retention, backup, sync, personal data: as above. Bound: one row.
CREATE TABLE past_stay_build (
    no         INTEGER PRIMARY KEY CHECK (no = 1),
    last_track INTEGER
) STRICT;

DROP INDEX track_newest;
CREATE INDEX track_newest ON track (organization_id, last_seen_at DESC, asset_id, is_retired, row_at) WHERE is_newest = 1;
CREATE INDEX track_older ON track (organization_id, last_seen_at DESC, row_at, asset_id) WHERE is_newest = 0;
DROP INDEX track_location;
CREATE INDEX track_location ON track (location_id, is_retired, row_at) WHERE is_newest = 1;
CREATE INDEX track_location_older ON track (location_id, row_at) WHERE is_newest = 0;
