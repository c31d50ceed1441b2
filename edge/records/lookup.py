"""From what is printed on a thing, or typed, to the thing: by key, by tag, by the link of a label."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from edge.database.connection import execute
from edge.records import gs1
from edge.records.tags import match_key
from edge.validation.values import TAG_TYPES


class Found(NamedTuple):
    """`kind` is asset or location."""

    kind: str
    id: int
    external_key: str
    name: str


def asset_by_key(organization_id: int, external_key: str) -> Found | None:
    return _by_key("asset", organization_id, external_key)


def asset_by_id(organization_id: int, asset_id: int) -> Found | None:
    """A live asset."""
    sql = "SELECT id, external_key, name FROM asset WHERE organization_id = ? AND id = ? AND deleted_at IS NULL"
    row = execute(sql, (organization_id, asset_id)).fetchone()
    return Found("asset", *row) if row else None


def location_by_key(organization_id: int, external_key: str) -> Found | None:
    return _by_key("location", organization_id, external_key)


def by_code(organization_id: int, code: str) -> Found | None:
    """What a scanned code means: tried as a label's link, as a tag, as a key, and last as a key in another case.

    None when it means nothing, or when it is ambiguous.
    """
    code = code.strip()
    kind, key = label_key(code)
    if kind:
        return _by_key(kind, organization_id, key) or _by_key_in_any_case((kind,), organization_id, key)
    return (
        _by_tag(organization_id, code)
        or asset_by_key(organization_id, code)
        or location_by_key(organization_id, code)
        or _by_key_in_any_case(("asset", "location"), organization_id, code)
    )


def label_key(code: str) -> tuple[str, str]:
    """("asset", key) or ("location", key) of a label's link, whichever address the box had when it was printed."""
    if "/a/" not in code.lower() and "/l/" not in code.lower():
        return "", ""
    try:
        parts = urlsplit(code)
    except ValueError:  # it looked like a URL and is none
        return "", ""
    if not code.isprintable() or parts.scheme not in ("http", "https"):
        return "", ""
    _, _, letter_and_key = parts.path.partition("/")
    letter, _, key = letter_and_key.partition("/")
    kind = {"a": "asset", "l": "location"}.get(letter.lower(), "")
    return (kind, unquote(key)) if kind and key and "/" not in key else ("", "")


def retired_asset(organization_id: int, code: str) -> Found | None:
    """The asset retired last that had this code as its key or as a tag. Only for a code that means nothing now."""
    code = code.strip()
    kind, key = label_key(code)
    if kind == "location":
        return None
    keys = [] if kind else [[tag_type, match_key(tag_type, code)] for tag_type in TAG_TYPES]
    asked = {"organization_id": organization_id, "key": key or code, "tags": json.dumps(keys)}
    row = execute(_RETIRED, asked).fetchone()
    return Found("asset", *row) if row else None


_RETIRED = """
SELECT id, external_key, name FROM (
    SELECT * FROM asset WHERE organization_id = :organization_id AND external_key = :key AND deleted_at IS NOT NULL
    UNION
    SELECT asset.* FROM json_each(:tags) given JOIN tag ON tag.organization_id = :organization_id
        AND tag.tag_type = given.value ->> 0 AND tag.match_key = given.value ->> 1
        AND tag.deleted_at IS NOT NULL AND tag.asset_id IS NOT NULL
    JOIN asset ON asset.id = tag.asset_id AND asset.deleted_at = tag.deleted_at
) ORDER BY deleted_at DESC LIMIT 1
"""

_BY_TAG = """
SELECT tag.asset_id, tag.location_id FROM tag
WHERE tag.organization_id = ? AND tag.tag_type = ? AND tag.{column} = ? AND tag.deleted_at IS NULL LIMIT 2
"""
_BY_GS1 = (
    "SELECT asset_id, location_id FROM tag "
    "WHERE organization_id = ? AND gs1_key = ? AND gs1_key IS NOT NULL AND deleted_at IS NULL"
)
_EXACT, _MATCHING = _BY_TAG.format(column="value"), _BY_TAG.format(column="match_key")


def _by_tag(organization_id: int, code: str) -> Found | None:
    """A scanner does not say what it read, so every type is tried: exactly first, then by match key, then by GS1."""
    for sql, values in (
        (_EXACT, [(kind, code) for kind in TAG_TYPES]),
        (_MATCHING, [(kind, match_key(kind, code)) for kind in TAG_TYPES]),
        (_BY_GS1, [(gs1.identity(code),)]),
    ):
        found = {row for value in values if value[-1] for row in execute(sql, (organization_id, *value))}
        if len(found) == 1:
            asset_id, location_id = found.pop()
            return _by_id("asset", asset_id) if asset_id else _by_id("location", location_id)
        if found:
            return None
    return None


def _by_key(kind: str, organization_id: int, external_key: str) -> Found | None:
    sql = (
        f"SELECT id, external_key, name FROM {kind} "
        "WHERE organization_id = ? AND external_key = ? AND deleted_at IS NULL"
    )
    row = execute(sql, (organization_id, external_key)).fetchone()
    return Found(kind, *row) if row else None


def _by_key_in_any_case(kinds: Sequence[str], organization_id: int, external_key: str) -> Found | None:
    """Keys are case-sensitive, but people and scanners do not always keep the case. None if several match."""
    found: list[Found] = []
    for kind in kinds:
        sql = (
            f"SELECT id, external_key, name FROM {kind} "
            "WHERE organization_id = ? AND external_key = ? COLLATE NOCASE AND deleted_at IS NULL LIMIT 2"
        )
        found += [Found(kind, *row) for row in execute(sql, (organization_id, external_key))]
    return found[0] if len(found) == 1 else None


def _by_id(kind: str, record_id: int) -> Found | None:
    sql = f"SELECT id, external_key, name FROM {kind} WHERE id = ? AND deleted_at IS NULL"
    row = execute(sql, (record_id,)).fetchone()
    return Found(kind, *row) if row else None
