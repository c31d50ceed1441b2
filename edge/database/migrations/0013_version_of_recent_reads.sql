-- Changes whenever the reads of the last minutes are changed by somebody else than ingest, which then reads them again.
ALTER TABLE version ADD COLUMN recent_reads INTEGER NOT NULL DEFAULT 0;
