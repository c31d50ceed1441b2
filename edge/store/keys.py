"""API keys: minted and revoked in the web app only (spec: Authentication 1)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from edge import clock
from edge.errors import Invalid, NotFound
from edge.store.database import writing
from edge.store.tables import ApiKey, rows

SCOPES = ("assets:read", "assets:write", "locations:read", "locations:write", "tracking:read")
MAX_NAME_LENGTH = 255


class KeyRow(NamedTuple):
    """Without the hash of its secret, which nobody outside the exchange needs."""

    id: str
    organization_id: int
    name: str
    scopes: tuple[str, ...]
    created_by: int | None
    created_at: int
    expires_at: int | None
    last_used_at: int | None
    revoked_at: int | None


def add_key(
    organization_id: int,
    name: str,
    scopes: Sequence[str],
    secret_hash: bytes,
    *,
    created_by: int | None = None,
    expires_at: int | None = None,
) -> KeyRow:
    """Raises Invalid for a name, scopes or an expiry that cannot be."""
    moment = clock.now()
    _check(name, scopes, expires_at, moment)
    ordered = tuple(scope for scope in SCOPES if scope in scopes)
    row = KeyRow(str(uuid.uuid4()), organization_id, name, ordered, created_by, moment, expires_at, None, None)
    with writing():
        ApiKey.insert({**row._asdict(), "scopes": " ".join(ordered), "secret_hash": secret_hash}).execute()
    return row


def list_keys(organization_id: int, *, include_revoked: bool = False) -> list[KeyRow]:
    """Newest first."""
    wanted = ApiKey.organization_id == organization_id
    if not include_revoked:
        wanted &= ApiKey.revoked_at.is_null()
    query = ApiKey.select(*(getattr(ApiKey, column) for column in KeyRow._fields)).where(wanted)
    found = [KeyRow(*row) for row in rows(query.order_by(ApiKey.created_at.desc(), ApiKey.id))]
    return [row._replace(scopes=tuple(str(row.scopes).split())) for row in found]


def revoke_key(organization_id: int, key_id: str) -> None:
    """At once and for good. Raises NotFound when there is no such key that still works."""
    this_key = (ApiKey.id == key_id) & (ApiKey.organization_id == organization_id) & ApiKey.revoked_at.is_null()
    with writing():
        if ApiKey.update(revoked_at=clock.now()).where(this_key).execute() == 0:
            raise NotFound("no such API key")


def _check(name: str, scopes: Sequence[str], expires_at: int | None, moment: int) -> None:
    if not name.strip():
        raise Invalid.one("name", "too_short", "Give the key a name", min_length=1)
    if len(name) > MAX_NAME_LENGTH:
        raise Invalid.one("name", "too_long", f"At most {MAX_NAME_LENGTH} characters", max_length=MAX_NAME_LENGTH)
    if not scopes:
        raise Invalid.one("scopes", "required", "Choose at least one scope")
    if not set(scopes) <= set(SCOPES):
        raise Invalid.one("scopes", "invalid_value", "That is not a scope", allowed_values=list(SCOPES))
    if expires_at is not None and expires_at <= moment:
        raise Invalid.one("expires_at", "invalid_value", "The expiry must lie in the future")
