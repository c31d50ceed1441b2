-- An asset that was a person stays in `tracked_person` whatever it is called later: its positions stay hidden. It leaves
-- only when the rule for people is changed.
DROP TRIGGER person_changed;
CREATE TRIGGER person_changed AFTER UPDATE OF external_key, metadata, organization_id ON asset
WHEN EXISTS (SELECT 1 FROM people_setting WHERE organization_id = new.organization_id) BEGIN
    INSERT INTO tracked_person (asset_id) SELECT asset_id FROM person_asset
        WHERE asset_id = new.id AND NOT EXISTS (SELECT 1 FROM tracked_person WHERE asset_id = new.id);
END;
-- The asset that takes over the track of a person is one, too.
DROP TRIGGER track_moved_to_person;
CREATE TRIGGER track_moved_to_person AFTER UPDATE OF asset_id ON track BEGIN
    INSERT INTO tracked_person (asset_id) SELECT new.asset_id
        WHERE old.is_person AND NOT EXISTS (SELECT 1 FROM tracked_person WHERE asset_id = new.asset_id);
    UPDATE track SET is_person = EXISTS (SELECT 1 FROM tracked_person WHERE asset_id = new.asset_id)
    WHERE no = new.no;
END;
