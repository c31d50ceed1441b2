"""Who is asking, and what they may do."""

from __future__ import annotations

from typing import NamedTuple

from edge.store.actors import Actor
from edge.store.keys import SCOPES
from edge.store.people import Role

READ_SCOPES = tuple(scope for scope in SCOPES if scope.endswith(":read"))

SCOPES_OF_ROLE = {
    Role.ADMINISTRATOR: SCOPES,
    Role.EDITOR: SCOPES,
    Role.OPERATOR: READ_SCOPES,
    Role.VIEWER: READ_SCOPES,
}


class Principal(NamedTuple):
    """The bearer of a valid token. `api_key_id` is None for a person's session."""

    subject: str
    organization_id: int
    scopes: tuple[str, ...]
    api_key_id: str | None
    actor: Actor
