-- The time that a reader's clock shows although it no longer moves; null: it moves, or that is not known.
-- As the rest of reader_state: written by ingest, shown to technicians, one value for each reader, without personal data.
ALTER TABLE reader_state ADD COLUMN clock_stands_at INTEGER;
