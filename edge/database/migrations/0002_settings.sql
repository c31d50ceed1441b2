-- Settings that an administrator changed while the service ran; they count over the settings file and the environment.
CREATE TABLE setting (
    name       TEXT PRIMARY KEY, -- as in the settings file: retention.history_days
    value      TEXT NOT NULL,    -- as it is written after --set
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL     -- what they were called at the time
) STRICT, WITHOUT ROWID;
