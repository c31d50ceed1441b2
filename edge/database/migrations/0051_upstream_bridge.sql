-- The bridge by which mosquitto sends messages of an organization's readers to the broker of a service. `topics` (JSON)
-- are those in the configuration that was written last. The password is only in that file. Seen and changed in the
-- shell, audited. Bound: one in an organization. Retention: until it is removed. Backup: with the database. Sync: none.
-- Personal data: none.
CREATE TABLE upstream_bridge (
    organization_id INTEGER PRIMARY KEY REFERENCES organization (id),
    url             TEXT NOT NULL,
    client_id       TEXT NOT NULL,
    topics          TEXT NOT NULL,
    written_at      INTEGER NOT NULL
) STRICT;
