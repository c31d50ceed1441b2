-- Webhooks with EPCIS follow the log of changes instead of a table of their own. See edge.epcis.changes.

-- What EPCIS needs of a row and cannot look up later, see edge.database.change_log.Kind.
ALTER TABLE change ADD COLUMN before TEXT;

INSERT INTO follower SELECT 'epcis', ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'change'), 0) FROM epcis;

-- What was waiting.
INSERT INTO change (kind, a, b, c, before)
SELECT 14, asset_id, at, place_id, json_array(kind, is_added, 0) FROM epcis_pending
WHERE EXISTS (SELECT 1 FROM epcis) ORDER BY no;

DROP TRIGGER IF EXISTS epcis_stay_added;
DROP TRIGGER IF EXISTS epcis_stay_changed;
DROP TRIGGER IF EXISTS epcis_stay_removed;
DROP TRIGGER IF EXISTS epcis_scan_undone;
DROP TRIGGER IF EXISTS epcis_load_added;
DROP TRIGGER IF EXISTS epcis_load_changed;
DROP TRIGGER IF EXISTS epcis_load_removed;
DROP TRIGGER IF EXISTS epcis_passage_added;
DROP TRIGGER IF EXISTS epcis_passage_decided;
DROP TRIGGER IF EXISTS epcis_passage_moved;
DROP TABLE epcis_pending;
