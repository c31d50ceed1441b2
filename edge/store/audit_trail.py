"""What the audit tells: who changed what and when, for administrators and the shell."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from edge.store.database import execute
from edge.store.records import Page


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


class AuditFilter(NamedTuple):
    """`subject` is a part of its name. `since` and `until` in microseconds; until is not included."""

    actor_kind: str = ""
    actor_id: str = ""
    subject_kind: str = ""
    subject_id: str = ""
    subject: str = ""
    since: int | None = None
    until: int | None = None


_SELECT = f"SELECT {', '.join(AuditRow._fields)} FROM audit"  # noqa: S608


def list_page(organization_id: int | None, wanted: AuditFilter, *, limit: int, offset: int = 0) -> Page[AuditRow]:
    """Newest first. Without an organization: what concerns the box."""
    conditions, values = ["organization_id IS :organization_id"], wanted._asdict()
    for name in ("actor_kind", "actor_id", "subject_kind", "subject_id"):
        if values[name]:
            conditions.append(f"{name} = :{name}")
    if wanted.subject:
        conditions.append("instr(lower(subject_name), lower(:subject))")
    if wanted.since is not None:
        conditions.append("at >= :since")
    if wanted.until is not None:
        conditions.append("at < :until")
    where = f"WHERE {' AND '.join(conditions)}"
    values |= {"organization_id": organization_id, "limit": limit, "offset": offset}
    found = execute(f"{_SELECT} {where} ORDER BY at DESC, no DESC LIMIT :limit OFFSET :offset", values)
    total = execute(f"SELECT count(*) FROM audit {where}", values).fetchone()[0]  # noqa: S608
    return Page([AuditRow._make((*row[:-1], orjson.loads(row[-1]))) for row in found], total)


def recent(organization_id: int, limit: int = 100) -> list[AuditRow]:
    """Newest first."""
    return list_page(organization_id, AuditFilter(), limit=limit).rows
