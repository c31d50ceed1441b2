"""Secrets that this program issues: made here, shown once, stored only as a hash (spec: Authentication 1).

Those that sign webhooks cannot be stored as a hash; see `sealed`.

Secrets that are needed in plain text: keys that sign webhooks, passwords of brokers, secrets of authenticator apps.

They are in the database encrypted (age) to a key that is a file in the data directory and in no backup. So whoever has
a backup can sign nothing, and a copy of the database on another box can send nothing in this one's name.
"""

from __future__ import annotations

import base64
import secrets
from hashlib import sha256

import pyrage

from edge.database.instance import beside_database, make_key
from edge.errors import SetupError

CLIENT_SECRET_PREFIX = "edge_"  # noqa: S105 -- the public part of every secret, for secret scanners
WEBHOOK_PREFIX = "whsec_"


def new_client_secret() -> str:
    """The fixed prefix and 64 hexadecimal digits."""
    return CLIENT_SECRET_PREFIX + secrets.token_hex(32)


def new_token() -> str:
    """For a cookie, a refresh token or a link: 256 bits, safe in a URL."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> bytes:
    """What is stored. A plain hash is enough: the secret is random, so there is nothing to guess."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def new_webhook_secret() -> str:
    """As Standard Webhooks writes them: 24 to 64 bytes in base64."""
    return WEBHOOK_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


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
