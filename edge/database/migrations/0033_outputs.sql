-- Outputs: lamps, horns and gates that rules switch over MQTT.

-- An output. `form` is the kind of device; `device` and `relay` are its address, from which `topic` and the payloads follow,
-- except for the form `topic`. `seconds` is how long an alert switches it on; 0 until the alert is acknowledged. Only alerts
-- after the number `after_alert` switch it, whatever the clock says. A test switches it on from `tested_at`. The columns from `is_on` on are what the
-- broker has acknowledged. `account` and `password_hash` are the account of the device at the broker. Seen and changed by
-- administrators, audited; editors see the names. Bound: 20 in an organization (quotas). Retention: until it is removed.
-- Backup: with the database. Sync: none. Personal data: none.
CREATE TABLE output (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    form            TEXT NOT NULL,
    device          TEXT NOT NULL,
    relay           INTEGER NOT NULL,
    topic           TEXT NOT NULL,
    on_payload      TEXT NOT NULL,
    off_payload     TEXT NOT NULL, -- empty: the device needs no command to switch off
    seconds         INTEGER NOT NULL CHECK (seconds BETWEEN 0 AND 3600),
    created_at      INTEGER NOT NULL,
    after_alert     INTEGER NOT NULL DEFAULT 0,
    disabled_at     INTEGER,
    tested_at       INTEGER,
    account         TEXT,
    password_hash   TEXT,
    is_on           INTEGER NOT NULL DEFAULT 0,
    switched_at     INTEGER,
    failing_since   INTEGER,
    last_error      TEXT
) STRICT;
CREATE UNIQUE INDEX output_name ON output (organization_id, name COLLATE NOCASE);
CREATE UNIQUE INDEX output_topic ON output (topic);
CREATE UNIQUE INDEX output_account ON output (account) WHERE account IS NOT NULL;

-- Last commands of outputs that were changed or removed, kept until the broker has acknowledged them. Seen by nobody, not
-- audited. Bound: 100, the oldest go first. Retention: at most a day. Backup: with the database. Sync: none. Personal data:
-- none.
CREATE TABLE output_last_command (
    topic   TEXT PRIMARY KEY,
    payload TEXT NOT NULL,
    made_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE rule ADD COLUMN outputs TEXT NOT NULL DEFAULT ''; -- numbers of the outputs to switch, separated by blanks
ALTER TABLE rule ADD COLUMN after_alert INTEGER NOT NULL DEFAULT 0; -- only later alerts switch outputs
CREATE INDEX alert_newest_open ON alert (rule_no, made_at, occurred_at) WHERE acknowledged_at IS NULL;
