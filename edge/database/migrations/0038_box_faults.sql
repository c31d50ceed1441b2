-- Faults of the box, for rules.

-- What the Status page and the doctor report now, and since when; no row while the box is healthy. Written by housekeeping
-- while a rule needs it, so it is not audited. Seen with the Status page. Bound: one row. Backup: with the database. Sync:
-- none; a hub's rules see its own faults. Personal data: none.
CREATE TABLE box_fault (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    since INTEGER NOT NULL,
    text  TEXT NOT NULL
) STRICT;
