-- Destinations, channels and outputs are kinds of one table, with one table each for retries, attempts and messages. The
-- views at the end are the tables before: the export reads and writes them, and a downgrade takes its rows from them.

-- Where this box sends something. `family` says what: events, messages about alerts, or commands to a device; `no` is the
-- number within the family, which URLs and rules have. `settings` is JSON by `family` and `kind`; `kind` of an output is the
-- make of the device. `secret` is sealed (an output: the hash of the password of the device). `position`: up to here each
-- event is delivered or waits in `destination_retry`; of an output, alerts up to this number switch nothing. From
-- `failures` on there is the progress of delivery. `tested_at`: when a test was asked for that has not been made; an
-- output is on from then. `is_on` is what the broker of an output has acknowledged. Seen and changed by administrators,
-- audited; progress is not. Bound: 20 destinations of events, 50 channels and 20 outputs in an organization (quotas).
-- Retention: until it is removed. Backup: with the database, the key of sealed secrets excepted. Sync: none. Personal data:
-- addresses of recipients.
CREATE TABLE destination (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    family          TEXT NOT NULL CHECK (family IN ('event_destination', 'channel', 'output')),
    no              INTEGER NOT NULL,
    kind            TEXT NOT NULL,
    name            TEXT NOT NULL,
    settings        TEXT NOT NULL,
    network         TEXT NOT NULL, -- where it may be
    secret          BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    disabled_at     INTEGER,
    disabled_reason TEXT,          -- why it was given up, in words; null: by hand
    position        INTEGER NOT NULL DEFAULT 0,
    failures        INTEGER NOT NULL DEFAULT 0, -- attempts since the last success
    failing_since   INTEGER,
    next_try_at     INTEGER NOT NULL DEFAULT 0,
    last_error      TEXT,
    last_success_at INTEGER,
    delivered       INTEGER NOT NULL DEFAULT 0,
    lost            INTEGER NOT NULL DEFAULT 0, -- given up after days, or dropped before they could be sent
    tested_at       INTEGER,
    is_on           INTEGER NOT NULL DEFAULT 0,
    UNIQUE (family, no)
) STRICT;
CREATE UNIQUE INDEX destination_name ON destination (organization_id, family, name);

INSERT INTO destination (
    organization_id, family, no, kind, name, settings, network, secret, created_at, disabled_at, disabled_reason, position,
    failures, failing_since, next_try_at, last_error, last_success_at, delivered, lost, tested_at)
SELECT organization_id, 'event_destination', no, kind, name, json_object('url', url, 'topic', topic, 'event_kinds',
    event_kinds, 'location_id', location_id, 'body_format', body_format), network, secret, created_at, disabled_at,
    disabled_reason, seq, failures, failing_since, next_try_at, last_error, last_success_at, delivered, lost,
    iif(is_test_wanted, created_at, NULL)
FROM event_destination ORDER BY no;
INSERT INTO destination (
    organization_id, family, no, kind, name, settings, network, secret, created_at, disabled_at, failures, failing_since,
    next_try_at, last_error, last_success_at, delivered, lost, tested_at)
SELECT organization_id, 'channel', no, kind, name, json_set(settings, '$.digest', digest, '$.quiet_from', quiet_from,
    '$.quiet_until', quiet_until, '$.is_sent_when_over', is_sent_when_over), network, secret, created_at, disabled_at,
    failures, failing_since, next_try_at, last_error, last_success_at, sent, lost, iif(is_test_requested, created_at, NULL)
FROM channel ORDER BY no;
INSERT INTO destination (
    organization_id, family, no, kind, name, settings, network, secret, created_at, disabled_at, position, failing_since,
    last_error, last_success_at, tested_at, is_on)
SELECT organization_id, 'output', no, form, name, json_object('device', device, 'relay', relay, 'topic', topic,
    'on_payload', on_payload, 'off_payload', off_payload, 'seconds', seconds, 'account', account), 'loopback',
    ifnull(CAST(password_hash AS BLOB), x''), created_at, disabled_at, after_alert, failing_since, last_error, switched_at,
    tested_at, is_on
FROM output ORDER BY no;

-- Events and messages that a receiver refused while it took others: tried again, and what follows of the same asset waits
-- for them. Seen by nobody, not audited. Bound: 300 for each destination. Retention: until delivered, at most five days of
-- failed attempts. Backup: with the database. Sync: none. Personal data: none.
CREATE TABLE destination_retry (
    destination_id INTEGER NOT NULL REFERENCES destination (id) ON DELETE CASCADE,
    seq            INTEGER NOT NULL, -- of the event or message
    subject_id     INTEGER NOT NULL,
    since          INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    next_try_at    INTEGER NOT NULL,
    PRIMARY KEY (destination_id, seq)
) STRICT, WITHOUT ROWID;

-- The newest attempts of each destination, tests included. Seen by administrators, not audited. Bound: 100 for each
-- destination. Retention: with the destination. Backup: with the database. Sync: none. Personal data: none.
CREATE TABLE destination_attempt (
    no             INTEGER PRIMARY KEY,
    destination_id INTEGER NOT NULL REFERENCES destination (id) ON DELETE CASCADE,
    at             INTEGER NOT NULL,
    milliseconds   INTEGER NOT NULL,
    event_id       TEXT NOT NULL,
    event_kind     TEXT NOT NULL,
    is_delivered   INTEGER NOT NULL,
    told           TEXT NOT NULL -- what the receiver answered, in words
) STRICT;

-- Messages about alerts that wait to be sent. Rules write them in the transaction that decides, so they are not audited.
-- Nobody sees them; administrators see their number. Bound: 2,000 for each channel, the oldest go first and are counted as
-- lost. Retention: until sent, at most five days of failed attempts. Backup: with the database. Sync: none. Personal data:
-- where an asset belongs to a person.
CREATE TABLE message (
    no             INTEGER PRIMARY KEY AUTOINCREMENT,
    destination_id INTEGER NOT NULL REFERENCES destination (id) ON DELETE CASCADE,
    enqueued_at    INTEGER NOT NULL,
    subject        TEXT NOT NULL,
    text           TEXT NOT NULL,
    rule_no        INTEGER NOT NULL,
    alert_no       INTEGER,
    asset_id       INTEGER,
    occurred_at    INTEGER NOT NULL,
    is_over        INTEGER NOT NULL,
    is_late        INTEGER NOT NULL
) STRICT;

-- The file that a waiting message brings. Everything as for the message; at most 1 MB, at most 20 in a channel.
CREATE TABLE message_file (
    message_no INTEGER PRIMARY KEY REFERENCES message (no) ON DELETE CASCADE,
    name       TEXT NOT NULL,
    content    BLOB NOT NULL CHECK (length(content) <= 1048576)
) STRICT;

INSERT INTO destination_retry SELECT d.id, r.seq, r.subject_id, r.since, r.attempts, r.next_try_at
FROM event_retry r JOIN destination d ON d.family = 'event_destination' AND d.no = r.destination_no;
INSERT INTO destination_attempt SELECT a.no, d.id, a.at, a.milliseconds, a.event_id, a.event_kind, a.is_delivered, a.told
FROM event_attempt a JOIN destination d ON d.family = 'event_destination' AND d.no = a.destination_no ORDER BY a.no;
INSERT INTO destination_attempt (destination_id, at, milliseconds, event_id, event_kind, is_delivered, told)
SELECT d.id, c.tested_at, ifnull(c.test_ms, 0), 'test', 'test', ifnull(c.is_test_ok, 0), ifnull(c.test_result, '')
FROM channel c JOIN destination d ON d.family = 'channel' AND d.no = c.no WHERE c.tested_at IS NOT NULL ORDER BY c.no;
INSERT INTO message SELECT m.no, d.id, m.enqueued_at, m.subject, m.text, m.rule_no, m.alert_no, m.asset_id, m.occurred_at,
    m.is_over, m.is_late
FROM channel_message m JOIN destination d ON d.family = 'channel' AND d.no = m.channel_no ORDER BY m.no;
INSERT INTO destination_retry SELECT d.id, m.no, m.no, m.enqueued_at, m.attempts, m.next_try_at
FROM channel_message m JOIN destination d ON d.family = 'channel' AND d.no = m.channel_no WHERE m.attempts > 0;
INSERT INTO message_file SELECT message_no, name, content FROM channel_file;
CREATE INDEX destination_attempt_of ON destination_attempt (destination_id, no);
CREATE INDEX message_of ON message (destination_id, no);

-- Numbers that were given once are never given again.
DELETE FROM sqlite_sequence WHERE name IN ('destination', 'message');
INSERT INTO sqlite_sequence SELECT 'destination', max(seq) FROM (
    SELECT seq FROM sqlite_sequence WHERE name IN ('event_destination', 'channel', 'output')
    UNION ALL SELECT count(*) FROM destination);
INSERT INTO sqlite_sequence SELECT 'message', ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'channel_message';

-- A filter keeps the number of its channel, which is no longer the key of a table.
ALTER TABLE saved_filter RENAME TO earlier_saved_filter;
DROP INDEX saved_filter_name;
DROP INDEX saved_filter_due;
DROP INDEX saved_filter_channel;
-- All as for the table before.
CREATE TABLE saved_filter (
    no              INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    name            TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    filter          TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    channel_no      INTEGER,
    minute          INTEGER NOT NULL DEFAULT 360 CHECK (minute BETWEEN 0 AND 1439),
    weekday         INTEGER CHECK (weekday BETWEEN 0 AND 6),
    next_at         INTEGER
) STRICT;
INSERT INTO saved_filter (no, organization_id, name, filter, created_at, channel_no, minute, weekday, next_at)
SELECT no, organization_id, name, filter, created_at, channel_no, minute, weekday, next_at FROM earlier_saved_filter;
DELETE FROM sqlite_sequence WHERE name = 'saved_filter';
INSERT INTO sqlite_sequence SELECT 'saved_filter', seq FROM sqlite_sequence WHERE name = 'earlier_saved_filter';
DROP TABLE earlier_saved_filter;
CREATE UNIQUE INDEX saved_filter_name ON saved_filter (organization_id, name COLLATE NOCASE);
CREATE INDEX saved_filter_due ON saved_filter (next_at) WHERE channel_no IS NOT NULL;
CREATE INDEX saved_filter_channel ON saved_filter (channel_no) WHERE channel_no IS NOT NULL;
CREATE TRIGGER channel_of_filter_removed AFTER DELETE ON destination WHEN old.family = 'channel' BEGIN
    UPDATE saved_filter SET channel_no = NULL WHERE channel_no = old.no;
END;

DROP TABLE channel_file;
DROP TABLE channel_message;
DROP TABLE channel;
DROP TABLE event_retry;
DROP TABLE event_attempt;
DROP TABLE event_destination;
DROP TABLE output;

CREATE VIEW event_destination AS
SELECT no, organization_id, kind, name, settings ->> 'url' AS url, settings ->> 'topic' AS topic,
    settings ->> 'event_kinds' AS event_kinds, settings ->> 'location_id' AS location_id, network, secret, created_at,
    disabled_at, disabled_reason, position AS seq, failures, failing_since, next_try_at, last_error, last_success_at,
    delivered, lost, tested_at IS NOT NULL AS is_test_wanted, settings ->> 'body_format' AS body_format
FROM destination WHERE family = 'event_destination';
CREATE VIEW event_retry AS
SELECT d.no AS destination_no, r.seq, r.subject_id, r.since, r.attempts, r.next_try_at
FROM destination_retry r JOIN destination d ON d.id = r.destination_id WHERE d.family = 'event_destination';
CREATE VIEW event_attempt AS
SELECT a.no, d.no AS destination_no, a.at, a.milliseconds, a.event_id, a.event_kind, a.is_delivered, a.told
FROM destination_attempt a JOIN destination d ON d.id = a.destination_id WHERE d.family = 'event_destination';
CREATE VIEW channel AS
SELECT d.no, d.organization_id, d.kind, d.name,
    json_remove(d.settings, '$.digest', '$.quiet_from', '$.quiet_until', '$.is_sent_when_over') AS settings,
    d.secret, d.network, d.settings ->> 'digest' AS digest, d.settings ->> 'quiet_from' AS quiet_from,
    d.settings ->> 'quiet_until' AS quiet_until, d.settings ->> 'is_sent_when_over' AS is_sent_when_over, d.created_at,
    d.disabled_at, d.failures, d.failing_since, d.next_try_at, d.last_error, d.last_success_at, d.delivered AS sent, d.lost,
    d.tested_at IS NOT NULL AS is_test_requested, a.at AS tested_at, a.milliseconds AS test_ms, a.told AS test_result,
    a.is_delivered AS is_test_ok
FROM destination d LEFT JOIN destination_attempt a ON a.no = (
    SELECT max(no) FROM destination_attempt WHERE destination_id = d.id AND event_kind = 'test')
WHERE d.family = 'channel';
CREATE VIEW channel_message AS
SELECT m.no, d.no AS channel_no, m.enqueued_at, ifnull(r.attempts, 0) AS attempts, ifnull(r.next_try_at, 0) AS next_try_at,
    m.subject, m.text, m.rule_no, m.alert_no, m.asset_id, m.occurred_at, m.is_over, m.is_late
FROM message m JOIN destination d ON d.id = m.destination_id
LEFT JOIN destination_retry r ON r.destination_id = d.id AND r.seq = m.no;
CREATE VIEW channel_file AS SELECT message_no, name, content FROM message_file;
CREATE VIEW output AS
SELECT no, organization_id, name, kind AS form, settings ->> 'device' AS device, settings ->> 'relay' AS relay,
    settings ->> 'topic' AS topic, settings ->> 'on_payload' AS on_payload, settings ->> 'off_payload' AS off_payload,
    settings ->> 'seconds' AS seconds, created_at, position AS after_alert, disabled_at, tested_at,
    settings ->> 'account' AS account, CAST(nullif(secret, x'') AS TEXT) AS password_hash, is_on,
    last_success_at AS switched_at, failing_since, last_error
FROM destination WHERE family = 'output';

-- The import of an export adds channels and outputs by these. No number is given again, see `destinations`.
CREATE TRIGGER channel_imported INSTEAD OF INSERT ON channel BEGIN
    INSERT INTO destination (
        id, organization_id, family, no, kind, name, settings, network, secret, created_at, disabled_at)
    VALUES ((SELECT max(new.no, seq + 1) FROM sqlite_sequence WHERE name = 'destination'), new.organization_id, 'channel', new.no, new.kind, new.name, json_set(new.settings, '$.digest',
        ifnull(new.digest, 0), '$.quiet_from', new.quiet_from, '$.quiet_until', new.quiet_until, '$.is_sent_when_over',
        ifnull(new.is_sent_when_over, 1)), new.network, new.secret, new.created_at, new.disabled_at);
END;
CREATE TRIGGER output_imported INSTEAD OF INSERT ON output BEGIN
    INSERT INTO destination (
        id, organization_id, family, no, kind, name, settings, network, secret, created_at, disabled_at)
    VALUES ((SELECT max(new.no, seq + 1) FROM sqlite_sequence WHERE name = 'destination'), new.organization_id, 'output', new.no, new.form, new.name, json_object('device', new.device, 'relay',
        new.relay, 'topic', new.topic, 'on_payload', new.on_payload, 'off_payload', new.off_payload, 'seconds',
        new.seconds, 'account', NULL), 'loopback', x'', new.created_at, new.disabled_at);
END;
