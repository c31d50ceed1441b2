-- A read elsewhere that is the newest of its asset, and that evidence has not decided for some seconds: it may become a
-- scan yet, see edge.store.held_back. Valid while it is newer than the position of the asset.
-- Who sees it: whoever sees the asset, on its page ("Why here?"). Only ingest changes it, so it is not audited.
-- Bound: one row for each asset. Retention: until it is decided. Backup: with the database. Sync: none, a hub gets what
-- was decided. Personal data: none.
CREATE TABLE held_back (
    asset_id    INTEGER PRIMARY KEY REFERENCES asset (id),
    location_id INTEGER NOT NULL REFERENCES location (id),
    observed_at INTEGER NOT NULL, -- of the newest such read
    source_no   INTEGER NOT NULL REFERENCES source (no),
    rssi        REAL,
    weight      INTEGER NOT NULL,
    quality     INTEGER NOT NULL,
    delay       INTEGER NOT NULL
) STRICT;
CREATE INDEX held_back_location ON held_back (location_id);

-- The signs of life that readers gave, see edge.store.signs.
ALTER TABLE recent_read ADD COLUMN signs BLOB NOT NULL DEFAULT x'';
