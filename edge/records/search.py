"""Case-insensitive substring search, the `q` of lists (interface: Lists).

Texts are case-folded when they are written. A trigram index answers queries with few matches. Queries that are shorter
than a trigram or have many matches scan the folded texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from edge.database.connection import column, execute, execute_many
from edge.database.search_text import folded_text
from edge.records.tags import TagRow
from edge.validation import json_text
from edge.validation.values import MAX_DESCRIPTION, MAX_NAME

Kind = Literal["asset", "location"]

FEW = 2000  # at most this many matches are looked up by id
_INDEXED_LENGTH = 3
_PHRASE_LENGTH = 24  # characters sent to the index; longer phrases are slower and hardly more selective
_OF_KIND = "s.organization_id = :organization_id AND s.kind = :kind"
IN_TEXT = f"{_OF_KIND} AND instr(s.text, :needle)"
IN_TEXT_OR_DESCRIPTION = f"{_OF_KIND} AND (instr(s.text, :needle) OR instr(s.description, :needle))"
_MAX_FOLDED = 3  # characters that case folding can make of one


class Match(NamedTuple):
    """A search result: `ids` as a JSON array or, if there are too many, a `condition` on `searchable` as `s`."""

    kind: Kind
    ids: str | None
    condition: str
    values: dict[str, Any]


_INDEX = (
    "INSERT INTO searchable (id, organization_id, kind, is_active, valid_from, valid_to, deleted_at, text, "
    "description) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
    "organization_id = excluded.organization_id, is_active = excluded.is_active, "
    "valid_from = excluded.valid_from, valid_to = excluded.valid_to, "
    "deleted_at = excluded.deleted_at, text = excluded.text, description = excluded.description"
)


def index_stored(kind: Kind, ids: Iterable[int]) -> None:
    """Update the search index for stored records and their live tags. Call in the transaction of the change."""
    rows = execute(
        "SELECT id, organization_id, is_active, valid_from, valid_to, deleted_at, name, external_key, description, "
        f"(SELECT json_group_array(value) FROM tag WHERE {kind}_id = r.id AND tag.deleted_at IS NULL) "
        f"FROM {kind} r WHERE id IN (SELECT value FROM json_each(?))",
        (json_text.text(list(ids)),),
    )
    execute_many(
        _INDEX,
        [
            (record_id, owner, kind, *shown, folded_text(name, key, json.loads(tags)), (description or "").casefold())
            for record_id, owner, *shown, name, key, description, tags in rows
        ],
    )


def index_records(kind: Kind, organization_id: int, records: Iterable[tuple[Any, Sequence[TagRow]]]) -> None:
    """Update the search index for many rows with their tags."""
    execute_many(
        _INDEX,
        (
            (
                *(row.id, organization_id, kind, row.is_active, row.valid_from, row.valid_to, row.deleted_at),
                folded_text(row.name, row.external_key, [tag.value for tag in tags]),
                (row.description or "").casefold(),
            )
            for row, tags in records
        ),
    )


def match(kind: Kind, organization_id: int, q: str, *, has_descriptions: bool = True) -> Match:
    """Return the records of an organization with `q` in name, key, live tags or, if `has_descriptions`, description."""
    needle = q.casefold()
    longest_text = MAX_DESCRIPTION if has_descriptions else MAX_NAME  # keys and tags are no longer than names
    if len(needle) > _MAX_FOLDED * longest_text:
        return Match(kind, "[]", "", {})
    condition = IN_TEXT_OR_DESCRIPTION if has_descriptions else IN_TEXT
    values = {"organization_id": organization_id, "kind": kind, "needle": needle}
    ids = _few_ids(condition, values, needle, has_descriptions=has_descriptions)
    return Match(kind, None if ids is None else json_text.text(ids), condition, values)


def _phrase(needle: str) -> str:
    """Return the start of the needle, up to the first repeated trigram. Repeated trigrams make the index very slow."""
    seen: set[str] = set()
    for start in range(min(len(needle), _PHRASE_LENGTH) - _INDEXED_LENGTH + 1):
        trigram = needle[start : start + _INDEXED_LENGTH]
        if trigram in seen:
            return needle[: start + _INDEXED_LENGTH - 1]
        seen.add(trigram)
    return needle[:_PHRASE_LENGTH]


def _few_ids(condition: str, values: dict[str, Any], needle: str, *, has_descriptions: bool) -> list[int] | None:
    """Return the ids of the matches, or None if there are more than `FEW`."""
    source, parameters = "searchable s", dict(values)
    if len(needle) >= _INDEXED_LENGTH:
        phrase = '"' + _phrase(needle).replace('"', '""') + '"'
        parameters["phrase"] = phrase if has_descriptions else f"text : {phrase}"
        matches = f"(SELECT rowid FROM trigram WHERE trigram MATCH :phrase LIMIT {FEW + 1}) matches"
        if execute(f"SELECT count(*) FROM {matches}", parameters).fetchone()[0] > FEW:
            return None
        source = f"{matches} CROSS JOIN searchable s ON s.id = matches.rowid"
    sql = f"SELECT s.id FROM {source} WHERE {condition} LIMIT {FEW + 1}"
    ids = column(sql, parameters)
    return ids if len(ids) <= FEW else None
