"""The secrets this database was founded with; they never change within a file."""

from __future__ import annotations

from edge.store.database import database, execute

_signing_keys: dict[str, bytes] = {}


def signing_key() -> bytes:
    """Signs access and session tokens, and keys the hashes of badges."""
    path = database.database
    if path not in _signing_keys:
        _signing_keys[path] = execute("SELECT signing_key FROM instance").fetchone()[0]
    return _signing_keys[path]
