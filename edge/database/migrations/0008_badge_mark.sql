-- Ten bits of a badge, so that a handheld can tell offline which scanned code may be a badge and must not be stored.
-- As badge_hash: changed with it by administrators, or at the next sign-in with the badge, seen by no page; scan pages get
-- the marks of their organization without names. One value for each person, in backups, never in sync. Personal data: of
-- a badge number of six digits a thousand fit, and only who has the file badges.key can tell which.
ALTER TABLE person ADD COLUMN badge_mark INTEGER;
