-- Changes of many assets that a person started: what is to be done, by whom, and how it ended. Seen, started and stopped by
-- editors and administrators; audited when it starts and ends, and each asset as by hand. Bound: one running and 20 finished
-- in an organization. Retention: 7 days after the end. Backup: with the database; a restored one goes on where it was. Sync:
-- none, the changes themselves are sent. Personal data: the name of the person.
CREATE TABLE bulk_job (
    id              TEXT PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    person_id       INTEGER NOT NULL REFERENCES person (id),
    person_name     TEXT NOT NULL,
    device_id       INTEGER,
    device_name     TEXT NOT NULL,
    change          TEXT NOT NULL, -- JSON, see edge.bulk.asset_changes
    total           INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    finished_at     INTEGER,
    end_reason      TEXT           -- null: all assets were tried
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX bulk_job_running ON bulk_job (organization_id) WHERE finished_at IS NULL;
CREATE INDEX bulk_job_finished ON bulk_job (finished_at) WHERE finished_at IS NOT NULL;

-- The assets of a job that are not changed: a null reason means not yet. One that was changed is deleted in the same
-- transaction. Seen by, backup and sync: as the job. Bound: 10,000 of one job. Retention: with the job. Personal data: none.
CREATE TABLE bulk_job_asset (
    job_id   TEXT NOT NULL REFERENCES bulk_job (id) ON DELETE CASCADE,
    asset_id INTEGER NOT NULL,
    reason   TEXT,
    PRIMARY KEY (job_id, asset_id)
) STRICT, WITHOUT ROWID;
