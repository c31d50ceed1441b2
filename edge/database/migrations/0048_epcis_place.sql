-- Business step and disposition (words of GS1's Core Business Vocabulary) of EPCIS events at a location or a door. Exactly
-- one of both is set. Seen by those who edit the record, changed by administrators, audited as a change of it. Bound: one
-- row for each location and door. Retention: with the record. Backup: with the database. Sync: none, each box has its
-- own. Personal data: none.
CREATE TABLE epcis_place (
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    location_id     INTEGER REFERENCES location (id),
    door_id         INTEGER REFERENCES door (id),
    biz_step        TEXT,
    disposition     TEXT,
    CHECK ((location_id IS NULL) <> (door_id IS NULL))
) STRICT;
CREATE UNIQUE INDEX epcis_place_location ON epcis_place (location_id) WHERE location_id IS NOT NULL;
CREATE UNIQUE INDEX epcis_place_door ON epcis_place (door_id) WHERE door_id IS NOT NULL;
