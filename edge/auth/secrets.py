"""Secrets this program hands out: made here, shown once, kept as a hash only (spec: Authentication 1)."""

from __future__ import annotations

import secrets
from hashlib import sha256

CLIENT_SECRET_PREFIX = "edge_"  # noqa: S105 -- the public part of every secret, for secret scanners


def new_client_secret() -> str:
    """The fixed prefix and 64 hexadecimal digits."""
    return CLIENT_SECRET_PREFIX + secrets.token_hex(32)


def new_token() -> str:
    """For a cookie, a refresh token or a link: 256 bits, safe in a URL."""
    return secrets.token_urlsafe(32)


def hash_secret(secret: str) -> bytes:
    """What is stored. A plain hash is enough: the secret is random, so there is nothing to guess."""
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()
