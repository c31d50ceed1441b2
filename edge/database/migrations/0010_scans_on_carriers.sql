-- What a person's scan did besides: it put the asset on a carrier, or took it off one. Needed to undo it.
-- Retained, backed up and bounded with the scans; stays at its site; no personal data beyond theirs.
ALTER TABLE handheld_scan ADD COLUMN carrier_act TEXT; -- load or unload; null for a scan of neither
ALTER TABLE handheld_scan ADD COLUMN carrier_id INTEGER REFERENCES asset (id);
ALTER TABLE handheld_scan ADD COLUMN load_ended_at INTEGER; -- of an unload: when the load ended that it cut short

-- To say of a code that means nothing any more which retired asset it was on.
CREATE INDEX asset_retired ON asset (organization_id, external_key) WHERE deleted_at IS NOT NULL;
CREATE INDEX tag_retired ON tag (organization_id, tag_type, match_key)
    WHERE deleted_at IS NOT NULL AND asset_id IS NOT NULL;
