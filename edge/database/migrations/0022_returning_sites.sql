-- Sites that leave their hub and return, and sites that are retired or merged at the hub. Seen and changed by nobody but
-- sync itself; leaving, joining, retiring and merging are audited. Backup: with the database. Sync: none of it travels,
-- except the id of the hub. Personal data: none.

-- A hub: its permanent id, by which a site that left knows it again. The same after a restore.
ALTER TABLE hub ADD COLUMN id TEXT NOT NULL DEFAULT '';
UPDATE hub SET id = lower(hex(randomblob(16)));

-- A site: the id of its hub, null until the hub has said it.
ALTER TABLE target ADD COLUMN hub_id TEXT;

-- A box that left a hub: which hub, when, and up to which time its retention has deleted history since.
-- Bound and retention: the newest 10.
CREATE TABLE former_hub (
    hub_id  TEXT PRIMARY KEY,
    left_at INTEGER NOT NULL,
    horizon INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A box that left a hub: which of its records were copies from there. Bound: its records for each former hub.
-- Retention: until it joins that hub again, or with its row of former_hub.
CREATE TABLE former_link (
    hub_id     TEXT NOT NULL REFERENCES former_hub (hub_id) ON DELETE CASCADE,
    remote_id  INTEGER NOT NULL,
    local_id   INTEGER NOT NULL,
    created_at INTEGER,
    home       TEXT NOT NULL,
    PRIMARY KEY (hub_id, remote_id)
) STRICT, WITHOUT ROWID;

-- A hub: the codes that a site had before it was renamed (JSON). Bound: the newest 20.
ALTER TABLE site ADD COLUMN former_codes TEXT NOT NULL DEFAULT '[]';

-- A hub: a site that is retired keeps its records and its history, and its box no longer reports. A site that was merged
-- into another one is removed, too.
ALTER TABLE site ADD COLUMN retired_at INTEGER;
ALTER TABLE site ADD COLUMN merged_into INTEGER REFERENCES site (no);

-- A hub: records of a removed site, which are the hub's own until the site returns, with the time of their last change
-- at the removal. Bound: one row a record. Retention: until the site returns or the record belongs to another site.
CREATE TABLE former_home (
    record_id  INTEGER PRIMARY KEY,
    site_no    INTEGER NOT NULL REFERENCES site (no),
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX former_home_site ON former_home (site_no);
INSERT INTO former_home (record_id, site_no, updated_at)
SELECT link.local_id, min(link.peer), ifnull(a.updated_at, l.updated_at)
FROM link JOIN site ON site.no = link.peer AND site.removed_at IS NOT NULL
LEFT JOIN asset a ON a.id = link.local_id LEFT JOIN location l ON l.id = link.local_id
WHERE link.remote_id > 0 AND ifnull(a.id, l.id) IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM mirror WHERE record_id = link.local_id)
GROUP BY link.local_id HAVING count(*) = 1;
