"""Reading the audit, for administrators and the shell: who changed what, and when."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from edge.audit.actors import ActorKind
from edge.database.connection import execute
from edge.records.external_keys import Page

BOX = "box"


class AuditRow(NamedTuple):
    """Names are those of the time. `actor_id` is None for the shell and the service."""

    no: int
    at: int
    actor_kind: str
    actor_id: str | None
    actor_name: str
    device_name: str | None
    action: str
    subject_kind: str
    subject_id: str
    subject_name: str
    detail: dict[str, Any]

    @property
    def who(self) -> str:
        """`Ada on Gun 1`, `API key WMS`, `Shell (root)`"""
        if self.actor_kind == ActorKind.PERSON:
            return f"{self.actor_name} on {self.device_name}" if self.device_name else self.actor_name
        kind = self.actor_kind.replace("_", " ")
        if self.actor_kind == ActorKind.SHELL and self.actor_name:
            return f"Shell ({self.actor_name})"
        return f"{_KINDS.get(self.actor_kind) or kind.capitalize()} {self.actor_name}".rstrip()

    @property
    def what(self) -> str:
        """`Asset created`"""
        kind, _, participle = self.action.partition(".")
        return f"{kind} {participle}".replace("_", " ").capitalize()

    @property
    def told(self) -> list[str]:
        """`name: Pallet → Box`, for each thing that changed."""
        return [f"{name.replace('_', ' ')}: {_words(value)}" for name, value in self.detail.items()]


class AuditFilter(NamedTuple):
    """`subject` is a part of its name. `since` and `until` in microseconds; until is not included.

    `BOX` as `subject_kind` asks for what belongs to no organization: sign-ins by unknown people, data that was dropped.
    """

    actor_kind: str = ""
    actor_id: str = ""
    subject_kind: str = ""
    subject_id: str = ""
    subject: str = ""
    since: int | None = None
    until: int | None = None


_KINDS: dict[str, str] = {ActorKind.API_KEY: "API key", ActorKind.SERVICE: "The service"}
_SELECT = f"SELECT {', '.join(AuditRow._fields)} FROM audit"


def list_page(organization_id: int, wanted: AuditFilter, *, limit: int, offset: int = 0) -> Page[AuditRow]:
    """Newest first."""
    conditions, values = ["organization_id IS :organization_id"], wanted._asdict()
    for name in ("actor_kind", "actor_id", "subject_kind", "subject_id"):
        if values[name]:
            conditions.append(f"{name} = :{name}")
    if wanted.subject:
        conditions.append("instr(casefold(subject_name), casefold(:subject))")
    if wanted.since is not None:
        conditions.append("at >= :since")
    if wanted.until is not None:
        conditions.append("at < :until")
    where = f"WHERE {' AND '.join(conditions)}"
    owner = None if wanted.subject_kind == BOX else organization_id
    values |= {"organization_id": owner, "limit": limit, "offset": offset}
    found = execute(f"{_SELECT} {where} ORDER BY at DESC, no DESC LIMIT :limit OFFSET :offset", values)
    total = execute(f"SELECT count(*) FROM audit {where}", values).fetchone()[0]
    return Page([AuditRow._make((*row[:-1], orjson.loads(row[-1]))) for row in found], total)


def _words(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"old", "new"}:
        return f"{_words(value['old'])} → {_words(value['new'])}"
    if isinstance(value, list):
        return ", ".join(_words(one) for one in value)
    if value is None:
        return "none"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def recent(organization_id: int, limit: int = 100) -> list[AuditRow]:
    """Newest first."""
    return list_page(organization_id, AuditFilter(), limit=limit).rows
