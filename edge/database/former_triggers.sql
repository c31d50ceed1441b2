-- Optional triggers of schemas up to 63, by who needed them. Backups of those schemas may have them, and a database
-- that is downgraded gets them again. Never changed: see edge.database.triggers for those of today.

-- for hub upstream site feed
CREATE TRIGGER IF NOT EXISTS main.change_asset_added AFTER INSERT ON asset BEGIN INSERT INTO change (kind, a, b) VALUES (2, new.id, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.change_asset_changed AFTER UPDATE ON asset BEGIN INSERT INTO change (kind, a, b) VALUES (2, new.id, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.change_location_added AFTER INSERT ON location BEGIN INSERT INTO change (kind, a, b) VALUES (3, new.id, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.change_location_changed AFTER UPDATE ON location BEGIN INSERT INTO change (kind, a, b) VALUES (3, new.id, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.change_tag_added AFTER INSERT ON tag BEGIN INSERT INTO change (kind, a, b) VALUES (iif(new.asset_id IS NULL, 3, 2), ifnull(new.asset_id, new.location_id), NULL); END;
CREATE TRIGGER IF NOT EXISTS main.change_tag_changed AFTER UPDATE ON tag BEGIN INSERT INTO change (kind, a, b) VALUES (iif(new.asset_id IS NULL, 3, 2), ifnull(new.asset_id, new.location_id), NULL); END;

-- for site feed
CREATE TRIGGER IF NOT EXISTS main.change_stay_added AFTER INSERT ON history BEGIN INSERT INTO change (kind, a, b) VALUES (1, new.position_no, new.observed_at); END;
CREATE TRIGGER IF NOT EXISTS main.change_stay_changed AFTER UPDATE ON history BEGIN INSERT INTO change (kind, a, b) VALUES (1, new.position_no, new.observed_at); END;

-- for site
CREATE TRIGGER IF NOT EXISTS main.change_stay_removed AFTER DELETE ON history WHEN old.observed_at + old.seen_for >= (SELECT horizon FROM target) BEGIN INSERT INTO change (kind, a, b) VALUES (1, old.position_no, old.observed_at); END;
CREATE TRIGGER IF NOT EXISTS main.change_scan_undone AFTER UPDATE OF undone_at ON handheld_scan WHEN new.asset_id IS NOT NULL BEGIN INSERT INTO change (kind, a, b) VALUES (1, ifnull((SELECT no FROM track WHERE asset_id = new.asset_id AND site_no IS NULL), 0), new.observed_at); END;
CREATE TRIGGER IF NOT EXISTS main.change_track_removed AFTER DELETE ON track BEGIN INSERT INTO change (kind, a, b) VALUES (6, old.no, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.change_reader_renamed AFTER UPDATE OF name ON reader WHEN new.name <> old.name BEGIN INSERT INTO change (kind, a, b) VALUES (4, new.id, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.change_person_renamed AFTER UPDATE OF name ON person WHEN new.name <> old.name BEGIN INSERT INTO change (kind, a, b) VALUES (5, new.id, NULL); END;

-- for feed
CREATE TRIGGER IF NOT EXISTS main.feed_stay_removed AFTER DELETE ON history WHEN old.observed_at + old.seen_for >= (SELECT horizon FROM feed) BEGIN INSERT INTO change (kind, a, b) VALUES (1, old.position_no, old.observed_at); END;
CREATE TRIGGER IF NOT EXISTS main.feed_track_removed AFTER DELETE ON track BEGIN INSERT INTO change (kind, a, b) VALUES (6, old.no, old.organization_id); END;
CREATE TRIGGER IF NOT EXISTS main.feed_passage_added AFTER INSERT ON passage WHEN new.site_no IS NOT NULL OR NOT EXISTS (SELECT 1 FROM target) BEGIN INSERT INTO change (kind, a, b) VALUES (8, new.no, new.organization_id); END;
CREATE TRIGGER IF NOT EXISTS main.feed_passage_changed AFTER UPDATE ON passage WHEN new.site_no IS NOT NULL OR NOT EXISTS (SELECT 1 FROM target) BEGIN INSERT INTO change (kind, a, b) VALUES (8, new.no, new.organization_id); END;
CREATE TRIGGER IF NOT EXISTS main.feed_passage_removed AFTER DELETE ON passage WHEN old.at >= (SELECT horizon FROM feed) BEGIN INSERT INTO change (kind, a, b) VALUES (8, old.no, old.organization_id); END;
CREATE TRIGGER IF NOT EXISTS main.feed_door_added AFTER INSERT ON door BEGIN INSERT INTO change (kind, a, b) VALUES (9, new.id, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.feed_door_changed AFTER UPDATE ON door BEGIN INSERT INTO change (kind, a, b) VALUES (9, new.id, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.feed_site_added AFTER INSERT ON site BEGIN INSERT INTO change (kind, a, b) VALUES (10, new.no, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.feed_site_changed AFTER UPDATE OF code, name, removed_at ON site BEGIN INSERT INTO change (kind, a, b) VALUES (10, new.no, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.feed_track_moved AFTER UPDATE OF asset_id, site_no ON track WHEN new.asset_id <> old.asset_id OR new.site_no IS NOT old.site_no BEGIN INSERT INTO change (kind, a, b) VALUES (11, new.no, NULL); END;
CREATE TRIGGER IF NOT EXISTS main.feed_person_added AFTER INSERT ON tracked_person BEGIN INSERT INTO change (kind, a) SELECT 11, no FROM track WHERE asset_id = new.asset_id; INSERT INTO change (kind, a, b) SELECT 8, no, organization_id FROM passage WHERE asset_id = new.asset_id; END;
CREATE TRIGGER IF NOT EXISTS main.feed_person_removed AFTER DELETE ON tracked_person BEGIN INSERT INTO change (kind, a) SELECT 11, no FROM track WHERE asset_id = old.asset_id; INSERT INTO change (kind, a, b) SELECT 8, no, organization_id FROM passage WHERE asset_id = old.asset_id; END;
CREATE TRIGGER IF NOT EXISTS main.feed_source_moved AFTER UPDATE OF location_id ON source WHEN new.location_id <> old.location_id BEGIN DELETE FROM feed_mark; END;
CREATE TRIGGER IF NOT EXISTS main.feed_people_shown AFTER INSERT ON people_setting BEGIN INSERT INTO change (kind, a) SELECT 11, no FROM tracked_person p CROSS JOIN track t ON t.asset_id = p.asset_id WHERE t.organization_id = new.organization_id; INSERT INTO change (kind, a, b) SELECT 8, no, organization_id FROM tracked_person p CROSS JOIN passage g ON g.asset_id = p.asset_id WHERE g.organization_id = new.organization_id; END;

-- for events
CREATE TRIGGER IF NOT EXISTS main.event_stay_added AFTER INSERT ON history BEGIN INSERT INTO event_candidate (kind, key) VALUES (1, new.position_no); END;
CREATE TRIGGER IF NOT EXISTS main.event_moved AFTER UPDATE OF location_id, asset_id, is_newest ON track WHEN new.location_id <> old.location_id OR new.asset_id <> old.asset_id OR new.is_newest <> old.is_newest BEGIN INSERT INTO event_candidate (kind, key) VALUES (1, new.no); END;
CREATE TRIGGER IF NOT EXISTS main.event_track_removed AFTER DELETE ON track BEGIN INSERT INTO event_candidate (kind, key) VALUES (2, old.asset_id); END;
CREATE TRIGGER IF NOT EXISTS main.event_asset_added AFTER INSERT ON asset BEGIN INSERT INTO event_candidate (kind, key) VALUES (3, new.id); END;
CREATE TRIGGER IF NOT EXISTS main.event_asset_changed AFTER UPDATE ON asset BEGIN INSERT INTO event_candidate (kind, key) VALUES (3, new.id); END;
CREATE TRIGGER IF NOT EXISTS main.event_tag_added AFTER INSERT ON tag WHEN new.asset_id IS NOT NULL BEGIN INSERT INTO event_candidate (kind, key) VALUES (3, new.asset_id); END;
CREATE TRIGGER IF NOT EXISTS main.event_tag_changed AFTER UPDATE ON tag WHEN new.asset_id IS NOT NULL BEGIN INSERT INTO event_candidate (kind, key) VALUES (3, new.asset_id); END;
