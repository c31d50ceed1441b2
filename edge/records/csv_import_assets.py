"""The assets of an import, in bulk: judged and prepared without the write lock, which is then held for seconds.

What was judged may have changed until the lock is there. It is compared once more in three statements, and judged
anew where it has; so an import is all or nothing as if it held the lock all the time, and scans are saved meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from edge.audit.actors import Actor
from edge.audit.audit import Act, Entry, changed, given
from edge.database.connection import execute, execute_many
from edge.database.ids import new_ids
from edge.records import search, tagging, tags
from edge.records.assets import INSERT_ASSET, AssetRow, facts_of, subject_of
from edge.records.external_keys import ASSET_KEYS, key_number, mint_key, moment, next_update
from edge.records.tags import NewTag, PreparedTag


class Wanted(NamedTuple):
    """What a row of the file asks for: a new asset, or changes of the one that was found."""

    external_key: str | None
    found: AssetRow | None
    changes: dict[str, Any]
    new_tags: Sequence[NewTag]


class Draft(NamedTuple):
    """An asset as it will be, but for the times; `before` is None for a new one."""

    before: AssetRow | None
    after: AssetRow
    new_tags: Sequence[PreparedTag]

    @property
    def is_changed(self) -> bool:
        """Beside its tags."""
        return self.before is not None and self.before._replace(tags=()) != self.after._replace(tags=())


def prepare(actor: Actor, wanted: Sequence[Wanted]) -> list[Draft]:
    """Gives ids and keys, and makes new assets ready to be found; `search.drop_ahead` undoes that.

    Ids in rising order, so that the tables are filled from one end to the other.
    """
    ids = iter(sorted(new_ids(sum((one.found is None) + len(one.new_tags) for one in wanted))))
    keys = _free_keys(actor.organization_id, {one.external_key for one in wanted if one.external_key})
    drafts = [_draft(one, ids, keys) for one in wanted]
    search.index_ahead("asset", [(draft.after, draft.after.tags) for draft in drafts if draft.before is None])
    return drafts


def _free_keys(organization_id: int, used: set[str]) -> Iterator[str]:
    """Minted ones, beside those that the file itself gives."""
    number = key_number(ASSET_KEYS, mint_key(ASSET_KEYS, organization_id)) or 1
    number = max([number, *((key_number(ASSET_KEYS, key) or 0) + 1 for key in used)])
    while True:
        yield f"{ASSET_KEYS.prefix}{number:0{ASSET_KEYS.width}d}"
        number += 1


def _draft(wanted: Wanted, ids: Iterator[int], keys: Iterator[str]) -> Draft:
    before = wanted.found
    after = before._replace(**wanted.changes) if before else _new(next(ids), wanted.external_key or next(keys), wanted)
    prepared = [tags.prepared(next(ids), after.id, tag) for tag in wanted.new_tags]
    return Draft(before, after._replace(tags=[*after.tags, *(one.row for one in prepared)]), prepared)


def _new(asset_id: int, external_key: str, wanted: Wanted) -> AssetRow:
    row = AssetRow(asset_id, external_key, "", None, True, "{}", 0, None, 0, 0, deleted_at=None)
    return row._replace(**wanted.changes)


def is_still_true(organization_id: int, drafts: Sequence[Draft]) -> bool:
    """Whether keys and tags are still free, and the assets as they were. Within the transaction that writes."""
    new_keys = [draft.after.external_key for draft in drafts if draft.before is None]
    if execute(_TAKEN_KEYS, (orjson.dumps(new_keys).decode(), organization_id)).fetchone():
        return False
    new_tags = [(tag.row.tag_type, tag.row.value) for draft in drafts for tag in draft.new_tags]
    if execute(_TAKEN_TAGS, (orjson.dumps(new_tags).decode(), organization_id)).fetchone():
        return False
    expected = {before.id: (before.updated_at, list(before.tags)) for before, _, _ in drafts if before}
    found = execute(_FOUND, (orjson.dumps(list(expected)).decode(),))
    return {row[0]: (row[1], tags.from_json(row[2])) for row in found} == expected


_TAKEN_KEYS = """
SELECT 1 FROM json_each(?) wanted CROSS JOIN asset a
ON a.organization_id = ? AND a.external_key = wanted.value AND a.deleted_at IS NULL LIMIT 1
"""
_TAKEN_TAGS = """
SELECT 1 FROM json_each(?) wanted CROSS JOIN tag t
ON t.organization_id = ? AND t.tag_type = wanted.value ->> 0 AND t.value = wanted.value ->> 1 AND t.deleted_at IS NULL
LIMIT 1
"""
_FOUND = f"""
SELECT a.id, a.updated_at, {tags.tags_as_json("asset", "a.id")} FROM json_each(?) wanted
CROSS JOIN asset a ON a.id = wanted.value
WHERE a.deleted_at IS NULL AND NOT EXISTS (SELECT 1 FROM mirror WHERE record_id = a.id)
"""


def write(act: Act, drafts: Sequence[Draft]) -> None:
    """A few statements, each for all assets."""
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
    search.remember_all("asset", act.organization_id, ((draft.after, draft.after.tags) for draft in dated))
    act.note_all(line for draft in dated for line in _told(draft))


def _dated(draft: Draft, now: int) -> Draft:
    if draft.before is None:
        return draft._replace(after=draft.after._replace(valid_from=now, created_at=now, updated_at=now))
    if draft.is_changed:
        return draft._replace(after=draft.after._replace(updated_at=next_update(draft.before.updated_at)))
    return draft


def _told(draft: Draft) -> Iterator[Entry]:
    """What the audit keeps, as if each asset had been entered by itself."""
    before, after, new_tags = draft
    if before is None:
        told = [tagging.told(tag) for tag in after.tags]
        yield Entry("asset.created", subject_of(after), given({**facts_of(after), "tags": told}))
        return
    if draft.is_changed:
        yield Entry("asset.changed", subject_of(after), changed(facts_of(before), facts_of(after)))
    for tag in new_tags:
        yield Entry("tag.attached", subject_of(after), {"tag": tagging.told(tag.row)})
