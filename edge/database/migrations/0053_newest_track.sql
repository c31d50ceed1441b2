-- A hub gets the trigger track_newest_read instead, see edge.database.migrate: it does not write the only track of an asset
-- again, which took half of the time of a position.
DROP TRIGGER IF EXISTS track_newest_seen;
