-- Which session of edge at the broker gets the messages of a reader, see edge.ingest.sessions. Who sees it: the shell.
-- Who changes it: the service. Audited: no, it changes nothing that anybody sees. Bound: with the account. Retention:
-- with the account. Backup: with the database. Sync: none, each box has its own broker. Personal data: none.
ALTER TABLE broker_account ADD COLUMN session INTEGER NOT NULL DEFAULT 0; -- 0: the one for everything that has no other
ALTER TABLE broker_account ADD COLUMN is_settled INTEGER NOT NULL DEFAULT 0; -- session 0 does not get them any more
