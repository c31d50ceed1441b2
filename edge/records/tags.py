"""Tags of assets and locations, and the keys by which reads match them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from edge.database.connection import execute, execute_many
from edge.database.ids import new_ids
from edge.errors import Conflict, Invalid, NotFound
from edge.records import gs1
from edge.texts import N_, fill
from edge.validation import json_text, values

Owner = Literal["asset", "location"]

_UUID = r"([0-9a-f]{8}[-_]?(?:[0-9a-f]{4}[-_]?){3}[0-9a-f]{12})"
_BEACON = re.compile(rf"(?:ibeacon:)?{_UUID}[-:_/., ]([0-9]{{1,5}})[-:_/., ]([0-9]{{1,5}})", re.ASCII | re.I)
_EDDYSTONE = re.compile(r"(?:eddy:)?([0-9a-f]{20})[-:_/., ]([0-9a-f]{12})", re.ASCII | re.I)
_SYMBOLOGY = re.compile(r"^\][A-Za-z][0-9A-Za-z]")
_BLE_SEPARATORS = str.maketrans("", "", ":- _/.")
_HEX = re.compile(r"[0-9A-F]+")
_GTIN, _GTIN_LENGTH = re.compile(r"[0-9]{8}|[0-9]{12,14}"), 14  # GTIN-8, UPC-A, EAN-13 and GTIN-14 of one product


class NewTag(NamedTuple):
    tag_type: str
    value: str


class TagRow(NamedTuple):
    id: int
    tag_type: str
    value: str


class PreparedTag(NamedTuple):
    """A tag with all values of its future row."""

    row: TagRow
    owner_id: int
    match_key: str
    gs1_key: str | None


def match_key(tag_type: str, value: str) -> str:
    """Return the normalized value for reads without an exact match (interface: Tracking). "" never matches.

    The scan page has the same rule in `web/static/handhelds/matching.js`, tested with the same vectors.
    """
    value = values.trimmed(value)
    if tag_type == "ble":
        return _match_ble(value)
    if tag_type == "rfid":
        return _match_rfid(value)
    code = _SYMBOLOGY.sub("", value)
    return code.zfill(_GTIN_LENGTH) if _GTIN.fullmatch(code) and _is_checked(code) else code


def _is_checked(digits: str) -> bool:
    """Return True if the last digit is the check digit of GS1."""
    return sum(int(digit) * (3 if at % 2 else 1) for at, digit in enumerate(reversed(digits))) % 10 == 0


def _match_ble(value: str) -> str:
    """Normalize a BLE value. iBeacon triples keep their colons: 10:257 and 102:57 are different beacons."""
    beacon = _BEACON.fullmatch(value)
    if beacon:
        return f"{beacon[1].replace('-', '').replace('_', '').lower()}:{int(beacon[2])}:{int(beacon[3])}"
    if frame := _EDDYSTONE.fullmatch(value):
        return f"{frame[1]}{frame[2]}".upper()
    return values.trimmed(value.upper().translate(_BLE_SEPARATORS))


def _match_rfid(value: str) -> str:
    bare = value.upper().replace(" ", "").replace("-", "").removeprefix("0X")
    return bare.lstrip("0") if _HEX.fullmatch(bare) else value.upper()


def prepare_all(organization_id: int, owner: Owner, owner_id: int, tags: Sequence[NewTag]) -> list[PreparedTag]:
    """Prepare tags of a live owner in the caller's transaction. Ids ascend, so lists keep the order of `tags`.

    Raises Conflict if a live record has one of the tags or the owner would have too many.
    """
    if not tags:
        return []
    _check_number(owner, owner_id, tags)
    seen: set[NewTag] = set()
    for tag in tags:
        if tag in seen or is_taken(organization_id, tag):
            raise Conflict(fill(N_("tag %(tag)s already exists"), tag=f"{tag.tag_type}:{tag.value}"))
        seen.add(tag)
    return [prepare(tag_id, owner_id, tag) for tag_id, tag in zip(sorted(new_ids(len(tags))), tags, strict=True)]


def _check_number(owner: Owner, owner_id: int, new: Sequence[NewTag]) -> None:
    number, size = execute(
        f"SELECT count(*), ifnull(sum(length(CAST(value AS BLOB))), 0) FROM tag INDEXED BY tag_{owner} "
        f"WHERE {owner}_id = ? AND deleted_at IS NULL",
        (owner_id,),
    ).fetchone()
    try:
        values.number_of_tags("tags", number + len(new), size + sum(len(tag.value.encode()) for tag in new))
    except Invalid as error:
        raise Conflict(fill(N_("%(problem)s; detach some first"), problem=error.fields[0].message)) from error


def prepare(tag_id: int, owner_id: int, tag: NewTag) -> PreparedTag:
    """Compute the match key and GS1 identity of a new tag."""
    return PreparedTag(TagRow(tag_id, *tag), owner_id, match_key(tag.tag_type, tag.value), gs1.identity(tag.value))


def add_prepared(organization_id: int, owner: Owner, new: Sequence[PreparedTag], created_at: int) -> None:
    """Insert prepared tags in the caller's transaction. The caller has checked that owners are live and tags free."""
    execute_many(
        f"INSERT INTO tag (id, organization_id, {owner}_id, tag_type, value, match_key, gs1_key, created_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (tag.row.id, organization_id, tag.owner_id, *tag.row[1:], tag.match_key, tag.gs1_key, created_at)
            for tag in new
        ),
    )


def remove(owner: Owner, owner_id: int, tag_id: int, deleted_at: int) -> NewTag:
    """Soft-delete a tag in the caller's transaction. Raises NotFound if the owner does not have it."""
    removed = execute(
        f"UPDATE tag SET deleted_at = ? WHERE id = ? AND {owner}_id = ? AND deleted_at IS NULL "
        "RETURNING tag_type, value",
        (deleted_at, tag_id, owner_id),
    ).fetchone()
    if removed is None:
        raise NotFound("tag not found")
    return NewTag(*removed)


def remove_all(owner: Owner, owner_id: int, deleted_at: int) -> None:
    """Soft-delete all tags of an owner that is deleted (interface: States)."""
    execute(
        f"UPDATE tag SET deleted_at = ? WHERE {owner}_id = ? AND deleted_at IS NULL",
        (deleted_at, owner_id),
    )


def tags_as_json(owner: Owner, owner_id: str) -> str:
    """Return an SQL expression for the live tags of an owner as a JSON array, ordered by id.

    `owner_id` is the SQL expression of the owner's id. Each tag is an array with the fields of TagRow.
    """
    return (
        f"(SELECT json_group_array(json_array(id, tag_type, value)) FROM tag INDEXED BY tag_{owner} "
        f"WHERE {owner}_id = {owner_id} AND deleted_at IS NULL)"
    )


from_json: Callable[[str], list[TagRow]] = json_text.decoder(list[TagRow])  # of the array of `tags_as_json`


def is_taken(organization_id: int, tag: NewTag) -> bool:
    """True if a live record of the organization has exactly this tag."""
    sql = "SELECT 1 FROM tag WHERE organization_id = ? AND tag_type = ? AND value = ? AND deleted_at IS NULL"
    return execute(sql, (organization_id, *tag)).fetchone() is not None
