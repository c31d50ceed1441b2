-- Answers to creates that were sent with an Idempotency-Key, to be given again when the request is sent again.
-- Seen by the credential that sent the request, through the API; changed by the create alone, within its transaction,
-- whose audit line is enough. At most 10,000 rows and 32 MiB for each credential, and 24 hours: dropped at insert and
-- by the housekeeper. Part of backups, never of sync. Personal data: what the fields of the created record hold.
CREATE TABLE idempotent_answer (
    no              INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL REFERENCES organization (id),
    caller          TEXT NOT NULL,    -- of a token: the API key, or the person of a session
    key             TEXT NOT NULL,
    number          INTEGER NOT NULL, -- counts the rows of the caller, and `bytes_up_to` their bytes: the oldest go first
    bytes_up_to     INTEGER NOT NULL,
    request_hash    BLOB NOT NULL,    -- of its path and body
    status          INTEGER NOT NULL,
    location        TEXT NOT NULL,
    body            BLOB NOT NULL,
    created_at      INTEGER NOT NULL,
    UNIQUE (organization_id, caller, key)
) STRICT;
CREATE UNIQUE INDEX idempotent_answer_number ON idempotent_answer (organization_id, caller, number);
CREATE INDEX idempotent_answer_age ON idempotent_answer (created_at);
