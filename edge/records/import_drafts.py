"""Writes some imported assets or locations with a few statements, in one transaction with their check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from edge.audit.audit import Act, Entry, changed, non_empty
from edge.database.connection import execute_many
from edge.database.ids import new_ids
from edge.records import search, tagging, tags
from edge.records.external_keys import KeySeries, key_number, mint_key, moment, next_update
from edge.records.record import Kind
from edge.records.tags import NewTag, PreparedTag, TagRow

_FIXED = ("id", "external_key", "created_at", "deleted_at")  # of a record that an import changes


class Plan(NamedTuple):
    """A new record, or changes to an existing one: columns, and tags that are attached and detached.

    Without `external_key` a key is generated. `cleared`: number of fields that lose their value.
    """

    external_key: str | None
    existing: Any
    changes: dict[str, Any]
    new_tags: Sequence[NewTag] = ()
    detached: Sequence[TagRow] = ()
    cleared: int = 0


class Draft(NamedTuple):
    """A record before and after the import, without times. `before` is None for a new one."""

    before: Any
    after: Any
    new_tags: Sequence[PreparedTag]
    detached: Sequence[TagRow]

    @property
    def is_changed(self) -> bool:
        """True if an existing record changes in more than its tags."""
        return self.before is not None and self.before._replace(tags=()) != self.after._replace(tags=())


def prepare(act: Act, kind: Kind[Any], plans: Sequence[Plan]) -> list[Draft]:
    """Assign ids and keys. Ids ascend, so rows are appended to the tables in order."""
    ids = iter(sorted(new_ids(sum((plan.existing is None) + len(plan.new_tags) for plan in plans))))
    used = {plan.external_key for plan in plans if plan.external_key}
    keys = _free_keys(kind.keys, act.organization_id, used)
    return [_draft(act, kind, plan, ids, keys) for plan in plans]


def _free_keys(series: KeySeries, organization_id: int, used: set[str]) -> Iterator[str]:
    """Generate keys that follow the highest used one, also counting those of these rows."""
    number = key_number(series, mint_key(series, organization_id)) or 1
    number = max([number, *((key_number(series, key) or 0) + 1 for key in used)])
    while True:
        yield f"{series.prefix}{number:0{series.width}d}"
        number += 1


def _draft(act: Act, kind: Kind[Any], plan: Plan, ids: Iterator[int], keys: Iterator[str]) -> Draft:
    before, columns = plan.existing, dict(plan.changes)
    kind.prepare(act.actor, before, columns)
    after = before
    if before is None:
        new = {**dict.fromkeys(kind.row._fields), **kind.new, "valid_from": 0, "tags": (), "id": next(ids)}
        after = kind.row(**{**new, "external_key": plan.external_key or next(keys)})
    after = after._replace(**{**plan.changes, **columns})
    prepared = [tags.prepare(next(ids), after.id, tag) for tag in plan.new_tags]
    kept = [tag for tag in after.tags if tag not in plan.detached]
    return Draft(before, after._replace(tags=[*kept, *(one.row for one in prepared)]), prepared, plan.detached)


def write(act: Act, kind: Kind[Any], drafts: Sequence[Draft]) -> None:
    """Write all drafts in the caller's transaction."""
    now, owner = moment(), kind.owner
    dated = [_dated(draft, now) for draft in drafts]
    _insert(act, kind, [draft.after for draft in dated if draft.before is None])
    changed_rows = [draft.after for draft in dated if draft.is_changed]
    stored = [column for column in kind.stored if column not in _FIXED]
    with kind.guard(act.actor, [row.id for row in changed_rows]):
        execute_many(
            f"UPDATE {owner} SET {', '.join(f'{column} = ?' for column in stored)} WHERE id = ?",
            ((*(getattr(row, column) for column in stored), row.id) for row in changed_rows),
        )
    for draft in dated:
        for tag in draft.detached:
            tags.remove(owner, draft.after.id, tag.id, now)
    tagging.attach_prepared(act, owner, [tag for draft in dated for tag in draft.new_tags], now)
    search.index_records(owner, act.organization_id, ((draft.after, draft.after.tags) for draft in dated))
    act.note_all(line for draft in dated for line in _audit_entries(kind, draft))


def _insert(act: Act, kind: Kind[Any], rows: Sequence[Any]) -> None:
    columns = (*kind.stored, "organization_id", "key_number")
    execute_many(
        f"INSERT INTO {kind.owner} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        (
            (
                *(getattr(row, column) for column in kind.stored),
                act.organization_id,
                key_number(kind.keys, row.external_key),
            )
            for row in rows
        ),
    )


def _dated(draft: Draft, now: int) -> Draft:
    if draft.before is None:
        begins = draft.after.valid_from or now
        return draft._replace(after=draft.after._replace(valid_from=begins, created_at=now, updated_at=now))
    if draft.is_changed:
        return draft._replace(after=draft.after._replace(updated_at=next_update(draft.before.updated_at)))
    return draft


def _audit_entries(kind: Kind[Any], draft: Draft) -> Iterator[Entry]:
    """Return the same audit entries as if each record had been entered on its own."""
    before, after, new_tags, detached = draft
    subject, audited = kind.subject(after), kind.audited(after)
    if before is None:
        tags = [tagging.tag_text(tag) for tag in after.tags]
        yield Entry(f"{kind.owner}.created", subject, non_empty({**audited, "tags": tags}))
        return
    if draft.is_changed:
        yield Entry(f"{kind.owner}.changed", subject, changed(kind.audited(before), audited))
    for old in detached:
        yield Entry("tag.detached", subject, {"tag": tagging.tag_text(old)})
    for tag in new_tags:
        yield Entry("tag.attached", subject, {"tag": tagging.tag_text(tag.row)})
