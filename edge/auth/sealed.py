"""Secrets that are needed in plain text: keys that sign webhooks, passwords of brokers, secrets of authenticator apps.

They are in the database encrypted (age) to a key that is a file in the data directory and in no backup. So whoever has
a backup can sign nothing, and a copy of the database on another box can send nothing in this one's name.
"""

from __future__ import annotations

import pyrage

from edge.errors import SetupError
from edge.store.instance import beside_database, make_key

KEY_NAME = "events.key"


def seal(secret: str) -> bytes:
    sealed: bytes = pyrage.encrypt(secret.encode(), [_key().to_public()])
    return sealed


def unseal(sealed: bytes) -> str:
    """Raises SetupError if it was sealed on another box."""
    try:
        secret: bytes = pyrage.decrypt(sealed, [_key()])
    except pyrage.DecryptError as error:
        raise SetupError(
            "its secret cannot be read here, as after a restore on another box: give it a new one"
        ) from error
    return secret.decode()


def _key() -> pyrage.x25519.Identity:
    file = beside_database(KEY_NAME)
    if not file.exists():
        make_key(file, str(pyrage.x25519.Identity.generate()))
    try:
        return pyrage.x25519.Identity.from_str(file.read_text("ascii").strip())
    except (OSError, UnicodeDecodeError, pyrage.IdentityError) as error:
        raise SetupError(f"{file} cannot be read as a key ({error}). Restore it, or remove it") from error
