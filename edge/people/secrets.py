"""Hashed and sealed secrets.

Issued secrets and tokens are shown once and stored as a hash (interface: Authentication 1). Webhook keys, broker
passwords and authenticator secrets are needed in plain text, so they are sealed: encrypted with age. The key is a file
in the data directory that backups leave out, so a backup or a copy of the database reveals none of them.
"""

from __future__ import annotations

import base64
import secrets
from hashlib import sha256
from typing import TYPE_CHECKING

from edge.database.instance import data_dir_file, make_key
from edge.errors import SetupError

if TYPE_CHECKING:
    import pyrage  # loaded when used: most boxes never seal a secret

CLIENT_SECRET_PREFIX = "edge_"  # noqa: S105 -- a public prefix, for secret scanners
WEBHOOK_PREFIX = "whsec_"


def new_client_secret() -> str:
    """Return a new client secret: the prefix and 64 hexadecimal digits."""
    return CLIENT_SECRET_PREFIX + secrets.token_hex(32)


def new_token() -> str:
    """Return a 256-bit URL-safe token for a cookie, a refresh token or a link."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> bytes:
    """Return the hash that is stored. SHA-256 is enough because the secrets are random."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


def new_webhook_secret() -> str:
    """Return a new secret in the Standard Webhooks format (24 to 64 bytes in base64)."""
    return WEBHOOK_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


KEY_NAME = "events.key"


def seal(secret: str) -> bytes:
    """Encrypt a secret for storage. Raises SetupError if the key file cannot be read."""
    import pyrage

    sealed: bytes = pyrage.encrypt(secret.encode(), [_key().to_public()])
    return sealed


def unseal(sealed: bytes) -> str:
    """Decrypt a sealed secret. Raises SetupError if it was sealed with another key."""
    import pyrage

    try:
        secret: bytes = pyrage.decrypt(sealed, [_key()])
    except pyrage.DecryptError as error:
        raise SetupError(
            "its secret cannot be read on this box, for example after a restore on another box: create a new one"
        ) from error
    return secret.decode()


def _key() -> pyrage.x25519.Identity:
    import pyrage

    file = data_dir_file(KEY_NAME)
    if not file.exists():
        make_key(file, str(pyrage.x25519.Identity.generate()))
    try:
        return pyrage.x25519.Identity.from_str(file.read_text("ascii").strip())
    except (OSError, UnicodeDecodeError, pyrage.IdentityError) as error:
        raise SetupError(f"{file} is not a valid key file ({error}). Restore or delete it") from error
