"""Rotation of refresh tokens (interface: Authentication 3, 4).

A token family is one exchange of a client secret and all refreshes that follow.
"""

from __future__ import annotations

from hmac import compare_digest
from typing import NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, writing

REFRESH_LIFETIME = 30 * clock.DAY
MOST_FAMILIES = 10_000  # of a key. Each exchange of its secret starts one, and a stolen secret must not fill the disk
MOST_SPENT = 5_000  # tokens of a family: more than clients spend in their lifetime, every 15 minutes
_NO_HASH = bytes(32)


class Grant(NamedTuple):
    """Claims of a new token pair."""

    family_id: int
    api_key_id: str
    organization_id: int
    scopes: str


def start_family(api_key_id: str, secret_hash: bytes, refresh_hash: bytes) -> Grant | None:
    """Start a family. Returns None if the key or secret is wrong, in the same time."""
    with writing():
        now = clock.now()
        row = execute(
            "SELECT secret_hash, organization_id, scopes FROM api_key "
            "WHERE id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)",
            (api_key_id, now),
        ).fetchone()
        if not compare_digest(row[0] if row else _NO_HASH, secret_hash) or row is None:
            return None
        execute("UPDATE api_key SET last_used_at = ? WHERE id = ?", (now, api_key_id))
        family_id = execute(
            "INSERT INTO token_family (api_key_id, created_at) VALUES (?, ?) RETURNING no", (api_key_id, now)
        ).fetchone()[0]
        _add_refresh_token(refresh_hash, family_id, now)
        execute(_DROP_FAMILIES, (api_key_id, MOST_FAMILIES))
    return Grant(family_id, api_key_id, row[1], row[2])


def rotate(spent_hash: bytes, refresh_hash: bytes, client: tuple[str, bytes] | None = None) -> Grant | None:
    """Spend a refresh token and store the next one. Returns None for an invalid token.

    Reuse of a spent token revokes the whole family (interface: Authentication 4). `client` is the key id and the hash
    of the secret; if they do not belong to the token, nothing changes.
    """
    with writing():
        now = clock.now()
        row = execute(
            "SELECT family.no, key.id, key.organization_id, key.scopes, token.spent_at, key.name, key.secret_hash "
            "FROM refresh_token token "
            "JOIN token_family family ON family.no = token.family_id JOIN api_key key ON key.id = family.api_key_id "
            "WHERE token.token_hash = ? AND token.expires_at BETWEEN ? AND ? AND family.revoked_at IS NULL "
            "AND key.revoked_at IS NULL AND (key.expires_at IS NULL OR key.expires_at > ?)",
            # The upper bound rejects tokens issued while the clock was ahead; they would live too long.
            (spent_hash, now + 1, now + REFRESH_LIFETIME + clock.SET_BACK, now),
        ).fetchone()
        if row is None or (client and not _is_client(row[1], row[6], client)):
            return None
        grant = Grant(*row[:4])
        if row[4] is not None:
            _revoke(grant, row[5], now)
            return None
        execute("UPDATE refresh_token SET spent_at = ? WHERE token_hash = ?", (now, spent_hash))
        execute("UPDATE api_key SET last_used_at = ? WHERE id = ?", (now, grant.api_key_id))
        _add_refresh_token(refresh_hash, grant.family_id, now)
        execute(_DROP_SPENT, (grant.family_id, MOST_SPENT))
    return grant


# The order by last use takes 10,000 lookups, so one percent is dropped at once.
_DROP_FAMILIES = """
DELETE FROM token_family WHERE no IN
    (SELECT no FROM token_family WHERE api_key_id = ?1
     AND (SELECT count(*) FROM token_family WHERE api_key_id = ?1) > ?2
     ORDER BY (SELECT max(expires_at) FROM refresh_token WHERE family_id = no) DESC LIMIT -1 OFFSET ?2 - ?2 / 100)
"""
_DROP_SPENT = """
DELETE FROM refresh_token WHERE token_hash IN (
    SELECT token_hash FROM refresh_token WHERE family_id = ? AND spent_at IS NOT NULL
    ORDER BY spent_at DESC LIMIT 100 OFFSET ?)
"""


def _is_client(key_id: str, secret_hash: bytes, client: tuple[str, bytes]) -> bool:
    return compare_digest(secret_hash, client[1]) and key_id == client[0]


def _revoke(grant: Grant, key_name: str, now: int) -> None:
    with acting(actors.api_key(grant.organization_id, grant.api_key_id, key_name)) as act:
        execute("UPDATE token_family SET revoked_at = ? WHERE no = ?", (now, grant.family_id))
        reason = "a refresh token was used twice: its whole chain is revoked"
        act.note("key.tokens_revoked", Subject("key", grant.api_key_id, key_name), {"reason": reason})


def _add_refresh_token(token_hash: bytes, family_id: int, now: int) -> None:
    execute(
        "INSERT INTO refresh_token (token_hash, family_id, expires_at) VALUES (?, ?, ?)",
        (token_hash, family_id, now + REFRESH_LIFETIME),
    )
