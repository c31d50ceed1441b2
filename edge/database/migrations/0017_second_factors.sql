-- The authenticator app of a person, see edge.auth.second_factor: asked for after the password.
-- Who sees it: administrators see on the page People who has one; the secret is shown to its owner once. Who changes it:
-- its owner; the shell can remove it. Audited: added, removed, recovery codes used. Bound: one row for each person.
-- Retention: until it is removed. Backup: with the database, the secret sealed to a key that is in no backup. Sync: none,
-- like passwords. Personal data: that a person has one, and when it was used last.
CREATE TABLE second_factor (
    person_id    INTEGER PRIMARY KEY REFERENCES person (id),
    secret       BLOB NOT NULL,              -- sealed, see edge.auth.sealed
    begun_at     INTEGER NOT NULL,
    confirmed_at INTEGER,                    -- by a first code; null: it is not asked for yet
    last_step    INTEGER NOT NULL DEFAULT 0  -- of the last code that was accepted: that code and older ones are not again
) STRICT;

-- Codes that replace the app once each. Who sees them: their owner, once. Audited, retention, sync, personal data: as above.
-- Bound: ten for each person. Backup: with the database, as hashes of 80 random bits.
CREATE TABLE recovery_code (
    person_id INTEGER NOT NULL REFERENCES person (id),
    code_hash BLOB NOT NULL,
    PRIMARY KEY (person_id, code_hash)
) STRICT, WITHOUT ROWID;
