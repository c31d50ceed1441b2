-- Compressed reads, in place of those in `reads`, when few arrive: see edge/tracking/recent_reads.py.
ALTER TABLE recent_read ADD COLUMN packed BLOB NOT NULL DEFAULT x'';
