-- What the page My account shows of each session, and when it was last used, for `pages.idle_minutes`.
-- Changed at most every few minutes; not audited; as many, as long and backed up as the sessions; stays at its site.
ALTER TABLE web_session ADD COLUMN browser TEXT NOT NULL DEFAULT '';
ALTER TABLE web_session ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0;
UPDATE web_session SET used_at = created_at;
