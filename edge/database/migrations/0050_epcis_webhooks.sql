-- What the body of a webhook contains: an event of edge, or a document of EPCIS 2.0.
ALTER TABLE event_destination ADD COLUMN body_format TEXT NOT NULL DEFAULT 'edge' CHECK (body_format IN ('edge', 'epcis'));
