-- The rows of an import, which is a bulk job. A row that is not written yet has its record as JSON (see
-- edge.bulk.imports) and no result; a refused one keeps it, for the file of errors. Seen by editors and administrators;
-- audited as the records that it changes. Bound: 50,000 rows and 7 MiB of one import, the last 5 imports of an
-- organization. Retention: with the job. Backup: with the database; a restored one goes on where it was. Sync: none, the
-- changes themselves are sent. Personal data: as the records.
CREATE TABLE bulk_job_row (
    job_id       TEXT NOT NULL REFERENCES bulk_job (id) ON DELETE CASCADE,
    line         INTEGER NOT NULL,
    external_key TEXT NOT NULL,
    record       TEXT,
    result       TEXT,             -- created, changed, unchanged or faulty; null: not written yet
    reason       TEXT NOT NULL,
    PRIMARY KEY (job_id, line)
) STRICT, WITHOUT ROWID;
CREATE INDEX bulk_job_row_result ON bulk_job_row (job_id, result);
