-- Whether positions are decided from the reads of a batch as from evidence. 0: every read counted (`ingest.smoothing` is
-- off); they say where a stay is split by a read that comes late, see edge.store.counted_reads.
-- As for the other columns of the table: nobody sees or changes it, so it is not audited; bound and retention are those
-- of the batch; in backups with the database; not synced; no personal data.
ALTER TABLE recent_read ADD COLUMN is_evidence INTEGER NOT NULL DEFAULT 1;
