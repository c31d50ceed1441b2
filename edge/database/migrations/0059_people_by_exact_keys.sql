-- `people_setting.key_prefix` is a text that keys begin with, or `=` and exact keys with a blank between them, as in rules
-- and plans for musters (edge.records.external_keys.is_chosen).
DROP VIEW person_asset;
CREATE VIEW person_asset AS
    SELECT a.id AS asset_id, a.organization_id
    FROM people_setting s JOIN asset a ON a.organization_id = s.organization_id
    WHERE (s.key_prefix <> '' AND iif(substr(s.key_prefix, 1, 1) = '=',
            instr(' ' || substr(s.key_prefix, 2) || ' ', ' ' || a.external_key || ' ') > 0,
            substr(a.external_key, 1, length(s.key_prefix)) = s.key_prefix))
       OR (s.metadata_name <> '' AND EXISTS (
            SELECT 1 FROM json_each(a.metadata) WHERE key = s.metadata_name AND CAST(value AS TEXT) = s.metadata_value));
