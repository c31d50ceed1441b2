-- A site does not know that an asset was elsewhere in between, so its track may begin before that. At a hub an asset is
-- at its location since its first stay there after it was last seen elsewhere. The stays of a hub with PostgreSQL are not
-- here: then since it was last seen elsewhere.
DROP VIEW position;
CREATE VIEW position AS
    SELECT no, asset_id, organization_id, location_id, last_seen_at,
           iif(EXISTS (SELECT 1 FROM site), ifnull((
               SELECT ifnull((SELECT min(observed_at) FROM history
                              WHERE position_no = track.no AND observed_at > elsewhere.last_seen_at),
                             elsewhere.last_seen_at)
               FROM track AS elsewhere
               WHERE elsewhere.asset_id = track.asset_id AND elsewhere.location_id <> track.location_id
                   AND elsewhere.last_seen_at > track.dwell_started_at
               ORDER BY elsewhere.last_seen_at DESC LIMIT 1
           ), dwell_started_at), dwell_started_at) AS dwell_started_at,
           row_at, row_seq, history_rows, is_retired, is_person
    FROM track WHERE is_newest = 1;
