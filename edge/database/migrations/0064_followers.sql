-- The log of changes has followers, and events read it instead of a table of their own. See edge.database.change_log.

-- Who follows the log. `position`: events have all changes up to this number; for all others, which return with a number
-- of their own, the log may have dropped changes up to it. Seen and changed by nobody but the program, not audited.
-- Bound: five rows. Retention: while somebody follows. Backup: with the database. Sync: none. Personal data: none.
CREATE TABLE follower (
    name     TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A hub with a feed that was closed has told its sites a number without a record; it must not tell a lower one.
INSERT INTO follower
SELECT n.name, CASE
    WHEN n.name = 'events' THEN ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'change'), 0)
    WHEN EXISTS (SELECT 1 FROM feed) OR EXISTS (SELECT 1 FROM change WHERE seq = (SELECT seq FROM sqlite_sequence
        WHERE name = 'change') AND abs(kind) IN (2, 3)) OR NOT EXISTS (SELECT 1 FROM hub)
    THEN ifnull((SELECT min(seq) - 1 FROM change), ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'change'), 0))
    ELSE ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'change'), 0) END
FROM (
    SELECT 'site' AS name FROM target WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'change_reader_renamed')
    UNION ALL SELECT 'hub' FROM hub WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'change_asset_added')
    UNION ALL SELECT 'upstream' WHERE EXISTS (SELECT 1 FROM upstream)
    UNION ALL SELECT 'feed' FROM feed
    UNION ALL SELECT 'events' WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'event_stay_added')
) n;

-- What was waiting for events: moves, assets that lost their track, records, passages and sensor values.
INSERT INTO change (kind, a, b, c)
SELECT
    CASE e.kind WHEN 1 THEN 12 WHEN 2 THEN 12 WHEN 3 THEN 2 WHEN 4 THEN 8 ELSE 13 END,
    CASE e.kind WHEN 1 THEN t.asset_id ELSE e.key END,
    CASE e.kind WHEN 4 THEN (SELECT organization_id FROM passage WHERE no = e.key) END,
    CASE WHEN e.kind IN (3, 4) THEN 1 END
FROM event_candidate e LEFT JOIN track t ON e.kind = 1 AND t.no = e.key
WHERE (e.kind <> 1 OR t.no IS NOT NULL) AND EXISTS (SELECT 1 FROM follower WHERE name = 'events') ORDER BY e.no;

-- The service creates the triggers of today that the followers need.
DROP TRIGGER IF EXISTS change_asset_added;
DROP TRIGGER IF EXISTS change_asset_changed;
DROP TRIGGER IF EXISTS change_location_added;
DROP TRIGGER IF EXISTS change_location_changed;
DROP TRIGGER IF EXISTS change_tag_added;
DROP TRIGGER IF EXISTS change_tag_changed;
DROP TRIGGER IF EXISTS change_stay_added;
DROP TRIGGER IF EXISTS change_stay_changed;
DROP TRIGGER IF EXISTS change_stay_removed;
DROP TRIGGER IF EXISTS change_scan_undone;
DROP TRIGGER IF EXISTS change_track_removed;
DROP TRIGGER IF EXISTS change_reader_renamed;
DROP TRIGGER IF EXISTS change_person_renamed;
DROP TRIGGER IF EXISTS feed_stay_removed;
DROP TRIGGER IF EXISTS feed_track_removed;
DROP TRIGGER IF EXISTS feed_passage_added;
DROP TRIGGER IF EXISTS feed_passage_changed;
DROP TRIGGER IF EXISTS feed_passage_removed;
DROP TRIGGER IF EXISTS feed_door_added;
DROP TRIGGER IF EXISTS feed_door_changed;
DROP TRIGGER IF EXISTS feed_site_added;
DROP TRIGGER IF EXISTS feed_site_changed;
DROP TRIGGER IF EXISTS feed_track_moved;
DROP TRIGGER IF EXISTS feed_person_added;
DROP TRIGGER IF EXISTS feed_person_removed;
DROP TRIGGER IF EXISTS feed_source_moved;
DROP TRIGGER IF EXISTS feed_people_shown;
DROP TRIGGER IF EXISTS event_stay_added;
DROP TRIGGER IF EXISTS event_moved;
DROP TRIGGER IF EXISTS event_track_removed;
DROP TRIGGER IF EXISTS event_asset_added;
DROP TRIGGER IF EXISTS event_asset_changed;
DROP TRIGGER IF EXISTS event_tag_added;
DROP TRIGGER IF EXISTS event_tag_changed;
DROP TRIGGER IF EXISTS passage_added_for_hub;
DROP TRIGGER IF EXISTS passage_changed_for_hub;
DROP TRIGGER IF EXISTS passage_added_for_events;
DROP TRIGGER IF EXISTS passage_changed_for_events;
DROP TRIGGER IF EXISTS asset_value_added_for_events;
DROP TRIGGER IF EXISTS asset_value_changed_for_events;

DROP TABLE event_candidate;
