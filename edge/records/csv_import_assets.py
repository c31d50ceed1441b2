"""Bulk write of imported assets.

Rows are checked and prepared without the write lock, so scans are saved in the meantime. Under the lock three queries
verify that the checked data has not changed. If it has, the caller checks again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Act, Entry, changed, non_empty
from edge.database.connection import execute, execute_many
from edge.database.ids import new_ids
from edge.records import search, tagging, tags
from edge.records.assets import INSERT_ASSET, AssetRow, audit_fields, subject_of
from edge.records.external_keys import ASSET_KEYS, key_number, mint_key, moment, next_update
from edge.records.tags import NewTag, PreparedTag
from edge.validation import json_text


class AssetPlan(NamedTuple):
    """A new asset, or changes to an existing one. Without `external_key` a key is generated."""

    external_key: str | None
    existing: AssetRow | None
    changes: dict[str, Any]
    new_tags: Sequence[NewTag]


class Draft(NamedTuple):
    """An asset before and after the import, without times. `before` is None for a new asset."""

    before: AssetRow | None
    after: AssetRow
    new_tags: Sequence[PreparedTag]

    @property
    def is_changed(self) -> bool:
        """True if an existing asset changes in more than its tags."""
        return self.before is not None and self.before._replace(tags=()) != self.after._replace(tags=())


def prepare(actor: Actor, plans: Sequence[AssetPlan]) -> list[Draft]:
    """Assign ids and keys, and add new assets to the search index as staged; `search.drop_staged` undoes the latter.

    Ids ascend, so rows are appended to the tables in order.
    """
    ids = iter(sorted(new_ids(sum((plan.existing is None) + len(plan.new_tags) for plan in plans))))
    keys = _free_keys(actor.organization_id, {plan.external_key for plan in plans if plan.external_key})
    drafts = [_draft(plan, ids, keys) for plan in plans]
    search.stage("asset", [(draft.after, draft.after.tags) for draft in drafts if draft.before is None])
    return drafts


def _free_keys(organization_id: int, used: set[str]) -> Iterator[str]:
    """Generate keys that follow the highest used one, also counting those in the file."""
    number = key_number(ASSET_KEYS, mint_key(ASSET_KEYS, organization_id)) or 1
    number = max([number, *((key_number(ASSET_KEYS, key) or 0) + 1 for key in used)])
    while True:
        yield f"{ASSET_KEYS.prefix}{number:0{ASSET_KEYS.width}d}"
        number += 1


def _draft(plan: AssetPlan, ids: Iterator[int], keys: Iterator[str]) -> Draft:
    before = plan.existing
    after = before._replace(**plan.changes) if before else _new(next(ids), plan.external_key or next(keys), plan)
    prepared = [tags.prepare(next(ids), after.id, tag) for tag in plan.new_tags]
    return Draft(before, after._replace(tags=[*after.tags, *(one.row for one in prepared)]), prepared)


def _new(asset_id: int, external_key: str, plan: AssetPlan) -> AssetRow:
    row = AssetRow(asset_id, external_key, "", None, True, "{}", 0, None, 0, 0, deleted_at=None)
    return row._replace(**plan.changes)


def is_current(organization_id: int, drafts: Sequence[Draft]) -> bool:
    """True if keys and tags are still free and the assets unchanged. Call in the writing transaction."""
    new_keys = [draft.after.external_key for draft in drafts if draft.before is None]
    if execute(_TAKEN_KEYS, (json_text.text(new_keys), organization_id)).fetchone():
        return False
    new_tags = [(tag.row.tag_type, tag.row.value) for draft in drafts for tag in draft.new_tags]
    if execute(_TAKEN_TAGS, (json_text.text(new_tags), organization_id)).fetchone():
        return False
    expected = {before.id: (before.updated_at, list(before.tags)) for before, _, _ in drafts if before}
    query = execute(_CURRENT, (json_text.text(list(expected)),))
    return {row[0]: (row[1], tags.from_json(row[2])) for row in query} == expected


_TAKEN_KEYS = """
SELECT 1 FROM json_each(?) new CROSS JOIN asset a
ON a.organization_id = ? AND a.external_key = new.value AND a.deleted_at IS NULL LIMIT 1
"""
_TAKEN_TAGS = """
SELECT 1 FROM json_each(?) new CROSS JOIN tag t
ON t.organization_id = ? AND t.tag_type = new.value ->> 0 AND t.value = new.value ->> 1 AND t.deleted_at IS NULL
LIMIT 1
"""
_CURRENT = f"""
SELECT a.id, a.updated_at, {tags.tags_as_json("asset", "a.id")} FROM json_each(?) expected
CROSS JOIN asset a ON a.id = expected.value
WHERE a.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM mirror WHERE record_id = a.id)
"""


def write(act: Act, drafts: Sequence[Draft]) -> None:
    """Write all drafts with a few bulk statements."""
    now = moment()
    dated = [_dated(draft, now) for draft in drafts]
    execute_many(
        INSERT_ASSET,
        (
            (*after[:-1], act.organization_id, key_number(ASSET_KEYS, after.external_key))
            for before, after, _ in dated
            if before is None
        ),
    )
    execute_many(
        "UPDATE asset SET name = ?, description = ?, is_active = ?, updated_at = ? WHERE id = ?",
        (
            (draft.after.name, draft.after.description, draft.after.is_active, draft.after.updated_at, draft.after.id)
            for draft in dated
            if draft.is_changed
        ),
    )
    tagging.attach_prepared(act, "asset", [tag for draft in dated for tag in draft.new_tags], now)
    search.index_records("asset", act.organization_id, ((draft.after, draft.after.tags) for draft in dated))
    act.note_all(line for draft in dated for line in _audit_entries(draft))


def _dated(draft: Draft, now: int) -> Draft:
    if draft.before is None:
        return draft._replace(after=draft.after._replace(valid_from=now, created_at=now, updated_at=now))
    if draft.is_changed:
        return draft._replace(after=draft.after._replace(updated_at=next_update(draft.before.updated_at)))
    return draft


def _audit_entries(draft: Draft) -> Iterator[Entry]:
    """Return the same audit entries as if each asset had been entered on its own."""
    before, after, new_tags = draft
    if before is None:
        tags = [tagging.tag_text(tag) for tag in after.tags]
        yield Entry("asset.created", subject_of(after), non_empty({**audit_fields(after), "tags": tags}))
        return
    if draft.is_changed:
        yield Entry("asset.changed", subject_of(after), changed(audit_fields(before), audit_fields(after)))
    for tag in new_tags:
        yield Entry("tag.attached", subject_of(after), {"tag": tagging.tag_text(tag.row)})
