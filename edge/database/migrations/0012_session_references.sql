-- A reference to each session, by which a device says in whose session a scan was made. It proves nothing alone and opens
-- nothing: it counts only on the device of that session, from its begin until the next one there.
-- Seen by the person's browser only; not audited; as many, as long and backed up as the sessions; stays at its site.
ALTER TABLE web_session ADD COLUMN ref TEXT NOT NULL DEFAULT '';
UPDATE web_session SET ref = lower(hex(randomblob(16)));
ALTER TABLE device_use ADD COLUMN ref TEXT NOT NULL DEFAULT '';
ALTER TABLE device_use ADD COLUMN expires_at INTEGER NOT NULL DEFAULT 0; -- later than ended_at: somebody ended it
CREATE INDEX device_use_ref ON device_use (ref) WHERE ref <> '';
DROP TRIGGER web_session_ended;
CREATE TRIGGER web_session_ended AFTER DELETE ON web_session WHEN old.device_id IS NOT NULL BEGIN
    INSERT INTO device_use (device_id, person_id, began_at, ended_at, ref, expires_at)
    VALUES (old.device_id, old.person_id, old.created_at,
            min(old.expires_at, CAST(strftime('%s', 'now') AS INTEGER) * 1000000), old.ref, old.expires_at);
END;
