-- Digests of the assets that a hub sends to its sites, by range of the hub's ids, so that a comparison reads only ranges
-- with changes since the last one; see edge.sync.store.copy_digests. Optional triggers delete the row of a range that
-- changes, see edge.database.triggers. Who sees and changes it: sync. Audited: no, it is computed from the assets. Bound:
-- 256 rows of an organization. Retention: with the assets; all of a box that leaves its hub. Backup: with the database.
-- Sync: not sent as a table. Personal data: none.
CREATE TABLE copy_digest (
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    range           INTEGER NOT NULL, -- the first bits of the id
    totals          TEXT NOT NULL,    -- JSON: home (number of a site, 0 for the hub), number of assets, sum of hashes
    PRIMARY KEY (organization_id, range)
) STRICT, WITHOUT ROWID;
