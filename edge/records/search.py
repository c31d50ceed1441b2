"""The `q` of lists: a case-insensitive substring (contract: Lists).

Texts are case-folded when they are written, so that a search compares exactly. A trigram index answers queries that
select few records; a query shorter than a trigram, or one that selects many, is answered by reading the folded texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import orjson

from edge.database.connection import execute, execute_many, writing
from edge.database.search_text import folded_text
from edge.records.tags import TagRow
from edge.validation.values import MAX_DESCRIPTION, MAX_NAME

Kind = Literal["asset", "location"]

FEW = 2000  # records that are looked up one by one
_INDEXED_LENGTH = 3
_PHRASE_LENGTH = 24  # of what the index is asked: a longer phrase is slow, and hardly finds fewer records
_OF_KIND = "s.organization_id = :organization_id AND s.kind = :kind"
IN_TEXT = f"{_OF_KIND} AND instr(s.text, :needle)"
IN_TEXT_OR_DESCRIPTION = f"{_OF_KIND} AND (instr(s.text, :needle) OR instr(s.description, :needle))"
_NOBODY = 0  # no organization has this id
_AT_ONCE = 200  # records, a few hundredths of a second
_FOLDED = 3  # characters that one may become when it is folded


class Match(NamedTuple):
    """How a list is narrowed: to `ids` or, if those are too many, by `condition` on `searchable` as `s`."""

    kind: Kind
    ids: str | None
    condition: str
    values: dict[str, Any]


class Searchable(NamedTuple):
    """What `remember` needs of an asset or a location; the rows of both have these fields as well."""

    id: int
    external_key: str
    name: str
    description: str | None
    is_active: int
    valid_from: int
    valid_to: int | None
    deleted_at: int | None


def remember(kind: Kind, organization_id: int, row: Any, tags: Sequence[TagRow]) -> None:
    """Keep what of an asset's or location's row can be searched; in the transaction that changed it."""
    remember_all(kind, organization_id, [(row, tags)])


def remember_all(kind: Kind, organization_id: int, records: Iterable[tuple[Any, Sequence[TagRow]]]) -> None:
    """As `remember`, for many rows with their tags."""
    execute_many(
        "INSERT INTO searchable (id, organization_id, kind, is_active, valid_from, valid_to, deleted_at, text, "
        "description) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
        "organization_id = excluded.organization_id, is_active = excluded.is_active, "
        "valid_from = excluded.valid_from, valid_to = excluded.valid_to, "
        "deleted_at = excluded.deleted_at, text = excluded.text, description = excluded.description",
        (
            (
                *(row.id, organization_id, kind, row.is_active, row.valid_from, row.valid_to, row.deleted_at),
                folded_text(row.name, row.external_key, [tag.value for tag in tags]),
                (row.description or "").casefold(),
            )
            for row, tags in records
        ),
    )


def index_ahead(kind: Kind, records: Sequence[tuple[Any, Sequence[TagRow]]]) -> None:
    """Texts of records that will be there soon, of nobody until then: the index costs more than all else of a record.

    In many short transactions, so that others can write between them. Whoever does not go on calls `drop_ahead`.
    """
    for first in range(0, len(records), _AT_ONCE):
        with writing():
            remember_all(kind, _NOBODY, records[first : first + _AT_ONCE])


def drop_ahead() -> None:
    """What `index_ahead` left for records that never came, also when the power failed in between."""
    ids = [row[0] for row in execute("SELECT id FROM searchable WHERE organization_id = ?", (_NOBODY,))]
    for first in range(0, len(ids), _AT_ONCE):
        some = [(record_id,) for record_id in ids[first : first + _AT_ONCE]]
        with writing():
            execute_many(
                "INSERT INTO trigram (trigram, rowid, text, description) "
                "SELECT 'delete', id, text, description FROM searchable WHERE id = ?",
                some,
            )
            execute_many("DELETE FROM searchable WHERE id = ?", some)


def match(kind: Kind, organization_id: int, q: str, *, descriptions: bool = True) -> Match:
    """The records of an organization that have `q` in their name, key, live tags, or description if wanted."""
    needle = q.casefold()
    if len(needle) > _FOLDED * (MAX_DESCRIPTION if descriptions else MAX_NAME):  # names, keys and tags are as long
        return Match(kind, "[]", "", {})
    condition = IN_TEXT_OR_DESCRIPTION if descriptions else IN_TEXT
    values = {"organization_id": organization_id, "kind": kind, "needle": needle}
    ids = _few_ids(condition, values, needle, descriptions=descriptions)
    return Match(kind, None if ids is None else orjson.dumps(ids).decode(), condition, values)


def _phrase(needle: str) -> str:
    """What the index is asked: the beginning, up to a trigram that comes again. Repeated ones take it seconds."""
    seen: set[str] = set()
    for start in range(min(len(needle), _PHRASE_LENGTH) - _INDEXED_LENGTH + 1):
        trigram = needle[start : start + _INDEXED_LENGTH]
        if trigram in seen:
            return needle[: start + _INDEXED_LENGTH - 1]
        seen.add(trigram)
    return needle[:_PHRASE_LENGTH]


def _few_ids(condition: str, values: dict[str, Any], needle: str, *, descriptions: bool) -> list[int] | None:
    """None if there are more than `FEW`."""
    source, asked = "searchable s", dict(values)
    if len(needle) >= _INDEXED_LENGTH:
        phrase = '"' + _phrase(needle).replace('"', '""') + '"'
        asked["phrase"] = phrase if descriptions else f"text : {phrase}"
        found = f"(SELECT rowid FROM trigram WHERE trigram MATCH :phrase LIMIT {FEW + 1}) found"
        if execute(f"SELECT count(*) FROM {found}", asked).fetchone()[0] > FEW:
            return None
        source = f"{found} CROSS JOIN searchable s ON s.id = found.rowid"
    sql = f"SELECT s.id FROM {source} WHERE {condition} LIMIT {FEW + 1}"
    ids = [row[0] for row in execute(sql, asked)]
    return ids if len(ids) <= FEW else None
