-- Walls: screens that show one view through a link, without signing in.

-- A wall. `shows` is what it shows, `door_id` and `location_id` the door or the floor plan. `link_hash` is the hash of the
-- code in its link, which is shown once. Seen and changed by administrators, audited. Bound: 50 in an organization (quotas).
-- Retention: until it is revoked. Backup: with the database. Sync: none, a wall opens this box only. Personal data: none;
-- it shows no positions of people unless `people_setting.is_on_walls`.
CREATE TABLE wall (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    shows           TEXT NOT NULL CHECK (shows IN ('overview', 'alerts', 'door', 'plan', 'lists', 'muster')),
    door_id         INTEGER REFERENCES door (id) ON DELETE CASCADE,
    location_id     INTEGER REFERENCES location (id) ON DELETE CASCADE,
    language        TEXT NOT NULL,
    link_hash       BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    last_seen_at    INTEGER,
    CHECK ((door_id IS NOT NULL) = (shows = 'door')),
    CHECK ((location_id IS NOT NULL) = (shows = 'plan'))
) STRICT;
CREATE UNIQUE INDEX wall_link ON wall (link_hash);
CREATE INDEX wall_of ON wall (organization_id, name);

-- Whether walls show where people are. All as for the rest of the setting.
ALTER TABLE people_setting ADD COLUMN is_on_walls INTEGER NOT NULL DEFAULT 0 CHECK (is_on_walls IN (0, 1));
