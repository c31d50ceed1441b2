-- Several relays of one device, and alerts that could not start their muster.

-- Two relays of a Shelly have one topic.
DROP INDEX output_topic;
ALTER TABLE output_last_command RENAME TO earlier_last_command;
-- Last commands of outputs that were changed or removed. All as for the table before, which had one for each topic.
CREATE TABLE output_last_command (
    topic   TEXT NOT NULL,
    payload TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    PRIMARY KEY (topic, payload)
) STRICT, WITHOUT ROWID;
INSERT INTO output_last_command (topic, payload, made_at) SELECT topic, payload, made_at FROM earlier_last_command;
DROP TABLE earlier_last_command;
CREATE UNIQUE INDEX output_topic ON output (topic, relay); -- last, so that it takes the page of the table

-- Musters of the rule that did not start, one on each line: the reason (see `musters.Obstacle`), a blank, and the name of the
-- plan. All as for the alert.
ALTER TABLE alert ADD COLUMN not_started TEXT NOT NULL DEFAULT '';
