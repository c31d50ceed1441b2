-- Rules, their state, and alerts.

-- A rule: which assets, which condition, when in the week, and what happens. `asset_kind` is all, key or metadata.
-- `kind` is the condition, see edge.rules.rules.Condition; `location_id`, `door_id`, `direction`, `reader_id`, `span`
-- (microseconds) and `number` belong to it. `days` has a bit for each day of the week from Monday; the minutes are of the
-- day in the time zone of the pages, and a range that ends before it begins ends on the next day. `is_seeded` is 0 until
-- the state at the time of saving is stored. Seen by viewers, changed by editors and administrators, audited. Bound: 50 in
-- an organization (quotas). Retention: none; a removed rule is kept for its alerts. Backup: with the database. Sync: none.
-- Personal data: none.
CREATE TABLE rule (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    asset_kind      TEXT NOT NULL CHECK (asset_kind IN ('all', 'key', 'metadata')),
    asset_name      TEXT NOT NULL, -- of the metadata
    asset_value     TEXT NOT NULL, -- prefix of the key, or value of the metadata
    kind            TEXT NOT NULL,
    location_id     INTEGER REFERENCES location (id),
    door_id         INTEGER REFERENCES door (id),
    direction       TEXT NOT NULL CHECK (direction IN ('any', 'in', 'out')),
    reader_id       INTEGER REFERENCES reader (id), -- null: any reader
    span            INTEGER NOT NULL,
    number          INTEGER NOT NULL,
    days            INTEGER NOT NULL CHECK (days BETWEEN 1 AND 127),
    from_minute     INTEGER NOT NULL CHECK (from_minute BETWEEN 0 AND 1439),
    until_minute    INTEGER NOT NULL CHECK (until_minute BETWEEN 1 AND 1440),
    channels        TEXT NOT NULL, -- numbers of the channels to notify, separated by blanks
    created_at      INTEGER NOT NULL,
    changed_at      INTEGER NOT NULL,
    disabled_at     INTEGER,
    deleted_at      INTEGER,
    is_seeded       INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX rule_of ON rule (organization_id, deleted_at);

-- Conditions that last: the subject is an asset, reader or location. Nobody sees it; the rules write it, so it is not
-- audited. Bound: 500,000 rows. Retention: until the condition ends. Backup: with the database. Sync: none. Personal data:
-- where an asset belongs to a person.
CREATE TABLE rule_state (
    rule_no    INTEGER NOT NULL REFERENCES rule (no),
    subject_id INTEGER NOT NULL,
    since      INTEGER NOT NULL, -- begin of the condition
    due_at     INTEGER NOT NULL, -- from then on there is an alert
    is_due     INTEGER NOT NULL, -- 1: no alert yet
    amount     INTEGER NOT NULL, -- assets at its begin; 0 for other conditions
    alert_no   INTEGER,          -- null, too, if the condition is older than the rule
    PRIMARY KEY (rule_no, subject_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rule_state_due ON rule_state (rule_no, due_at) WHERE is_due = 1;

-- The last location of each asset, by the events that the rules have read. Kept while there are enabled rules. Seen by
-- nobody, not audited. Bound: one row for each asset. Backup: with the database. Sync: none. Personal data: where an asset
-- belongs to a person.
CREATE TABLE rule_asset (
    asset_id    INTEGER PRIMARY KEY REFERENCES asset (id),
    location_id INTEGER NOT NULL REFERENCES location (id),
    since       INTEGER NOT NULL
) STRICT;
CREATE INDEX rule_asset_location ON rule_asset (location_id);

-- Up to which event the rules have read the log. No row while no rule is enabled.
CREATE TABLE rule_progress (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
) STRICT;

-- Alerts. `cause` names the occurrence, which makes one alert of a rule. Names are as they were at the time. Seen by
-- viewers, acknowledged by operators, which is audited. Bound: 50,000, acknowledged ones go first. Retention:
-- `retention.alert_days`. Backup: with the database. Sync: none; a hub's rules make their own. Personal data: where an asset
-- belongs to a person.
CREATE TABLE alert (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    rule_no         INTEGER NOT NULL REFERENCES rule (no),
    cause           TEXT NOT NULL,
    subject_id      INTEGER NOT NULL,
    subject_name    TEXT NOT NULL,
    subject_key     TEXT NOT NULL,
    place_name      TEXT NOT NULL,
    amount          INTEGER NOT NULL, -- number of assets; 0 without
    occurred_at     INTEGER NOT NULL,
    made_at         INTEGER NOT NULL,
    over_at         INTEGER,
    acknowledged_at INTEGER,
    acknowledged_by TEXT,
    note            TEXT
) STRICT;
CREATE UNIQUE INDEX alert_cause ON alert (rule_no, cause);
CREATE INDEX alert_of ON alert (organization_id, no);
CREATE INDEX alert_open ON alert (organization_id, no) WHERE acknowledged_at IS NULL;
CREATE INDEX alert_age ON alert (made_at);
