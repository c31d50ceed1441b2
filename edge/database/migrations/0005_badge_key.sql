-- The key is in the file badges.key of the data directory: in no backup, so nobody can guess badge numbers from one.
UPDATE instance SET badge_key = zeroblob(32);
