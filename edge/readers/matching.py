"""Match tag values of reads to assets (interface: Tracking)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum

from edge.database.connection import execute
from edge.records import gs1
from edge.records.tags import match_key

MAX_REMEMBERED = 50_000


class NoAsset(StrEnum):
    """Reason why a read belongs to no asset."""

    UNMATCHED = "unmatched"
    AMBIGUOUS = "ambiguous"
    LOCATION = "location"  # the tag belongs to a location


class TagMatcher:
    """Cache of matches, including negative ones, until any tag changes. Not thread-safe; use in a transaction."""

    def __init__(self) -> None:
        self._version = -1
        self._known: dict[tuple[int, str, str], int | NoAsset] = {}

    def prepare(self, identities: Iterable[tuple[int, str, str]]) -> None:
        """Load the uncached ones of (organization, type, value) in a few queries."""
        version: int = execute("SELECT tags FROM version").fetchone()[0]
        if version != self._version or len(self._known) > MAX_REMEMBERED:
            self._known.clear()
            self._version = version
        known = self._known
        missing = {identity for identity in identities if identity not in known}
        if missing:
            self._look_up(list(missing))

    def match(self, organization_id: int, tag_type: str, value: str, aliases: tuple[str, ...] = ()) -> int | NoAsset:
        """Return the asset ID, or the reason why there is none. Requires `prepare` for all values of the read."""
        answer = self._known[organization_id, tag_type, value]
        for alias in aliases:
            if not isinstance(answer, NoAsset):
                break
            other = self._known[organization_id, tag_type, alias]
            answer = other if answer is NoAsset.UNMATCHED else answer
        return answer

    def _look_up(self, identities: list[tuple[int, str, str]]) -> None:
        tags = [(*identity, match_key(*identity[1:])) for identity in identities]
        exact = {
            (organization_id, tag_type, value): asset_id or NoAsset.LOCATION
            for organization_id, tag_type, value, asset_id in execute(_EXACT, (json.dumps(tags),))
        }
        by_key: dict[tuple[int, str, str], list[int | None]] = {}
        for organization_id, tag_type, key, asset_id in execute(_BY_KEY, (json.dumps(tags),)):
            by_key.setdefault((organization_id, tag_type, key), []).append(asset_id)
        for organization_id, tag_type, value, key in tags:
            identity = (organization_id, tag_type, value)
            candidates = by_key.get((organization_id, tag_type, key), []) if key else []
            self._known[identity] = exact.get(identity) or _only(candidates)
        self._look_up_gs1([identity for identity in identities if self._known[identity] is NoAsset.UNMATCHED])

    def _look_up_gs1(self, unmatched: list[tuple[int, str, str]]) -> None:
        """Match by GS1 key, across tag types: a barcode and an EPC can encode the same GS1 identifier."""
        gs1_keys = {identity: gs1.identity(identity[2]) for identity in unmatched}
        pairs = [(identity[0], key) for identity, key in gs1_keys.items() if key]
        if not pairs:
            return
        by_key: dict[tuple[int, str], list[int | None]] = {}
        for organization_id, key, asset_id in execute(_BY_GS1, (json.dumps(pairs),)):
            by_key.setdefault((organization_id, key), []).append(asset_id)
        for identity, key in gs1_keys.items():
            self._known[identity] = _only(by_key.get((identity[0], key or ""), []))


def _only(candidates: list[int | None]) -> int | NoAsset:
    if len(candidates) > 1:
        return NoAsset.AMBIGUOUS
    return (candidates[0] or NoAsset.LOCATION) if candidates else NoAsset.UNMATCHED


_TAGS = """
WITH requested AS (SELECT DISTINCT value ->> 0 AS organization_id, value ->> 1 AS tag_type, value ->> {n} AS {name}
                   FROM json_each(?))
SELECT tag.organization_id, tag.tag_type, tag.{name}, tag.asset_id
FROM requested CROSS JOIN tag USING (organization_id, tag_type, {name}) WHERE tag.deleted_at IS NULL
"""
_BY_GS1 = """
WITH requested AS (SELECT DISTINCT value ->> 0 AS organization_id, value ->> 1 AS gs1_key FROM json_each(?))
SELECT DISTINCT tag.organization_id, tag.gs1_key, tag.asset_id
FROM requested CROSS JOIN tag USING (organization_id, gs1_key) WHERE tag.deleted_at IS NULL AND tag.gs1_key IS NOT NULL
"""
_EXACT = _TAGS.format(n=2, name="value")
_BY_KEY = _TAGS.format(n=3, name="match_key")
