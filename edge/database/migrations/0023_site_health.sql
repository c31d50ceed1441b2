-- The health report of each site at its hub: version, findings of its doctor, end of its certificates, time of its newest
-- backup, free disk space, reads per minute. See edge.sync.store.site_health.
-- Who sees it: administrators of the site's organization, and the shell. Only sync writes it, so it is not audited. Bound:
-- one row for each site, checked and cut before it is stored, at most 4 KB. Retention: until the site is removed. Backup:
-- with the database. Sync: from a site to its hub. Personal data: none.
CREATE TABLE site_health (
    site_no     INTEGER PRIMARY KEY REFERENCES site (no),
    received_at INTEGER NOT NULL,
    content     TEXT NOT NULL
) STRICT;
