"""Scans by people: each under the id its device made, recorded exactly once, taken back on demand.

The row in `handheld_scan` is the memory of an id: whatever arrives under it again gets the first answer again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from edge import clock
from edge.errors import Conflict, NotFound
from edge.store import assets, audit, board, lookup, scans, stays, tags, unknown_tags
from edge.store.database import execute, writing
from edge.store.lookup import Found
from edge.store.stays import Quality, Scan
from edge.store.tables import HandheldScan
from edge.store.tags import NewTag

BY_HANDHELD = 0  # reader_id of unknown tags that a person scanned
AGAIN_WITHIN = 12 * clock.HOUR  # a shift: scanned at the same location again within it is news to nobody
MAX_CODE_LENGTH = 255


class Result(StrEnum):
    RECORDED = "recorded"
    AGAIN = "again"  # recorded, and somebody had scanned it at this location in this shift
    UNKNOWN = "unknown"  # parked in the unknown-tag inbox
    LOCATION = "location"  # the label of a location: not a scan of a thing
    UNCLEAR = "unclear"  # not recorded: it follows such a label, and the device must ask where it was made
    REFUSED = "refused"
    UNDONE = "undone"


class Submitted(NamedTuple):
    """A scan as a device kept it; `observed_at` by the device's clock, already corrected."""

    id: str
    code: str
    location_id: int
    observed_at: int


class Sender(NamedTuple):
    """Whose scans these are, and on which shared device."""

    organization_id: int
    person_id: int
    device_id: int | None


class Answer(NamedTuple):
    """What became of a scan. `was` is where the asset was before, None when that was told with an earlier answer."""

    id: str
    result: Result
    reason: str = ""
    found: Found | None = None
    was: board.BoardRow | None = None


def submit(sender: Sender, batch: Sequence[Submitted], received_at: int) -> list[Answer]:
    """Record a batch in its order, in one transaction. A scan that was here before changes nothing."""
    with writing():
        return [_submit_one(sender, scan, received_at) for scan in batch]


def undo(sender: Sender, scan_id: str, gap: int) -> Answer:
    """Take back a scan of one's own: position and history become what they would be without it.

    One that never arrived is barred, so that a late delivery of it records nothing. `gap` as in `scans.record`.
    """
    moment = clock.now()
    with writing():
        row = _stored(scan_id)
        if row is None:
            _keep(sender, Submitted(scan_id, "", 0, moment), Result.UNDONE, moment, undone_at=moment)
            return Answer(scan_id, Result.UNDONE)
        if row.organization_id != sender.organization_id or row.person_id != sender.person_id:
            return Answer(scan_id, Result.REFUSED, "Only your own scans can be undone")
        found = _asset(sender.organization_id, row.asset_id) if row.asset_id else None
        if row.undone_at is None:
            HandheldScan.update(undone_at=moment).where(HandheldScan.id == scan_id).execute()
            if row.asset_id is not None and row.seq is not None and not _shares_its_row(row):
                stays.take_back(row.asset_id, row.observed_at, row.seq, gap)
            if row.outcome == Result.UNKNOWN:
                _unpark(row)
            _note_undo(sender, row)
        return Answer(scan_id, Result.UNDONE, found=found)


def attach(sender: Sender, scan_id: str, asset_id: int) -> Answer:
    """Give the unknown code of a parked scan to an asset, and record the scan as it was made.

    Raises NotFound, Conflict when the code belongs to something else meanwhile.
    """
    with writing():
        row = _stored(scan_id)
        if row is None or row.organization_id != sender.organization_id:
            raise NotFound("no such parked scan")
        owner = lookup.by_code(sender.organization_id, row.code)
        was = None
        if owner is None:
            was = board.whereabouts(sender.organization_id, asset_id)
            tag = NewTag(guess_type(row.code), row.code)
            assets.attach_tag(sender.organization_id, asset_id, tag)
            adopt(sender.organization_id, tag)
            actor = f"person:{sender.person_id}"
            audit.note(sender.organization_id, actor, "tag attached", asset=asset_id, value=row.code)
        elif owner.id != asset_id:
            raise Conflict("this code belongs to something else meanwhile")
        return _first_answer(sender, _stored(scan_id) or row)._replace(was=was)


def adopt(organization_id: int, tag: NewTag) -> None:
    """A tag was attached: it is no longer unknown, and what was parked under it is recorded as it was scanned."""
    with writing():
        for key in {tags.match_key(tag.tag_type, tag.value), tags.match_key("barcode", tag.value)}:
            execute(
                "DELETE FROM unknown_tag WHERE organization_id = ? AND match_key = ? AND tag_type IN (?, 'barcode')",
                (organization_id, key, tag.tag_type),
            )
        for row in _parked(organization_id, tag.value):
            HandheldScan.delete().where(HandheldScan.id == row.id).execute()
            scan = Submitted(row.id, row.code, row.location_id or 0, row.observed_at)
            _submit_one(Sender(organization_id, row.person_id, row.device_id), scan, row.received_at)


def guess_type(code: str) -> str:
    """A scanner does not say what it read. EPCs are long and hexadecimal, MAC addresses have their colons."""
    if re.fullmatch(r"[0-9A-Fa-f]{24,64}", code):
        return "rfid"
    if re.fullmatch(r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}", code):
        return "ble"
    return "barcode"


def _submit_one(sender: Sender, scan: Submitted, received_at: int) -> Answer:
    before = _stored(scan.id)
    if before is not None:
        return _first_answer(sender, before)
    if not 1 <= len(scan.code) <= MAX_CODE_LENGTH:
        return _refuse(sender, scan, received_at, "The code is empty or too long")
    if not _is_live_location(sender.organization_id, scan.location_id):
        return _refuse(sender, scan, received_at, "The location was retired; choose another one")
    found = lookup.by_code(sender.organization_id, scan.code)
    if found is None:
        _park(sender, scan, received_at)
        return Answer(scan.id, Result.UNKNOWN)
    if found.kind == "location":
        _keep(sender, scan, Result.LOCATION, received_at)
        return Answer(scan.id, Result.LOCATION, found=found)
    return _record(sender, scan, found, received_at)


def _record(sender: Sender, scan: Submitted, found: Found, received_at: int) -> Answer:
    was = board.whereabouts(sender.organization_id, found.id)
    result = Result.AGAIN if _was_scanned_here(scan, found.id) else Result.RECORDED
    seq = scans.record_by_person(
        Scan(
            organization_id=sender.organization_id,
            asset_id=found.id,
            location_id=scan.location_id,
            reader_id=None,
            port=None,
            observed_at=scan.observed_at,
            received_at=received_at,
            quality=Quality.HANDHELD,
        )
    )
    _keep(sender, scan, result, received_at, asset_id=found.id, seq=seq)
    return Answer(scan.id, result, found=found, was=was)


def _first_answer(sender: Sender, row: _Stored) -> Answer:
    if row.organization_id != sender.organization_id:
        return Answer(row.id, Result.REFUSED, "This scan belongs to another organization")
    found = _asset(sender.organization_id, row.asset_id) if row.asset_id else None
    if row.outcome == Result.LOCATION:
        found = lookup.by_code(sender.organization_id, row.code)
    if row.undone_at is not None:
        return Answer(row.id, Result.UNDONE, found=found)
    reason = "It was refused when it first arrived" if row.outcome == Result.REFUSED else ""
    return Answer(row.id, Result(row.outcome), reason, found)


def _refuse(sender: Sender, scan: Submitted, received_at: int, reason: str) -> Answer:
    _keep(sender, scan._replace(location_id=0, code=scan.code[:MAX_CODE_LENGTH]), Result.REFUSED, received_at)
    return Answer(scan.id, Result.REFUSED, reason)


def _park(sender: Sender, scan: Submitted, received_at: int) -> None:
    tag_type = guess_type(scan.code)
    key = tags.match_key(tag_type, scan.code)
    unknown = (sender.organization_id, tag_type, key, BY_HANDHELD, scan.code, "unmatched", scan.observed_at)
    unknown_tags.record([unknown_tags.Sighting(*unknown, scan.location_id)])
    _keep(sender, scan, Result.UNKNOWN, received_at)


def _unpark(row: _Stored) -> None:
    """Out of the inbox of unknown tags, unless others scanned it as well."""
    tag_type = guess_type(row.code)
    values = (row.organization_id, tag_type, tags.match_key(tag_type, row.code), BY_HANDHELD)
    one = "WHERE organization_id = ? AND tag_type = ? AND match_key = ? AND reader_id = ?"
    execute(f"UPDATE unknown_tag SET sightings = sightings - 1 {one}", values)  # noqa: S608
    execute(f"DELETE FROM unknown_tag {one} AND sightings < 1", values)  # noqa: S608


class _Stored(NamedTuple):
    id: str
    organization_id: int
    person_id: int
    device_id: int | None
    location_id: int | None
    asset_id: int | None
    code: str
    outcome: str
    observed_at: int
    received_at: int
    seq: int | None
    undone_at: int | None


def _parked(organization_id: int, code: str) -> list[_Stored]:
    sql = (
        f"SELECT {', '.join(_Stored._fields)} FROM handheld_scan "  # noqa: S608
        "WHERE organization_id = ? AND outcome = 'unknown' AND code = ? AND undone_at IS NULL ORDER BY observed_at"
    )
    return [_Stored(*row) for row in execute(sql, (organization_id, code)).fetchall()]


def _stored(scan_id: str) -> _Stored | None:
    row = execute(f"SELECT {', '.join(_Stored._fields)} FROM handheld_scan WHERE id = ?", (scan_id,)).fetchone()  # noqa: S608
    return _Stored(*row) if row else None


def _keep(
    sender: Sender,
    scan: Submitted,
    result: Result,
    received_at: int,
    *,
    asset_id: int | None = None,
    seq: int | None = None,
    undone_at: int | None = None,
) -> None:
    row = _Stored(
        scan.id,
        sender.organization_id,
        sender.person_id,
        sender.device_id,
        scan.location_id or None,
        asset_id,
        scan.code,
        result,
        scan.observed_at,
        received_at,
        seq,
        undone_at,
    )
    HandheldScan.insert(row._asdict()).execute()


def _was_scanned_here(scan: Submitted, asset_id: int) -> bool:
    """By a person, at this location, within the shift, and the asset has not been elsewhere since."""
    row = execute(
        "SELECT scan.location_id, position.location_id, position.dwell_started_at <= scan.observed_at "
        "FROM handheld_scan scan JOIN position ON position.asset_id = scan.asset_id "
        "WHERE scan.asset_id = ? AND scan.observed_at BETWEEN ? AND ? AND scan.undone_at IS NULL "
        "ORDER BY scan.observed_at DESC LIMIT 1",
        (asset_id, scan.observed_at - AGAIN_WITHIN, scan.observed_at),
    ).fetchone()
    return row is not None and row == (scan.location_id, scan.location_id, 1)


def _shares_its_row(row: _Stored) -> bool:
    """Two people scanned the same thing at the same location in the same instant: one row of history for both."""
    others = execute(
        "SELECT 1 FROM handheld_scan WHERE asset_id = ? AND observed_at = ? AND seq = ? AND id <> ? "
        "AND undone_at IS NULL",
        (row.asset_id, row.observed_at, row.seq, row.id),
    )
    return others.fetchone() is not None


def _note_undo(sender: Sender, row: _Stored) -> None:
    audit.note(
        sender.organization_id,
        f"person:{sender.person_id}",
        "scan undone",
        scan=row.id,
        code=row.code,
        asset=row.asset_id,
        location=row.location_id,
        observed_at=clock.rfc3339(row.observed_at),
    )


def _asset(organization_id: int, asset_id: int) -> Found | None:
    row = board.whereabouts(organization_id, asset_id)
    return Found("asset", row.asset_id, row.external_key, row.name) if row else None


def _is_live_location(organization_id: int, location_id: int) -> bool:
    sql = "SELECT 1 FROM location WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
    return execute(sql, (location_id, organization_id)).fetchone() is not None
