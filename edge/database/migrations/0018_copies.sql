-- What tells a box from its copies, and a hub that its files were copied back. All columns of existing tables: seen and
-- changed by nobody but sync itself, not audited, one value a row, kept as long as the row. Backup: with the database.
-- Sync: reported in greetings. Personal data: none.

-- A site: the highest change of master data that its hub has reported, in which state of the hub's database; when this
-- box last renewed its own epoch; when it last learned of another box that reports as this site.
ALTER TABLE target ADD COLUMN hub_seen INTEGER NOT NULL DEFAULT 0;
ALTER TABLE target ADD COLUMN hub_seen_epoch TEXT;
ALTER TABLE target ADD COLUMN hub_seen_mark TEXT;
ALTER TABLE target ADD COLUMN renewed_at INTEGER;
ALTER TABLE target ADD COLUMN rival_at INTEGER;

-- A hub: the states of its database before this one, so that a state which it does not know is a later one.
-- Bound and retention: the newest 100. All else as above.
ALTER TABLE hub ADD COLUMN renewed_at INTEGER;
CREATE TABLE former_hub_epoch (
    no    INTEGER PRIMARY KEY,
    epoch TEXT NOT NULL
) STRICT;

-- A hub: a random mark for each number of its changes that it has reported to a site. A hub whose files were copied back
-- reaches the same numbers again, but has other marks. Bound and retention: the newest 10,000. All else as above.
CREATE TABLE hub_mark (
    number INTEGER PRIMARY KEY,
    mark   TEXT NOT NULL
) STRICT;

CREATE TRIGGER hub_epoch_renewed AFTER UPDATE OF epoch ON hub WHEN new.epoch <> old.epoch BEGIN
    INSERT INTO former_hub_epoch (epoch) VALUES (old.epoch);
    DELETE FROM former_hub_epoch WHERE no <= (SELECT max(no) FROM former_hub_epoch) - 100;
    DELETE FROM hub_mark;
END;

-- A hub: which box, as it runs now, reports as the site; and when another one was refused meanwhile.
ALTER TABLE site ADD COLUMN box TEXT;
ALTER TABLE site ADD COLUMN rival_at INTEGER;

-- When the other box's record was created; null until it is known. A box that was copied back assigns ids a second
-- time, and the time of creation says which of the two records an id means.
ALTER TABLE link ADD COLUMN created_at INTEGER;
