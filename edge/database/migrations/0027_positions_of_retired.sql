-- The view of current positions says whether the asset is retired, so that lists need not name the tables of history.
DROP VIEW position;
CREATE VIEW position AS
    SELECT no, asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, row_seq, history_rows,
           is_retired
    FROM track WHERE is_newest = 1;
