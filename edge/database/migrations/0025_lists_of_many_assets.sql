-- Lists of 200,000 assets. Indexes in the order of the columns that people sort by, and on each track whether its asset
-- is retired, so that counts read an index only. Seen by whoever sees the asset, kept by triggers, not audited, one value
-- a row, kept as long as the row. Backup: with the database. Sync: not sent, each box keeps its own. Personal data: none.
ALTER TABLE track ADD COLUMN is_retired INTEGER NOT NULL DEFAULT 0;
UPDATE track SET is_retired = 1 WHERE asset_id IN (SELECT id FROM asset WHERE deleted_at IS NOT NULL);

CREATE TRIGGER asset_retired AFTER UPDATE OF deleted_at ON asset
WHEN (new.deleted_at IS NULL) <> (old.deleted_at IS NULL) BEGIN
    UPDATE track SET is_retired = new.deleted_at IS NOT NULL WHERE asset_id = new.id;
END;
CREATE TRIGGER track_of_retired_added AFTER INSERT ON track
WHEN new.is_retired <> EXISTS (SELECT 1 FROM asset WHERE id = new.asset_id AND deleted_at IS NOT NULL) BEGIN
    UPDATE track SET is_retired = 1 - new.is_retired WHERE no = new.no;
END;
CREATE TRIGGER track_moved_to_asset AFTER UPDATE OF asset_id ON track BEGIN
    UPDATE track SET is_retired = EXISTS (SELECT 1 FROM asset WHERE id = new.asset_id AND deleted_at IS NOT NULL)
    WHERE no = new.no;
END;

DROP INDEX track_newest;
CREATE INDEX track_newest ON track (organization_id, last_seen_at DESC, asset_id, is_retired) WHERE is_newest = 1;
DROP INDEX track_location;
CREATE INDEX track_location ON track (location_id, is_retired) WHERE is_newest = 1;
CREATE INDEX track_dwell ON track (organization_id, dwell_started_at) WHERE is_newest = 1;
CREATE INDEX asset_name ON asset (organization_id, name COLLATE NOCASE, id, deleted_at);
CREATE INDEX asset_any_key ON asset (organization_id, external_key, id, deleted_at);
CREATE INDEX location_name ON location (organization_id, name COLLATE NOCASE) WHERE deleted_at IS NULL;
