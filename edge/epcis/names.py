"""Names of assets, locations and doors in EPCIS events, and back.

GS1 identities become canonical Digital Links or EPC URIs. Other records have the address of their page on this box.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar
from urllib.parse import quote, unquote

from edge.database.connection import column, execute
from edge.records import gs1

GS1_RESOLVER = "https://id.gs1.org"
_GLN = re.compile(r"\(414\)([0-9]{13})(?:\(254\)(.{1,20}))?|https?://.+?/414/([0-9]{13})(?:/254/([^/?#]{1,60}))?/?")
_IS_ITEM = "gs1_key NOT LIKE '(414)%'"
_MAY_BE_GLN = "(value LIKE '(414)%' OR value LIKE '%/414/%')"
T = TypeVar("T")
_SAFE = "';="  # may stay as they are in Digital Links


def digital_link(identity: str) -> str:
    """Return the canonical Digital Link of an identity such as `(01)09521141123454(21)6789`."""
    key, _, rest = identity.removeprefix("(").partition(")")
    value, _, serial = rest.partition("(21)") if key == "01" else (rest, "", "")
    link = f"{GS1_RESOLVER}/{key}/{quote(value, safe=_SAFE)}"
    return f"{link}/21/{quote(serial, safe=_SAFE)}" if serial else link


class Names:
    """Names for one answer. `base` is the address of this box; `as_urn` prefers EPC URIs to Digital Links."""

    def __init__(self, organization_id: int, base: str, *, as_urn: bool = False) -> None:
        self.base = base.rstrip("/")
        self.as_urn = as_urn
        self._organization_id = organization_id
        self._assets: dict[int, str] = {}
        self._places: dict[int, str] = {}
        self._urns: dict[str, str] = {}

    def load(self, assets: Iterable[int], locations: Iterable[int]) -> None:
        """Read the tags of records. A retired asset keeps the identity of its former tags."""
        of_assets = _named("asset", _IS_ITEM, self._organization_id, assets, lambda identity, value: (identity, value))
        for record_id, (identity, value) in of_assets.items():
            link = self._assets[record_id] = digital_link(identity)
            if self.as_urn and (urn := _urn(value)):
                self._urns[link] = urn
        glns = _named("location", _MAY_BE_GLN, self._organization_id, locations, lambda _, value: _gln(value))
        self._places.update(glns)

    def asset(self, asset_id: int) -> str:
        return self._assets.get(asset_id) or f"{self.base}/assets/{asset_id}"

    def location(self, location_id: int) -> str:
        return self._places.get(location_id) or f"{self.base}/locations/{location_id}"

    def door(self, door_id: int) -> str:
        return f"{self.base}/doors/{door_id}"

    def shown(self, name: str) -> str:
        """Return the name in the form that the client prefers."""
        return self._urns.get(name, name)

    def assets_named(self, names: Collection[str]) -> set[int]:
        """Return the assets with these names, in any GS1 form."""
        identities = {identity for name in names if (identity := gs1.identity(name))}
        sql = (
            "SELECT asset_id FROM tag WHERE organization_id = ? AND gs1_key IN (SELECT value FROM json_each(?)) "
            "AND asset_id IS NOT NULL"
        )
        return self._ids(sql, identities) | self._numbered("assets", names)

    def locations_named(self, names: Collection[str]) -> set[int]:
        glns = {_gln(name) for name in names} - {None}
        numbered = self._numbered("locations", names)
        if not glns:
            return numbered
        rows = execute(  # the index of locations, since most tags are of assets
            "SELECT location_id, value FROM tag INDEXED BY tag_location WHERE organization_id = ? "
            f"AND location_id IS NOT NULL AND {_MAY_BE_GLN}",
            (self._organization_id,),
        )
        return numbered | {location_id for location_id, value in rows if _gln(value) in glns}

    def locations_within(self, ids: Collection[int]) -> set[int]:
        """Return these locations with all below them, retired ones included."""
        return self._ids(
            "WITH RECURSIVE below (id) AS (SELECT id FROM location WHERE organization_id = ?1 "
            "AND id IN (SELECT value FROM json_each(?2)) UNION SELECT l.id FROM location l "
            "JOIN below ON l.parent_id = below.id WHERE l.organization_id = ?1) SELECT id FROM below",
            ids,
        )

    def doors_within(self, locations: Collection[int]) -> set[int]:
        """Return the doors of these locations."""
        sql = "SELECT id FROM door WHERE organization_id = ? AND location_id IN (SELECT value FROM json_each(?))"
        return self._ids(sql, locations)

    def doors_named(self, names: Collection[str]) -> set[int]:
        return self._numbered("doors", names)

    def _ids(self, sql: str, chosen: Collection[int] | Collection[str]) -> set[int]:
        return set(column(sql, (self._organization_id, json.dumps(list(chosen)))))

    def _numbered(self, folder: str, names: Collection[str]) -> set[int]:
        start = f"{self.base}/{folder}/"
        numbers = {name.removeprefix(start) for name in names if name.startswith(start)}
        return {int(number) for number in numbers if re.fullmatch(r"[0-9]{1,18}", number)}


def _gln(value: str) -> str | None:
    match = _GLN.fullmatch(value.strip())
    if match is None:
        return None
    plain, plain_extension, linked, linked_extension = match.groups()
    extension = plain_extension or (unquote(linked_extension) if linked_extension else None)
    link = f"{GS1_RESOLVER}/414/{plain or linked}"
    return f"{link}/254/{quote(extension, safe=_SAFE)}" if extension else link


def _urn(value: str) -> str | None:
    """Return the EPC URI of a tag, if its value has the length of the company prefix."""
    from edge.records import gs1_epcs  # loads a library

    return gs1_epcs.pure_identity(value)


def _named(
    kind: str, condition: str, organization_id: int, ids: Iterable[int], name_of: Callable[[str, str], T | None]
) -> dict[int, T]:
    """Return the names of records by their tags: GS1 identity and value. There can be a million, also former ones.

    The live tag with the lowest id counts first.
    """
    rows = execute(
        f"SELECT {kind}_id, gs1_key, value, deleted_at IS NOT NULL, id FROM tag "
        f"WHERE {kind}_id IN (SELECT value FROM json_each(?)) AND +organization_id = ? AND {condition}",
        (json.dumps(sorted(set(ids))), organization_id),
    )
    named: dict[int, tuple[tuple[bool, int], T]] = {}
    for record_id, identity, value, *order in rows:
        is_first = record_id not in named or tuple(order) < named[record_id][0]
        if is_first and (name := name_of(identity, value)):
            named[record_id] = (bool(order[0]), order[1]), name
    return {record_id: name for record_id, (_, name) in named.items()}
