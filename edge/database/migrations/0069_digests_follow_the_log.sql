-- The index of past positions and the digests of days follow the log of changes instead of triggers of their own. See
-- edge.tracking.past_index and edge.sync.store.digests. Both are complete at this moment.

INSERT INTO follower
SELECT n.name, ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'change'), 0)
FROM (
    SELECT 'past' AS name FROM past_stay_build
    UNION ALL SELECT 'digests' WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'digest_link_removed')
) n;

DROP TRIGGER IF EXISTS digest_stay_added;
DROP TRIGGER IF EXISTS digest_stay_changed;
DROP TRIGGER IF EXISTS digest_stay_removed;
DROP TRIGGER IF EXISTS digest_track_renumbered;
DROP TRIGGER IF EXISTS digest_link_added;
DROP TRIGGER IF EXISTS digest_link_changed;
DROP TRIGGER IF EXISTS digest_link_removed;
DROP TRIGGER IF EXISTS past_stay_added;
DROP TRIGGER IF EXISTS past_stay_changed;
DROP TRIGGER IF EXISTS past_stay_removed;
