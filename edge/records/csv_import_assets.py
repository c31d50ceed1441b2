"""Writes some imported assets with a few statements, in one transaction with their check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from edge.audit import quotas
from edge.audit.audit import Act, Entry, changed, non_empty
from edge.database.connection import execute_many
from edge.database.ids import new_ids
from edge.records import former_people, search, tagging, tags
from edge.records.assets import INSERT_ASSET, AssetRow, audit_fields, subject_of
from edge.records.external_keys import ASSET_KEYS, key_number, mint_key, moment, next_update
from edge.records.tags import NewTag, PreparedTag, TagRow
from edge.validation.bodies import fields_of

_CHANGED = (*(field.name for field in fields_of("asset") if field.name != "external_key"), "updated_at")
_NEW = dict.fromkeys(AssetRow._fields) | {"is_active": True, "metadata": "{}", "valid_from": 0, "tags": ()}


class AssetPlan(NamedTuple):
    """A new asset, or changes to an existing one. Without `external_key` a key is generated."""

    external_key: str | None
    existing: AssetRow | None
    changes: dict[str, Any]
    new_tags: Sequence[NewTag]
    detached: Sequence[TagRow] = ()


class Draft(NamedTuple):
    """An asset before and after the import, without times. `before` is None for a new asset."""

    before: AssetRow | None
    after: AssetRow
    new_tags: Sequence[PreparedTag]
    detached: Sequence[TagRow]

    @property
    def is_changed(self) -> bool:
        """True if an existing asset changes in more than its tags."""
        return self.before is not None and self.before._replace(tags=()) != self.after._replace(tags=())


def prepare(organization_id: int, plans: Sequence[AssetPlan]) -> list[Draft]:
    """Assign ids and keys. Ids ascend, so rows are appended to the tables in order."""
    ids = iter(sorted(new_ids(sum((plan.existing is None) + len(plan.new_tags) for plan in plans))))
    keys = _free_keys(organization_id, {plan.external_key for plan in plans if plan.external_key})
    return [_draft(plan, ids, keys) for plan in plans]


def _free_keys(organization_id: int, used: set[str]) -> Iterator[str]:
    """Generate keys that follow the highest used one, also counting those of these rows."""
    number = key_number(ASSET_KEYS, mint_key(ASSET_KEYS, organization_id)) or 1
    number = max([number, *((key_number(ASSET_KEYS, key) or 0) + 1 for key in used)])
    while True:
        yield f"{ASSET_KEYS.prefix}{number:0{ASSET_KEYS.width}d}"
        number += 1


def _draft(plan: AssetPlan, ids: Iterator[int], keys: Iterator[str]) -> Draft:
    before = plan.existing
    after = before._replace(**plan.changes) if before else _new(next(ids), plan.external_key or next(keys), plan)
    prepared = [tags.prepare(next(ids), after.id, tag) for tag in plan.new_tags]
    kept = [tag for tag in after.tags if tag not in plan.detached]
    return Draft(before, after._replace(tags=[*kept, *(one.row for one in prepared)]), prepared, plan.detached)


def _new(asset_id: int, external_key: str, plan: AssetPlan) -> AssetRow:
    return AssetRow(**{**_NEW, **plan.changes, "id": asset_id, "external_key": external_key})


def write(act: Act, drafts: Sequence[Draft]) -> None:
    """Write all drafts in the caller's transaction."""
    now = moment()
    dated = [_dated(draft, now) for draft in drafts]
    execute_many(
        INSERT_ASSET,
        (
            (*draft.after[:-1], act.organization_id, key_number(ASSET_KEYS, draft.after.external_key))
            for draft in dated
            if draft.before is None
        ),
    )
    changed_drafts = [draft for draft in dated if draft.is_changed]
    with former_people.kept(act.actor, [draft.after.id for draft in changed_drafts]):
        execute_many(
            f"UPDATE asset SET {', '.join(f'{column} = ?' for column in _CHANGED)} WHERE id = ?",
            ((*(getattr(draft.after, column) for column in _CHANGED), draft.after.id) for draft in changed_drafts),
        )
    for draft in dated:
        for tag in draft.detached:
            tags.remove("asset", draft.after.id, tag.id, now)
    tagging.attach_prepared(act, "asset", [tag for draft in dated for tag in draft.new_tags], now)
    search.index_records("asset", act.organization_id, ((draft.after, draft.after.tags) for draft in dated))
    quotas.charge(act.actor, sum(_added_metadata(draft) for draft in dated))
    act.note_all(line for draft in dated for line in _audit_entries(draft))


def _added_metadata(draft: Draft) -> int:
    return max(0, len(draft.after.metadata) - len(draft.before.metadata if draft.before else "{}"))


def _dated(draft: Draft, now: int) -> Draft:
    if draft.before is None:
        begins = draft.after.valid_from or now
        return draft._replace(after=draft.after._replace(valid_from=begins, created_at=now, updated_at=now))
    if draft.is_changed:
        return draft._replace(after=draft.after._replace(updated_at=next_update(draft.before.updated_at)))
    return draft


def _audit_entries(draft: Draft) -> Iterator[Entry]:
    """Return the same audit entries as if each asset had been entered on its own."""
    before, after, new_tags, detached = draft
    if before is None:
        tags = [tagging.tag_text(tag) for tag in after.tags]
        yield Entry("asset.created", subject_of(after), non_empty({**audit_fields(after), "tags": tags}))
        return
    if draft.is_changed:
        yield Entry("asset.changed", subject_of(after), changed(audit_fields(before), audit_fields(after)))
    for old in detached:
        yield Entry("tag.detached", subject_of(after), {"tag": tagging.tag_text(old)})
    for tag in new_tags:
        yield Entry("tag.attached", subject_of(after), {"tag": tagging.tag_text(tag.row)})
