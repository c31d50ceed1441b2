-- Notes and photos of assets, and label printers at locations.

-- A note that a person made. Seen by viewers, added by operators, deleted by editors; both are in the audit of the asset, a
-- deleted note with its text. Bound: 200 of an asset, 20,000 in an organization (quotas), 500 of a person in 24 hours.
-- Retention: like history, from receipt. Backup: with the database. Sync: none, notes stay on the box that received them.
-- Personal data: the author, and what they wrote.
CREATE TABLE asset_note (
    id              TEXT PRIMARY KEY, -- made by the device, so that a repeat is known
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    asset_id        INTEGER NOT NULL REFERENCES asset (id) ON DELETE CASCADE,
    person_id       INTEGER NOT NULL REFERENCES person (id),
    text            TEXT NOT NULL CHECK (length(text) BETWEEN 1 AND 1000),
    made_at         INTEGER NOT NULL,
    received_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX asset_note_of ON asset_note (asset_id, made_at);
CREATE INDEX asset_note_by ON asset_note (person_id, received_at);
CREATE INDEX asset_note_age ON asset_note (received_at);
CREATE INDEX asset_note_in ON asset_note (organization_id);

-- A photo, written again from its pixels: a JPEG of at most 1,280 pixels and 256 KB, without EXIF. Seen by viewers, added by
-- operators, deleted by editors; both are in the audit of the asset, without the image. Bound: 10 of an asset, 2,000 in an
-- organization (quotas), 300 of a person in 24 hours: at most 512 MB. Retention: like history, from receipt; the oldest go
-- before history when the disk is nearly full. Backup: with the database. Sync: none. Personal data: the author, and whom it
-- shows.
CREATE TABLE asset_photo (
    no              INTEGER PRIMARY KEY,
    id              TEXT NOT NULL UNIQUE,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    asset_id        INTEGER NOT NULL REFERENCES asset (id) ON DELETE CASCADE,
    person_id       INTEGER NOT NULL REFERENCES person (id),
    made_at         INTEGER NOT NULL,
    received_at     INTEGER NOT NULL,
    width           INTEGER NOT NULL,
    height          INTEGER NOT NULL,
    content         BLOB NOT NULL CHECK (length(content) <= 262144)
) STRICT;
CREATE INDEX asset_photo_of ON asset_photo (asset_id, made_at);
CREATE INDEX asset_photo_by ON asset_photo (person_id, received_at);
CREATE INDEX asset_photo_age ON asset_photo (received_at);
CREATE INDEX asset_photo_in ON asset_photo (organization_id);

-- The label printer of a location and its sub-locations. Seen and changed by administrators, audited. Bound: one for each
-- location, 200 in an organization (quotas). Retention: until it is removed. Backup: with the database. Sync: none. Personal
-- data: none.
CREATE TABLE location_printer (
    location_id     INTEGER PRIMARY KEY REFERENCES location (id) ON DELETE CASCADE,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    address         TEXT NOT NULL,
    paper           TEXT NOT NULL,
    dots_per_mm     INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL
) STRICT;
