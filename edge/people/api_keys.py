"""API keys. They are created and revoked in the web app only (interface: Authentication 1)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import non_empty
from edge.audit.kinds import ALL, Kind
from edge.errors import Invalid
from edge.texts import N_, fill
from edge.validation.values import MAX_NAME

SCOPES = ("assets:read", "assets:write", "locations:read", "locations:write", "tracking:read")
FEED_SCOPE = "feed:read"  # for the open feed; only for keys, and not part of the v1 API
KEY_SCOPES = (*SCOPES, FEED_SCOPE)  # for keys that people create
SYNC_SCOPE = "sync:write"  # only for keys of sites, which joining creates; sessions never have it


class KeyRow(NamedTuple):
    """An API key without the hash of its secret. Times are microseconds since the epoch, UTC."""

    id: str
    organization_id: int
    name: str
    scopes: tuple[str, ...]
    created_by: int | None
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None


def _row(row: Sequence[Any]) -> KeyRow:
    key = KeyRow._make(row)
    return key._replace(scopes=tuple(str(key.scopes).split()))


def _detail(row: KeyRow) -> dict[str, Any]:
    return non_empty({"scopes": row.scopes, "expires_at": row.expires_at and clock.rfc3339(row.expires_at)})


KIND = Kind(
    "api_key",
    "API key",
    f"SELECT {', '.join(KeyRow._fields)} FROM api_key",
    _row,
    key="id",
    order="created_at DESC, id",
    live="revoked_at IS NULL",
    audited="key",
    detail=_detail,
)
get = KIND.get


def add_key(
    actor: Actor, name: str, scopes: Sequence[str], secret_hash: bytes, *, expires_at: int | None = None
) -> KeyRow:
    """Create a key. Raises Invalid for a bad name, scope or expiry."""
    _check(name, scopes, expires_at, clock.now())
    ordered = " ".join(scope for scope in (*KEY_SCOPES, SYNC_SCOPE) if scope in scopes)
    columns = {"id": str(uuid.uuid4()), "name": name, "scopes": ordered, "secret_hash": secret_hash}
    return KIND.add(actor, {**columns, "created_by": actor.person_id, "expires_at": expires_at})


def list_keys(organization_id: int, *, include_revoked: bool = False) -> list[KeyRow]:
    """Return the keys of an organization, newest first."""
    return (replace(KIND, live=ALL) if include_revoked else KIND).list_of(organization_id)


def revoke_key(actor: Actor, key_id: str) -> None:
    """Revoke a key immediately and permanently. Raises NotFound if it is unknown or already revoked."""
    KIND.mark(actor, key_id, "revoked", {"revoked_at": clock.now()})


def _check(name: str, scopes: Sequence[str], expires_at: int | None, moment: int) -> None:
    if not name.strip():
        raise Invalid.one("name", "too_short", N_("Enter a name for the key"), min_length=1)
    if len(name) > MAX_NAME:
        raise Invalid.one(
            "name", "too_long", fill(N_("At most %(most)s characters"), most=MAX_NAME), max_length=MAX_NAME
        )
    if not scopes:
        raise Invalid.one("scopes", "required", N_("Choose at least one scope"))
    if not set(scopes) <= {*KEY_SCOPES, SYNC_SCOPE}:
        raise Invalid.one("scopes", "invalid_value", N_("Unknown scope"), allowed_values=list(KEY_SCOPES))
    if expires_at is not None and expires_at <= moment:
        raise Invalid.one("expires_at", "invalid_value", N_("The expiry must be in the future"))
