-- The assets that a hub sends to its sites are hashed at each comparison, which takes 0.01 ms each. So their digests are
-- no longer stored, and no write of an asset, a tag or a link has to drop one. See edge.sync.store.copy_digests.

DROP TRIGGER IF EXISTS copy_asset_added;
DROP TRIGGER IF EXISTS copy_asset_changed;
DROP TRIGGER IF EXISTS copy_asset_removed;
DROP TRIGGER IF EXISTS copy_tag_added;
DROP TRIGGER IF EXISTS copy_tag_changed;
DROP TRIGGER IF EXISTS copy_tag_removed;
DROP TRIGGER IF EXISTS copy_mirror_added;
DROP TRIGGER IF EXISTS copy_mirror_changed;
DROP TRIGGER IF EXISTS copy_mirror_removed;
DROP TRIGGER IF EXISTS copy_link_added;
DROP TRIGGER IF EXISTS copy_link_changed;
DROP TRIGGER IF EXISTS copy_link_removed;
DROP TRIGGER IF EXISTS copy_conflict_added;
DROP TRIGGER IF EXISTS copy_conflict_changed;
DROP TRIGGER IF EXISTS copy_conflict_removed;
DROP TABLE copy_digest;
