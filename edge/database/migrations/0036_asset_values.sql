-- Sensor values of tags.

-- The latest values that the tags of an asset sent: battery in percent and millivolts, temperature in hundredths of a
-- degree Celsius, and when its button was pressed. Written by ingest if a value changed by more than noise, or once a day,
-- so it is not audited. Seen by viewers. Bound: one row for each asset. Retention: `retention.history_days` after the last
-- value. Backup: with the database. Sync: none; a hub does not have them. Personal data: where an asset belongs to a person.
CREATE TABLE asset_value (
    asset_id        INTEGER PRIMARY KEY REFERENCES asset (id) ON DELETE CASCADE,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    battery         INTEGER CHECK (battery BETWEEN 0 AND 100),
    millivolts      INTEGER,
    battery_at      INTEGER,
    temperature     INTEGER,
    temperature_at  INTEGER,
    pressed_at      INTEGER
) STRICT;
CREATE INDEX asset_value_battery ON asset_value (organization_id, battery) WHERE battery IS NOT NULL;

CREATE TRIGGER asset_value_added_for_events AFTER INSERT ON asset_value
WHEN EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = 'event_stay_added')
BEGIN INSERT INTO event_candidate (kind, key) VALUES (5, new.asset_id); END;
CREATE TRIGGER asset_value_changed_for_events AFTER UPDATE ON asset_value
WHEN EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = 'event_stay_added')
BEGIN INSERT INTO event_candidate (kind, key) VALUES (5, new.asset_id); END;
