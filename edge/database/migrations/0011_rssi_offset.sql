-- What is added to the strengths that a reader (port is null), or one of its antennas, reports, so that makes compare.
-- Seen by editors, changed by administrators, audited; at most one row for each antenna that is set up; kept while the
-- reader is, in backups, not sent to a hub, without personal data.
CREATE TABLE rssi_offset (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    reader_id       INTEGER NOT NULL REFERENCES reader (id),
    port            INTEGER,
    decibels        REAL NOT NULL CHECK (decibels BETWEEN -30 AND 30)
) STRICT;
CREATE UNIQUE INDEX rssi_offset_subject ON rssi_offset (reader_id, ifnull(port, -1));
CREATE TRIGGER rssi_offset_added AFTER INSERT ON rssi_offset BEGIN UPDATE version SET readers = readers + 1; END;
CREATE TRIGGER rssi_offset_removed AFTER DELETE ON rssi_offset BEGIN UPDATE version SET readers = readers + 1; END;
