"""Scans by people: each under an id that its device made, recorded exactly once, and undone on demand.

The row in `handheld_scan` remembers the id: whatever arrives under it again gets the first answer again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import NamedTuple

from edge import clock
from edge.audit import actors, quotas
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, writing
from edge.database.models import HandheldScan
from edge.handhelds import loads
from edge.readers import unknown_tags
from edge.records import gs1, lookup, tags
from edge.records.lookup import RecordRef
from edge.records.tags import NewTag
from edge.texts import N_
from edge.tracking import board, carriers, late_reads, positions
from edge.tracking.stays import Quality, Scan
from edge.validation.values import MAX_TEXT

BY_HANDHELD = 0  # reader_id of unknown tags that a person scanned
AGAIN_WITHIN = 12 * clock.HOUR  # a shift, in which another scan at the same location tells nobody anything new

WRONG_CHECK_DIGIT = N_("The check digit of this code is wrong: it was misread or misprinted. Scan it again")
_SYMBOLOGY = re.compile(r"^\][A-Za-z][0-9A-Za-z]")


class Result(StrEnum):
    RECORDED = "recorded"
    AGAIN = "again"  # recorded, and somebody had scanned it at this location in this shift
    UNKNOWN = "unknown"  # listed among the unknown tags
    LOCATION = "location"  # the label of a location: not a scan of a thing
    UNCLEAR = "unclear"  # not recorded: it follows such a label, and the device must ask where it was made
    WHOSE = "whose"  # not recorded: it is not proven who made it, and the device must ask
    RETIRED = "retired"  # not recorded: its location has been retired, and the device must ask where it was made
    COUNTED = "counted"  # kept by a stock-take until it is signed off
    DONE = "done"  # an action that is not a scan
    BADGE = "badge"  # not recorded: somebody's badge
    REFUSED = "refused"
    UNDONE = "undone"


class Submitted(NamedTuple):
    """A scan as the device kept it; `observed_at` is from the device's clock, already corrected."""

    id: str
    code: str
    location_id: int
    observed_at: int
    sent_by: int | None = None  # who was signed in when it was sent, if not the person who made it
    asset_id: int | None = None  # chosen from a list; otherwise the code says which it is
    onto: int | None = None  # the carrier that the asset was put on
    is_off: bool = False  # it was taken off its carrier


class Answer(NamedTuple):
    """What became of a scan. `was` is where the asset was before; None if an earlier answer has said so.

    `found` of an unknown code is the retired asset that it was on.
    """

    id: str
    result: Result
    reason: str = ""
    found: RecordRef | None = None
    was: board.BoardRow | None = None


def one_batch() -> AbstractContextManager[None]:
    """One transaction for the scans and undos that a device sends together."""
    return writing()


def submit(sender: Actor, batch: Sequence[Submitted], received_at: int) -> list[Answer]:
    """Record a batch in its order, in one transaction. A scan that arrived before changes nothing."""
    with writing():
        return [_submit_one(sender, scan, received_at) for scan in batch]


def record_accepted(sender: Actor, scan: Submitted, received_at: int) -> Answer:
    """Record a scan that was accepted before, and waited: also if its location has been retired since.

    Nobody is there any more who could be asked where it was made. Within the caller's transaction.
    """
    return _submit_one(sender, scan, received_at, was_accepted=True)


def why_unusable(organization_id: int, scan: Submitted) -> str:
    """Why a scan can never be recorded; empty if it can."""
    if not 1 <= len(scan.code) <= MAX_TEXT:
        return N_("The code is empty or too long")
    if _is_live_location(organization_id, scan.location_id) is None:
        return N_("This location is not known here; choose another one")
    if scan.asset_id is not None:
        return "" if lookup.asset_by_id(organization_id, scan.asset_id) else N_("This asset was retired")
    if gs1.has_wrong_check_digit(scan.code) and lookup.by_code(organization_id, scan.code) is None:
        return WRONG_CHECK_DIGIT
    return ""


def undo(sender: Actor, scan_id: str, gap: int) -> Answer:
    """Undo a scan that the sender made or sent: everything becomes what it would be without it.

    If it has not arrived yet, its id is blocked, so that a late delivery records nothing. `gap` as in `scans.record`.
    """
    moment = clock.now()
    with writing():
        row = stored(scan_id)
        if row is None:
            quotas.charge(sender, quotas.ROW_BYTES, is_scan=True)
            _keep(sender, Submitted(scan_id, "", 0, moment), Result.UNDONE, moment, undone_at=moment)
            return Answer(scan_id, Result.UNDONE)
        is_own = sender.person_id in (row.person_id, row.sent_by)
        if row.organization_id != sender.organization_id or not is_own:
            return Answer(scan_id, Result.REFUSED, N_("Only your own scans can be undone"))
        found = _asset(sender.organization_id, row.asset_id) if row.asset_id else None
        if row.undone_at is None:
            _take_back(sender, row, found, moment, gap)
        return Answer(scan_id, Result.UNDONE, found=found)


def take_over_waiting(organization_id: int, attached: Sequence[NewTag]) -> None:
    """Tags that are no longer unknown; the scans that waited for them are recorded as they were made.

    Within the transaction that attached them.
    """
    known = {
        (tag_type, key)
        for tag in attached
        for key in {tags.match_key(tag.tag_type, tag.value), tags.match_key("barcode", tag.value)}
        for tag_type in {tag.tag_type, "barcode"}
    }
    unknown_tags.drop(organization_id, known)
    if execute(_ANY_WAITS, (organization_id,)).fetchone():
        for tag in attached:
            _record_waiting(organization_id, tag)


_ANY_WAITS = "SELECT 1 FROM handheld_scan WHERE organization_id = ? AND waits_for IS NOT NULL LIMIT 1"


def _record_waiting(organization_id: int, tag: NewTag) -> None:
    for row in _waiting(organization_id, tag.value):
        if lookup.by_code(organization_id, row.code) is not None:
            HandheldScan.delete().where(HandheldScan.id == row.id).execute()
            scan = Submitted(row.id, row.code, row.location_id or 0, row.observed_at, sent_by=row.sent_by)
            record_accepted(actors.person(organization_id, row.person_id, "", row.device_id), scan, row.received_at)


def waits_for(code: str) -> str:
    """The same for all codes and tag values that could match each other, whatever the type of the tag.

    Coarser than every match key: it ignores case, separators, leading zeros and symbology prefixes.
    """
    identity = gs1.identity(code)
    if identity:
        return identity
    bare = _SYMBOLOGY.sub("", code.strip())
    return "".join(letter for letter in bare.upper() if letter.isalnum() and letter not in "0X")


def guess_type(code: str) -> str:
    """A scanner does not say what it read. EPCs are long and hexadecimal, MAC addresses have their colons."""
    if re.fullmatch(r"[0-9A-Fa-f]{24,64}", code):
        return "rfid"
    if re.fullmatch(r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}", code):
        return "ble"
    return "barcode"


def _submit_one(sender: Actor, scan: Submitted, received_at: int, *, was_accepted: bool = False) -> Answer:
    before = stored(scan.id)
    if before is not None:
        return first_answer(sender, before)
    if not was_accepted:
        quotas.charge(sender, quotas.ROW_BYTES, is_scan=True)
    if reason := why_unusable(sender.organization_id, scan):
        return _refuse(sender, scan, received_at, reason)
    if not was_accepted and not _is_live_location(sender.organization_id, scan.location_id):
        return Answer(scan.id, Result.RETIRED)
    found = find(sender.organization_id, scan)
    if found is None:
        _park(sender, scan, received_at)
        return _unknown(sender.organization_id, scan.id, scan.code)
    if found.kind == "location":
        _keep(sender, scan, Result.LOCATION, received_at)
        return Answer(scan.id, Result.LOCATION, found=found)
    if scan.onto is not None and (reason := loads.why_not(sender.organization_id, scan.onto, found.id)):
        return _refuse(sender, scan, received_at, reason)
    return _record(sender, scan, found, received_at)


def find(organization_id: int, scan: Submitted) -> RecordRef | None:
    """The asset or location that a scan is of; None for an unknown code."""
    if scan.asset_id is not None:
        return lookup.asset_by_id(organization_id, scan.asset_id)
    return lookup.by_code(organization_id, scan.code)


def _unknown(organization_id: int, scan_id: str, code: str) -> Answer:
    retired = lookup.retired_asset(organization_id, code)
    return Answer(scan_id, Result.UNKNOWN, N_("This asset was retired") if retired else "", retired)


def _take_back(sender: Actor, row: StoredScan, found: RecordRef | None, moment: int, gap: int) -> None:
    with acting(sender) as act:
        HandheldScan.update(undone_at=moment).where(HandheldScan.id == row.id).execute()
        if row.asset_id is not None and row.seq is not None:
            late_reads.take_back(row.asset_id, row.observed_at, row.seq, gap)
            positions.reconsider(row.asset_id, row.observed_at)
            carriers.take_back(row.asset_id, row.observed_at, gap)
            _take_back_load(row, row.asset_id, gap)
        if row.outcome == Result.UNKNOWN:
            _unpark(row)
        subject = Subject("scan", row.id, row.code)
        if found:
            subject = Subject("asset", found.id, f"{found.name} ({found.external_key})")
        location = execute("SELECT name FROM location WHERE id = ?", (row.location_id,)).fetchone()
        facts = {"code": row.code, "location": location and location[0], "observed_at": clock.rfc3339(row.observed_at)}
        act.note("scan.undone", subject, {"scan": row.id, **facts})


def _take_back_load(row: StoredScan, asset_id: int, gap: int) -> None:
    if row.carrier_act == "load":
        loads.undo_load(row.organization_id, asset_id, row.observed_at, gap)
    elif row.carrier_act == "unload" and row.carrier_id is not None:
        cut = loads.Cut(row.carrier_id, row.load_ended_at)
        loads.undo_unload(row.organization_id, asset_id, row.observed_at, cut)


def _record(sender: Actor, scan: Submitted, found: RecordRef, received_at: int) -> Answer:
    was = board.whereabouts(sender.organization_id, found.id)
    result = Result.AGAIN if _was_scanned_here(scan, found.id) else Result.RECORDED
    seen = Scan(
        organization_id=sender.organization_id,
        asset_id=found.id,
        location_id=scan.location_id,
        reader_id=None,
        port=None,
        observed_at=scan.observed_at,
        received_at=received_at,
        quality=Quality.HANDHELD,
    )
    seq = positions.record_by_person(seen)
    carriers.follow([seen], gap=0)
    cut = loads.unload(found.id, scan.observed_at) if scan.is_off and scan.onto is None else None
    _keep(sender, scan, result, received_at, asset_id=found.id, seq=seq, cut=cut)
    if scan.onto is not None:
        carriers.load(sender, scan.onto, found.id, scan.observed_at)
    return Answer(scan.id, result, found=found, was=was)


def first_answer(sender: Actor, row: StoredScan) -> Answer:
    if row.organization_id != sender.organization_id:
        return Answer(row.id, Result.REFUSED, N_("This scan belongs to another organization"))
    found = _asset(sender.organization_id, row.asset_id) if row.asset_id else None
    if row.outcome == Result.LOCATION:
        found = lookup.by_code(sender.organization_id, row.code)
    if row.undone_at is not None:
        return Answer(row.id, Result.UNDONE, found=found)
    if row.outcome == Result.UNKNOWN:
        return _unknown(sender.organization_id, row.id, row.code)
    reason = N_("It was refused when it first arrived") if row.outcome == Result.REFUSED else ""
    return Answer(row.id, Result(row.outcome), reason, found)


def _refuse(sender: Actor, scan: Submitted, received_at: int, reason: str) -> Answer:
    _keep(sender, scan._replace(location_id=0, code=scan.code[:MAX_TEXT]), Result.REFUSED, received_at)
    return Answer(scan.id, Result.REFUSED, reason)


def _park(sender: Actor, scan: Submitted, received_at: int) -> None:
    tag_type = guess_type(scan.code)
    key = tags.match_key(tag_type, scan.code)
    unknown = (sender.organization_id, tag_type, key, BY_HANDHELD, scan.code, "unmatched", scan.observed_at)
    unknown_tags.record([unknown_tags.Sighting(*unknown, scan.location_id)])
    _keep(sender, scan, Result.UNKNOWN, received_at)


def _unpark(row: StoredScan) -> None:
    """Off the list of unknown tags, unless others scanned it as well."""
    tag_type = guess_type(row.code)
    values = (row.organization_id, tag_type, tags.match_key(tag_type, row.code), BY_HANDHELD)
    one = "WHERE organization_id = ? AND tag_type = ? AND match_key = ? AND reader_id = ?"
    execute(f"UPDATE unknown_tag SET sightings = sightings - 1 {one}", values)
    execute(f"DELETE FROM unknown_tag {one} AND sightings < 1", values)


class StoredScan(NamedTuple):
    """A row of the table `handheld_scan`, whatever became of the scan."""

    id: str
    organization_id: int
    person_id: int
    sent_by: int
    device_id: int | None
    location_id: int | None
    asset_id: int | None
    code: str
    outcome: str
    observed_at: int
    received_at: int
    seq: int | None
    undone_at: int | None
    waits_for: str | None
    carrier_act: str | None = None
    carrier_id: int | None = None
    load_ended_at: int | None = None


def _waiting(organization_id: int, tag_value: str) -> list[StoredScan]:
    """Scans of codes that may be this tag's, oldest first; the look-up decides whether they are."""
    sql = (
        f"SELECT {', '.join(StoredScan._fields)} FROM handheld_scan "
        "WHERE organization_id = ? AND waits_for = ? AND undone_at IS NULL ORDER BY observed_at"
    )
    return [StoredScan(*row) for row in execute(sql, (organization_id, waits_for(tag_value))).fetchall()]


def stored(scan_id: str) -> StoredScan | None:
    row = execute(f"SELECT {', '.join(StoredScan._fields)} FROM handheld_scan WHERE id = ?", (scan_id,)).fetchone()
    return StoredScan(*row) if row else None


def _keep(
    sender: Actor,
    scan: Submitted,
    result: Result,
    received_at: int,
    *,
    asset_id: int | None = None,
    seq: int | None = None,
    undone_at: int | None = None,
    cut: loads.Cut | None = None,
) -> None:
    row = StoredScan(
        scan.id,
        sender.organization_id,
        int(sender.id),
        scan.sent_by or int(sender.id),
        sender.device_id,
        scan.location_id or None,
        asset_id,
        scan.code,
        result,
        scan.observed_at,
        received_at,
        seq,
        undone_at,
        waits_for(scan.code) if result is Result.UNKNOWN else None,
        "load" if scan.onto is not None else "unload" if scan.is_off else None,
        cut.carrier_id if cut else scan.onto,
        cut.ended_at if cut else None,
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


def _asset(organization_id: int, asset_id: int) -> RecordRef | None:
    row = board.whereabouts(organization_id, asset_id)
    return RecordRef("asset", row.asset_id, row.external_key, row.name) if row else None


def _is_live_location(organization_id: int, location_id: int) -> bool | None:
    """None for a location that the organization never had."""
    sql = "SELECT deleted_at IS NULL FROM location WHERE id = ? AND organization_id = ?"
    found = execute(sql, (location_id, organization_id)).fetchone()
    return bool(found[0]) if found else None
