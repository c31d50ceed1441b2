-- Certificates (PEM) of the authority of a service with HTTPS of its own, empty: those of the system. Not secret.
ALTER TABLE upstream ADD COLUMN authority TEXT NOT NULL DEFAULT '';
