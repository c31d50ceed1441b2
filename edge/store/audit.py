"""Who changed what: one line for each act of a person that nobody should have to guess later."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from edge import clock
from edge.store.database import execute, writing
from edge.store.tables import Audit


class AuditRow(NamedTuple):
    at: int
    actor: str
    person: str | None
    action: str
    detail: dict[str, Any]


def note(organization_id: int, actor: str, action: str, **detail: Any) -> None:
    """Call it inside the transaction of the act, so that there is never one without the other.

    `actor` is "person:ID", "key:UUID" or "cli".
    """
    with writing():
        Audit.insert(
            organization_id=organization_id,
            at=clock.now(),
            actor=actor,
            action=action,
            detail=json.dumps(detail, ensure_ascii=False),
        ).execute()


_RECENT = """
SELECT audit.at, audit.actor, person.name, audit.action, audit.detail
FROM audit LEFT JOIN person ON audit.actor = 'person:' || person.id AND person.organization_id = audit.organization_id
WHERE audit.organization_id = ? ORDER BY audit.at DESC, audit.no DESC LIMIT ?
"""


def recent(organization_id: int, limit: int = 100) -> list[AuditRow]:
    """Newest first."""
    found = execute(_RECENT, (organization_id, limit)).fetchall()
    return [AuditRow(at, actor, person, action, json.loads(detail)) for at, actor, person, action, detail in found]
