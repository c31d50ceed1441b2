-- Quotas of sites at their hub, see edge.sync.store.site_quotas. Who sees them: administrators, and the shell. Only sync
-- writes them, so they are not audited. Bound: columns of existing rows. Retention: with the row. Backup: with the
-- database. Sync: they do not travel. Personal data: none.

-- A hub: how many bytes the site added recently, and when this was computed. The amount decreases with time.
ALTER TABLE site ADD COLUMN added_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE site ADD COLUMN added_at INTEGER NOT NULL DEFAULT 0;

-- Why the hub takes no new data, for both ends; null if it does.
ALTER TABLE site ADD COLUMN history_waits TEXT;
ALTER TABLE target ADD COLUMN history_waits TEXT;
