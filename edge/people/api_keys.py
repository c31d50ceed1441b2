"""API keys. They are created and revoked in the web app only (interface: Authentication 1)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, non_empty
from edge.database.models import ApiKey, rows
from edge.errors import Invalid, NotFound
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


def add_key(
    actor: Actor, name: str, scopes: Sequence[str], secret_hash: bytes, *, expires_at: int | None = None
) -> KeyRow:
    """Create a key. Raises Invalid for a bad name, scope or expiry."""
    moment = clock.now()
    _check(name, scopes, expires_at, moment)
    ordered = tuple(scope for scope in (*KEY_SCOPES, SYNC_SCOPE) if scope in scopes)
    key_id = str(uuid.uuid4())
    row = KeyRow(key_id, actor.organization_id, name, ordered, actor.person_id, moment, expires_at, None, None)
    with acting(actor) as act:
        ApiKey.insert({**row._asdict(), "scopes": " ".join(ordered), "secret_hash": secret_hash}).execute()
        expiry = expires_at and clock.rfc3339(expires_at)
        act.note("key.created", Subject("key", row.id, name), non_empty({"scopes": ordered, "expires_at": expiry}))
    return row


def list_keys(organization_id: int, *, include_revoked: bool = False) -> list[KeyRow]:
    """Return the keys of an organization, newest first."""
    condition = ApiKey.organization_id == organization_id
    if not include_revoked:
        condition &= ApiKey.revoked_at.is_null()
    query = ApiKey.select(*(getattr(ApiKey, column) for column in KeyRow._fields)).where(condition)
    keys = [KeyRow(*row) for row in rows(query.order_by(ApiKey.created_at.desc(), ApiKey.id))]
    return [row._replace(scopes=tuple(str(row.scopes).split())) for row in keys]


def revoke_key(actor: Actor, key_id: str) -> None:
    """Revoke a key immediately and permanently. Raises NotFound if it is unknown or already revoked."""
    with acting(actor) as act:
        key = next((row for row in list_keys(actor.organization_id) if row.id == key_id), None)
        if key is None:
            raise NotFound("no such API key")
        ApiKey.update(revoked_at=clock.now()).where(ApiKey.id == key_id).execute()
        act.note("key.revoked", Subject("key", key.id, key.name))


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
