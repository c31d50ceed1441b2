"""Unknown tags: tags that were read but belong to no asset. They stay until they are attached or dismissed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from edge.database.bounds import DEFAULT, hard_limit
from edge.database.connection import execute, execute_many, scalar
from edge.readers import dismissals
from edge.validation import json_text


class Sighting(NamedTuple):
    organization_id: int
    tag_type: str
    match_key: str
    reader_id: int
    value: str
    reason: str
    seen_at: int
    location_id: int | None


class UnknownTag(NamedTuple):
    """Unknown tag, merged over spellings and readers. `value`, `reason` and location: of the last sighting."""

    tag_type: str
    value: str
    match_key: str
    reason: str
    readers: str  # names, separated by commas
    is_scanned: bool  # with a handheld
    location_name: str | None
    first_seen_at: int
    last_seen_at: int
    sightings: int


def record(sightings: Sequence[Sighting], most: int = DEFAULT.unknown_tags) -> list[Sighting]:
    """Store sightings, with at most `most` tags for each reader. Returns those that did not fit.

    Permanently dismissed tags are skipped.
    """
    by_reader: dict[tuple[int, int], list[Sighting]] = {}
    dismissed = dismissals.dismissed_tags(
        {(sighting.organization_id, sighting.tag_type, sighting.match_key) for sighting in sightings}
    )
    for sighting in sightings:
        if (sighting.organization_id, sighting.tag_type, sighting.match_key) in dismissed:
            continue
        by_reader.setdefault((sighting.organization_id, sighting.reader_id), []).append(sighting)
    others: list[Sighting] = []
    for reader, own in by_reader.items():
        kept = _with_room(*reader, {(sighting.tag_type, sighting.match_key) for sighting in own}, hard_limit(most))
        others += [sighting for sighting in own if (sighting.tag_type, sighting.match_key) not in kept]
        _write([sighting for sighting in own if (sighting.tag_type, sighting.match_key) in kept])
    return others


def _with_room(organization_id: int, reader_id: int, tags: set[tuple[str, str]], most: int) -> set[tuple[str, str]]:
    """Return the tags already stored, and as many others as fit in the limit."""
    known = set(execute(_KNOWN, (json_text.text(list(tags)), organization_id, reader_id)))
    if known == tags:
        return known
    number = execute(
        "SELECT count(*) FROM unknown_tag WHERE organization_id = ? AND reader_id = ?", (organization_id, reader_id)
    ).fetchone()[0]
    return known | set(sorted(tags - known)[: max(0, most - number)])


_KNOWN = """
SELECT u.tag_type, u.match_key FROM json_each(?) new CROSS JOIN unknown_tag u
ON u.organization_id = ? AND u.tag_type = new.value ->> 0 AND u.match_key = new.value ->> 1 AND u.reader_id = ?
"""


def _write(sightings: Sequence[Sighting]) -> None:
    execute_many(
        "INSERT INTO unknown_tag (organization_id, tag_type, match_key, reader_id, value, reason, first_seen_at, "
        "last_seen_at, sightings, location_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 1, ?8) ON CONFLICT DO UPDATE "
        "SET last_seen_at = max(last_seen_at, excluded.last_seen_at), sightings = sightings + 1, "
        "reason = excluded.reason, location_id = excluded.location_id",
        sightings,
    )


# The location of a tag that a person had would say where the person is.
_IS_SHOWN = """(NOT hides_people() OR NOT EXISTS (
    SELECT 1 FROM tag INDEXED BY tag_retired JOIN tracked_person USING (asset_id)
    WHERE tag.organization_id = u.organization_id AND tag.tag_type = u.tag_type AND tag.match_key = u.match_key
        AND tag.deleted_at IS NOT NULL
))"""
# With max(), SQLite takes the other columns from the row with the maximum.
_UNKNOWN = f"""
SELECT u.tag_type, u.value, u.match_key, u.reason, ifnull(group_concat(r.name, ', '), ''), min(u.reader_id) = 0, l.name,
       min(u.first_seen_at), max(u.last_seen_at) AS seen, sum(u.sightings)
FROM unknown_tag u
LEFT JOIN reader r ON r.id = u.reader_id AND r.organization_id = u.organization_id
LEFT JOIN location l ON l.id = u.location_id
WHERE u.organization_id = :organization_id AND (:reader_id IS NULL OR u.reader_id = :reader_id) AND {_IS_SHOWN}
GROUP BY u.tag_type, u.match_key ORDER BY seen DESC, u.tag_type, u.match_key LIMIT :limit OFFSET :offset
"""


def list_tags(organization_id: int, reader_id: int | None = None, limit: int = 50, offset: int = 0) -> list[UnknownTag]:
    """Return unknown tags, last seen first. `reader_id`: None for all readers, 0 for handhelds."""
    values = {"organization_id": organization_id, "reader_id": reader_id, "limit": limit, "offset": offset}
    return [UnknownTag(*row) for row in execute(_UNKNOWN, values)]


def count_tags(organization_id: int, reader_id: int | None = None) -> int:
    """Return the number of different unknown tags of all readers or of one."""
    return scalar(
        "SELECT count(*) FROM (SELECT DISTINCT tag_type, match_key FROM unknown_tag u "
        f"WHERE organization_id = ?1 AND (?2 IS NULL OR reader_id = ?2) AND {_IS_SHOWN})",
        (organization_id, reader_id),
    )


def forget(organization_id: int, keys: Iterable[tuple[str, str]]) -> None:
    """Delete attached tags and their dismissals, in the caller's transaction. `keys`: (type, match key)."""
    keys = list(keys)
    dismissals.forget_tags(organization_id, keys)
    drop(organization_id, keys)


def drop(organization_id: int, keys: Iterable[tuple[str, str]]) -> None:
    """Delete unknown tags, in the caller's transaction. `keys`: (type, match key)."""
    execute(
        "DELETE FROM unknown_tag WHERE organization_id = ? "
        "AND (tag_type, match_key) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))",
        (organization_id, json_text.text(list(keys))),
    )
