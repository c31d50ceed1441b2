-- Tags that pass a door together are judged together, so the reads of one door are looked up by time.
CREATE INDEX door_read_door ON door_read (door_id, observed_at);
