"""Lookup of assets and locations by scanned or typed codes: keys, tags and label links."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from edge.database.connection import execute
from edge.records import gs1
from edge.records.tags import match_key
from edge.validation.values import TAG_TYPES, trimmed


class RecordRef(NamedTuple):
    """An asset or location. `kind` is "asset" or "location"."""

    kind: str
    id: int
    external_key: str
    name: str


def by_key(kind: str, organization_id: int, external_key: str) -> RecordRef | None:
    """Return the live asset or location with exactly this key, or None."""
    return _one(kind, organization_id, "external_key = ?", external_key)


def asset_by_key(organization_id: int, external_key: str) -> RecordRef | None:
    """Return the live asset with exactly this key, or None."""
    return by_key("asset", organization_id, external_key)


def asset_by_id(organization_id: int, asset_id: int) -> RecordRef | None:
    """Return a live asset, or None."""
    return _one("asset", organization_id, "id = ?", asset_id)


def location_by_key(organization_id: int, external_key: str) -> RecordRef | None:
    """Return the live location with exactly this key, or None."""
    return by_key("location", organization_id, external_key)


def by_code(organization_id: int, code: str) -> RecordRef | None:
    """Return the record of a scanned code, or None if it is unknown or ambiguous.

    The code is tried as a label link, a tag, an exact key, and a key in another case, in this order.
    """
    code = trimmed(code)
    kind, key = label_key(code)
    if kind:
        return by_key(kind, organization_id, key) or _by_key_in_any_case((kind,), organization_id, key)
    return (
        _by_tag(organization_id, code)
        or asset_by_key(organization_id, code)
        or location_by_key(organization_id, code)
        or _by_key_in_any_case(("asset", "location"), organization_id, code)
    )


def label_key(code: str) -> tuple[str, str]:
    """Return ("asset", key) or ("location", key) for a label link with any host, else two empty strings."""
    if "/a/" not in code.lower() and "/l/" not in code.lower():
        return "", ""
    try:
        url = urlsplit(code)
    except ValueError:
        return "", ""
    if not code.isprintable() or url.scheme not in ("http", "https"):
        return "", ""
    _, _, letter_and_key = url.path.partition("/")
    letter, _, key = letter_and_key.partition("/")
    kind = {"a": "asset", "l": "location"}.get(letter.lower(), "")
    return (kind, unquote(key)) if kind and key and "/" not in key else ("", "")


def retired_asset(organization_id: int, code: str) -> RecordRef | None:
    """Return the most recently retired asset with this key or tag. Use only for codes without a live match."""
    code = trimmed(code)
    kind, key = label_key(code)
    if kind == "location":
        return None
    keys = [] if kind else [[tag_type, match_key(tag_type, code)] for tag_type in TAG_TYPES]
    values = {"organization_id": organization_id, "key": key or code, "tags": json.dumps(keys)}
    row = execute(_RETIRED, values).fetchone()
    return RecordRef("asset", *row) if row else None


_RETIRED = """
SELECT id, external_key, name FROM (
    SELECT * FROM asset WHERE organization_id = :organization_id AND external_key = :key AND deleted_at IS NOT NULL
    UNION
    SELECT asset.* FROM json_each(:tags) key JOIN tag ON tag.organization_id = :organization_id
        AND tag.tag_type = key.value ->> 0 AND tag.match_key = key.value ->> 1
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


def _by_tag(organization_id: int, code: str) -> RecordRef | None:
    """Try all tag types, because scanners do not report them: exact value, then match key, then GS1 identity."""
    for sql, values in (
        (_EXACT, [(kind, code) for kind in TAG_TYPES]),
        (_MATCHING, [(kind, match_key(kind, code)) for kind in TAG_TYPES]),
        (_BY_GS1, [(gs1.identity(code),)]),
    ):
        owners = {row for value in values if value[-1] for row in execute(sql, (organization_id, *value))}
        if len(owners) == 1:
            asset_id, location_id = owners.pop()
            kind = "asset" if asset_id else "location"
            return _one(kind, organization_id, "id = ?", asset_id or location_id)
        if owners:
            return None
    return None


def _by_key_in_any_case(kinds: Sequence[str], organization_id: int, external_key: str) -> RecordRef | None:
    """Return the record with this key in any case, or None if several match."""
    matches = [
        ref for kind in kinds for ref in _some(kind, organization_id, "external_key = ? COLLATE NOCASE", external_key)
    ]
    return matches[0] if len(matches) == 1 else None


def _one(kind: str, organization_id: int, condition: str, value: str | int) -> RecordRef | None:
    return next(iter(_some(kind, organization_id, condition, value)), None)


def _some(kind: str, organization_id: int, condition: str, value: str | int) -> list[RecordRef]:
    """Return the live records that meet a condition, which is a constant, at most two."""
    live = f"FROM {kind} WHERE organization_id = ? AND {condition} AND deleted_at IS NULL LIMIT 2"
    rows = execute(f"SELECT id, external_key, name {live}", (organization_id, value))
    return [RecordRef(kind, *row) for row in rows]
