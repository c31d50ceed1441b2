-- How large the last message on a topic was, of which `sample` may be the beginning only; 0: not known.
ALTER TABLE unassigned_topic ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
