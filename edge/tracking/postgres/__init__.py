"""History of a hub in PostgreSQL: stays there, everything else in the database file.

Loaded only if `hub.history` is set. Design: web/manual/decisions/history-on-postgresql.md
"""
