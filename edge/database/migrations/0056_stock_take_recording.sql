-- Set by a sign-off with more scans than one transaction records, until the last of them is recorded. It cannot be derived
-- from the scans, because retention deletes recorded ones before their stock-take.
ALTER TABLE stock_take ADD COLUMN is_recording INTEGER NOT NULL DEFAULT 0 CHECK (is_recording IN (0, 1));
