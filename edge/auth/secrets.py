"""Secrets that this program issues: made here, shown once, stored only as a hash (spec: Authentication 1).

Those that sign webhooks cannot be stored as a hash; see `sealed`.
"""

from __future__ import annotations

import base64
import secrets
from hashlib import sha256

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
