"""Token chains: one exchange of a client secret, and every refresh that follows from it (spec: Authentication 3, 4)."""

from __future__ import annotations

from hmac import compare_digest
from typing import NamedTuple

from edge import clock
from edge.store.database import execute, writing

REFRESH_LIFETIME = 30 * clock.DAY
_NO_HASH = bytes(32)


class Grant(NamedTuple):
    """What a token pair is made of."""

    chain_no: int
    api_key_id: str
    organization_id: int
    scopes: str


class Standing(NamedTuple):
    """Of a chain whose key and chain are not revoked."""

    organization_id: int
    expires_at: int | None


def begin(api_key_id: str, secret_hash: bytes, refresh_hash: bytes) -> Grant | None:
    """A new chain for the right secret of a key that works; else None, after the same steps."""
    with writing():
        now = clock.now()
        found = execute(
            "SELECT secret_hash, organization_id, scopes FROM api_key "
            "WHERE id = ? AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?)",
            (api_key_id, now),
        ).fetchone()
        if not compare_digest(found[0] if found else _NO_HASH, secret_hash) or found is None:
            return None
        execute("UPDATE api_key SET last_used_at = ? WHERE id = ?", (now, api_key_id))
        chain_no = execute(
            "INSERT INTO token_chain (api_key_id, created_at) VALUES (?, ?) RETURNING no", (api_key_id, now)
        ).fetchone()[0]
        _add_refresh_token(refresh_hash, chain_no, now)
    return Grant(chain_no, api_key_id, found[1], found[2])


def follow(spent_hash: bytes, refresh_hash: bytes) -> Grant | None:
    """The next pair of the chain. None for a token that does not work; one that was spent ends its whole chain."""
    with writing():
        now = clock.now()
        found = execute(
            "SELECT chain.no, key.id, key.organization_id, key.scopes, token.spent_at FROM refresh_token token "
            "JOIN token_chain chain ON chain.no = token.chain_no JOIN api_key key ON key.id = chain.api_key_id "
            "WHERE token.token_hash = ? AND token.expires_at > ? AND chain.revoked_at IS NULL "
            "AND key.revoked_at IS NULL AND (key.expires_at IS NULL OR key.expires_at > ?)",
            (spent_hash, now, now),
        ).fetchone()
        if found is None:
            return None
        grant = Grant(*found[:4])
        if found[4] is not None:
            execute("UPDATE token_chain SET revoked_at = ? WHERE no = ?", (now, grant.chain_no))
            return None
        execute("UPDATE refresh_token SET spent_at = ? WHERE token_hash = ?", (now, spent_hash))
        execute("UPDATE api_key SET last_used_at = ? WHERE id = ?", (now, grant.api_key_id))
        _add_refresh_token(refresh_hash, grant.chain_no, now)
    return grant


def standing(chain_no: int, api_key_id: str) -> Standing | None:
    """Asked on every request, so that a revocation counts at once, whoever made it; None for what was revoked."""
    found = execute(
        "SELECT key.organization_id, key.expires_at FROM token_chain chain JOIN api_key key "
        "ON key.id = chain.api_key_id WHERE chain.no = ? AND key.id = ? "
        "AND chain.revoked_at IS NULL AND key.revoked_at IS NULL",
        (chain_no, api_key_id),
    ).fetchone()
    return Standing(*found) if found else None


def _add_refresh_token(token_hash: bytes, chain_no: int, now: int) -> None:
    execute(
        "INSERT INTO refresh_token (token_hash, chain_no, expires_at) VALUES (?, ?, ?)",
        (token_hash, chain_no, now + REFRESH_LIFETIME),
    )
