"""Reads the audit trail for administrators and the shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import ActorKind
from edge.database.connection import execute
from edge.database.lists import Page
from edge.texts import N_, fill
from edge.validation import json_text

BOX = "box"


class AuditRow(NamedTuple):
    """One entry, with names as they were at the time. `actor_id` is None for the shell and the service.

    `organization_id` is None for entries of the box.
    """

    no: int
    organization_id: int | None
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
    def actor_label(self) -> str:
        """Return the actor, such as `Ada on Gun 1`, `API key WMS` or `Shell (root)`."""
        if self.actor_kind == ActorKind.PERSON:
            on_device = fill(N_("%(name)s on %(device)s"), name=self.actor_name, device=self.device_name)
            return on_device if self.device_name else self.actor_name
        if self.actor_kind == ActorKind.SHELL and self.actor_name:
            return fill(N_("Shell (%(name)s)"), name=self.actor_name)
        kind = fill(_KINDS.get(self.actor_kind) or self.actor_kind.replace("_", " ").capitalize())
        return fill("%(kind)s %(name)s", kind=kind, name=self.actor_name) if self.actor_name else kind

    @property
    def action_label(self) -> str:
        """Return the action, such as `Asset created`."""
        kind, _, participle = self.action.partition(".")
        return f"{kind} {participle}".replace("_", " ").capitalize()

    @property
    def as_json(self) -> str:
        return json_text.text({**self._asdict(), "at": clock.rfc3339(self.at)})

    @property
    def changes(self) -> list[str]:
        """Return one text per changed field, such as `name: Pallet → Box`."""
        return _texts(self.detail)


class AuditFilter(NamedTuple):
    """Filter for the trail. `subject` matches part of the name; `since` (inclusive) and `until` (exclusive) are in µs.

    `BOX` as `subject_kind` selects entries without an organization, such as sign-ins by unknown people or dropped data.
    """

    actor_kind: str = ""
    actor_id: str = ""
    subject_kind: str = ""
    subject_id: str = ""
    subject: str = ""
    since: int | None = None
    until: int | None = None


_KINDS: dict[str, str] = {
    ActorKind.API_KEY: N_("API key"),
    ActorKind.SHELL: N_("Shell"),
    ActorKind.DEVICE: N_("Device"),
    ActorKind.READER: N_("Reader"),
    ActorKind.HUB: N_("Hub"),
    ActorKind.SERVICE: N_("The service"),
}
_SELECT = f"SELECT {', '.join(AuditRow._fields)} FROM audit"


def list_page(organization_id: int, filters: AuditFilter, *, limit: int, offset: int = 0) -> Page[AuditRow]:
    """Return one page of entries, newest first."""
    conditions, values = ["organization_id IS :organization_id"], filters._asdict()
    for name in ("actor_kind", "actor_id", "subject_kind", "subject_id"):
        if values[name]:
            conditions.append(f"{name} = :{name}")
    if filters.subject:
        conditions.append("instr(casefold(subject_name), casefold(:subject))")
    if filters.since is not None:
        conditions.append("at >= :since")
    if filters.until is not None:
        conditions.append("at < :until")
    where = f"WHERE {' AND '.join(conditions)}"
    owner = None if filters.subject_kind == BOX else organization_id
    values |= {"organization_id": owner, "limit": limit, "offset": offset}
    rows = _rows(f"{_SELECT} {where} ORDER BY at DESC, no DESC LIMIT :limit OFFSET :offset", values)
    return Page(rows, execute(f"SELECT count(*) FROM audit {where}", values).fetchone()[0])


def _rows(sql: str, values: Mapping[str, Any]) -> list[AuditRow]:
    return [AuditRow._make((*row[:-1], json_text.decode(row[-1]))) for row in execute(sql, values)]


def entries_after(no: int, limit: int) -> list[AuditRow]:
    """Return the first entries of all organizations after entry `no`."""
    return _rows(f"{_SELECT} WHERE no > :no ORDER BY no LIMIT :limit", {"no": no, "limit": limit})


def newest_no(at: int = 2**62) -> int:
    """Return the number of the newest entry, of those until `at`; 0 if there is none."""
    number: int | None = execute("SELECT max(no) FROM audit WHERE at <= ?", (at,)).fetchone()[0]
    return number or 0


def has_entry(no: int, at: int) -> bool:
    """Return True if an entry is as it was, or was deleted since. False if another database was put in its place."""
    row = execute("SELECT at FROM audit WHERE no = ?", (no,)).fetchone()
    return row[0] == at if row else no <= newest_no()


def _texts(detail: Mapping[str, Any]) -> list[str]:
    return [f"{name.replace('_', ' ')}: {_text(value)}" for name, value in detail.items()]


def _text(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {"old", "new"}:
        return f"{_text(value['old'])} → {_text(value['new'])}"
    if isinstance(value, dict):
        return f"({', '.join(_texts(value))})"
    if isinstance(value, list):
        return ", ".join(_text(one) for one in value)
    if value is None:
        return "none"
    return value if isinstance(value, str) else json_text.text(value)


def recent(organization_id: int, limit: int = 100) -> list[AuditRow]:
    """Return the newest entries, newest first."""
    return list_page(organization_id, AuditFilter(), limit=limit).rows
