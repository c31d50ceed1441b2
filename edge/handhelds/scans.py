"""Scans by people: record, repeat, undo, and attach the code of a waiting one to an asset.

The device assigns an id to each scan. A row in `handheld_scan` stores the id and the outcome, so a repeated scan gets
the first answer again and is recorded once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, insert, writing
from edge.errors import Conflict, NotFound
from edge.handhelds import loads
from edge.readers import unknown_tags
from edge.records import assets, gs1, lookup, tags
from edge.records.lookup import RecordRef
from edge.records.tags import NewTag
from edge.texts import N_
from edge.tracking import board, carriers, late_reads, positions, report, shown_positions
from edge.tracking.stays import Quality, Scan
from edge.validation.values import MAX_TEXT

BY_HANDHELD = 0  # reader_id of unknown tags that a person scanned
AGAIN_WITHIN = 12 * clock.HOUR  # one shift; a second scan at the same location has the result AGAIN

WRONG_CHECK_DIGIT = N_("Wrong check digit: the code was misread or misprinted. Scan it again")
_SYMBOLOGY = re.compile(r"^\][A-Za-z][0-9A-Za-z]")


class Result(StrEnum):
    """Outcome of a scan, as the device shows it."""

    RECORDED = "recorded"
    AGAIN = "again"  # recorded; the asset was already scanned at this location during the shift
    UNKNOWN = "unknown"  # stored, and the code is listed as an unknown tag
    LOCATION = "location"  # the label of a location
    UNCLEAR = "unclear"  # not recorded: after the label of a location the device must ask for the location
    WHOSE = "whose"  # not recorded: the person is uncertain and the device must ask
    RETIRED = "retired"  # not recorded: the location is retired and the device must ask for another one
    COUNTED = "counted"  # stored in a stock-take until it is signed off
    DONE = "done"  # an action other than a scan
    BADGE = "badge"  # not recorded: the code is a badge
    REFUSED = "refused"
    UNDONE = "undone"


class Submitted(NamedTuple):
    """A scan as sent by the device. `observed_at` (microseconds) is already corrected for the device's clock."""

    id: str
    code: str
    location_id: int
    observed_at: int
    sent_by: int | None = None  # person signed in when the scan was sent, if different from the person who scanned
    asset_id: int | None = None  # asset chosen from a list; None: identified by the code
    onto: int | None = None  # carrier onto which the asset was put
    is_off: bool = False  # the asset was taken off its carrier


class Answer(NamedTuple):
    """The outcome of a scan.

    `record` is the scanned asset or location; for an unknown code, the retired asset that had it. `was` is the previous
    location of the asset, and None in repeated answers.
    """

    id: str
    result: Result
    reason: str = ""
    record: RecordRef | None = None
    was: board.BoardRow | None = None


def submit(sender: Actor, batch: Sequence[Submitted], received_at: int) -> list[Answer]:
    """Record a batch in order, in one transaction. Repeated scans change nothing. Raises OverQuota."""
    gs1.identify_before_writing(scan.code for scan in batch if len(scan.code) <= MAX_TEXT)
    with writing():
        return [_submit_one(sender, scan, received_at) for scan in batch]


def record_accepted(sender: Actor, scan: Submitted, received_at: int) -> Answer:
    """Record a scan that was accepted earlier and waited, in the caller's transaction.

    It is recorded even if its location has since been retired, because nobody can be asked for another one.
    """
    return _submit_one(sender, scan, received_at, is_accepted=True)


def scan_error(organization_id: int, scan: Submitted) -> str:
    """Return why a scan can never be recorded, or "" if it can."""
    if not 1 <= len(scan.code) <= MAX_TEXT:
        return N_("The code is empty or too long")
    if _is_live_location(organization_id, scan.location_id) is None:
        return N_("Unknown location. Choose another one")
    if scan.asset_id is not None:
        return "" if lookup.asset_by_id(organization_id, scan.asset_id) else N_("This asset is retired")
    if gs1.has_wrong_check_digit(scan.code) and lookup.by_code(organization_id, scan.code) is None:
        return WRONG_CHECK_DIGIT
    return ""


def undo(sender: Actor, scan_id: str, gap: int) -> Answer:
    """Undo a scan that the sender made or sent. Position, history and loads are corrected as if it had not happened.

    The id of a scan that has not arrived yet is blocked, so it will not be recorded later. `gap` as in
    `positions.record`.
    """
    now = clock.now()
    with writing():
        row = stored(scan_id)
        if row is None:
            quotas.charge(sender, quotas.ROW_BYTES, is_scan=True)
            _store(sender, Submitted(scan_id, "", 0, now), Result.UNDONE, now, undone_at=now)
            return Answer(scan_id, Result.UNDONE)
        is_own = sender.person_id in (row.person_id, row.sent_by)
        if row.organization_id != sender.organization_id or not is_own:
            return Answer(scan_id, Result.REFUSED, N_("You can undo only your own scans"))
        record = _asset(sender.organization_id, row.asset_id) if row.asset_id else None
        if row.undone_at is None:
            _undo_scan(sender, row, record, now, gap)
        return Answer(scan_id, Result.UNDONE, record=record)


def waits_for(code: str) -> str:
    """Return a key that is equal for all codes and tag values that could match each other, for any tag type.

    It is coarser than every match key: it ignores case, separators, leading zeros and symbology prefixes.
    """
    identity = gs1.identity(code)
    if identity:
        return identity
    bare = _SYMBOLOGY.sub("", code.strip())
    return "".join(letter for letter in bare.upper() if letter.isalnum() and letter not in "0X")


def guess_type(code: str) -> str:
    """Guess the tag type of a code, because scanners do not report it: long hexadecimal is RFID, a MAC address BLE."""
    if re.fullmatch(r"[0-9A-Fa-f]{24,64}", code):
        return "rfid"
    if re.fullmatch(r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}", code):
        return "ble"
    return "barcode"


def _submit_one(sender: Actor, scan: Submitted, received_at: int, *, is_accepted: bool = False) -> Answer:
    before = stored(scan.id)
    if before is not None:
        return stored_answer(sender, before)
    if not is_accepted:
        quotas.charge(sender, quotas.ROW_BYTES, is_scan=True)
    if reason := scan_error(sender.organization_id, scan):
        return _refuse(sender, scan, received_at, reason)
    if not is_accepted and not _is_live_location(sender.organization_id, scan.location_id):
        return Answer(scan.id, Result.RETIRED)
    if scan.asset_id is not None:
        record = lookup.asset_by_id(sender.organization_id, scan.asset_id)
    else:
        record = lookup.by_code(sender.organization_id, scan.code)
    if record is None:
        _store_unknown(sender, scan, received_at)
        return _unknown(sender.organization_id, scan.id, scan.code)
    if record.kind == "location":
        _store(sender, scan, Result.LOCATION, received_at)
        return Answer(scan.id, Result.LOCATION, record=record)
    if scan.onto is not None:
        reason = loads.load_error(sender.organization_id, scan.onto, record.id, scan.observed_at)
        if reason:
            return _refuse(sender, scan, received_at, reason)
    return _record(sender, scan, record, received_at, is_accepted=is_accepted)


def _unknown(organization_id: int, scan_id: str, code: str) -> Answer:
    retired = lookup.retired_asset(organization_id, code)
    return Answer(scan_id, Result.UNKNOWN, N_("This asset is retired") if retired else "", retired)


def _undo_scan(sender: Actor, row: StoredScan, record: RecordRef | None, now: int, gap: int) -> None:
    with acting(sender) as act:
        execute("UPDATE handheld_scan SET undone_at = ? WHERE id = ?", (now, row.id))
        if row.asset_id is not None and row.seq is not None:
            late_reads.take_back(row.asset_id, row.observed_at, row.seq, gap)
            positions.reconsider(row.asset_id, row.observed_at, is_undone=True)
            carriers.take_back(row.asset_id, row.observed_at, gap)
            _undo_load(row, row.asset_id, gap)
        if row.outcome == Result.UNKNOWN:
            _remove_unknown(row)
        subject = Subject("scan", row.id, row.code)
        if record:
            subject = Subject("asset", record.id, f"{record.name} ({record.external_key})")
        location = execute("SELECT name FROM location WHERE id = ?", (row.location_id,)).fetchone()
        details = {"scan": row.id, "code": row.code, "location": location and location[0]}
        act.note("scan.undone", subject, {**details, "observed_at": clock.rfc3339(row.observed_at)})


def _undo_load(row: StoredScan, asset_id: int, gap: int) -> None:
    if row.carrier_act == "load":
        loads.undo_load(row.organization_id, asset_id, row.observed_at, gap)
    elif row.carrier_act == "unload" and row.carrier_id is not None:
        ended_load = loads.EndedLoad(row.carrier_id, row.load_ended_at)
        loads.undo_unload(row.organization_id, asset_id, row.observed_at, ended_load)
    elif row.carrier_act is None:
        loads.resume(row.organization_id, asset_id, row.observed_at)


def _record(sender: Actor, scan: Submitted, asset: RecordRef, received_at: int, *, is_accepted: bool) -> Answer:
    was = board.whereabouts(sender.organization_id, asset.id)
    result = Result.AGAIN if _is_scanned_again(scan, asset.id) else Result.RECORDED
    seen = Scan(
        organization_id=sender.organization_id,
        asset_id=asset.id,
        location_id=scan.location_id,
        reader_id=None,
        port=None,
        observed_at=scan.observed_at,
        received_at=received_at,
        quality=Quality.HANDHELD,
    )
    seq = positions.record_by_person(seen)
    carried = carriers.follow([seen], gap=0)
    if carried and not is_accepted:  # each has a row of history of its own
        quotas.charge(sender, quotas.LINE_BYTES * len(carried), is_scan=True)
    ended_load = loads.unload(asset.id, scan.observed_at) if scan.is_off and scan.onto is None else None
    _store(sender, scan, result, received_at, asset_id=asset.id, seq=seq, ended_load=ended_load)
    if scan.onto is not None:
        carriers.load(sender, scan.onto, asset.id, scan.observed_at)
    return Answer(scan.id, result, record=asset, was=was)


def stored_answer(sender: Actor, row: StoredScan) -> Answer:
    """Return the answer to a repeated scan. Its `was` is None."""
    if row.organization_id != sender.organization_id:
        return Answer(row.id, Result.REFUSED, N_("This scan belongs to another organization"))
    record = _asset(sender.organization_id, row.asset_id) if row.asset_id else None
    if row.outcome == Result.LOCATION:
        record = lookup.by_code(sender.organization_id, row.code)
    if row.undone_at is not None:
        return Answer(row.id, Result.UNDONE, record=record)
    if row.outcome == Result.UNKNOWN:
        return _unknown(sender.organization_id, row.id, row.code)
    reason = N_("This scan was already refused") if row.outcome == Result.REFUSED else ""
    return Answer(row.id, Result(row.outcome), reason, record)


def _refuse(sender: Actor, scan: Submitted, received_at: int, reason: str) -> Answer:
    _store(sender, scan._replace(location_id=0, code=scan.code[:MAX_TEXT]), Result.REFUSED, received_at)
    return Answer(scan.id, Result.REFUSED, reason)


def _store_unknown(sender: Actor, scan: Submitted, received_at: int) -> None:
    tag_type = guess_type(scan.code)
    key = tags.match_key(tag_type, scan.code)
    unknown = (sender.organization_id, tag_type, key, BY_HANDHELD, scan.code, "unmatched", scan.observed_at)
    unknown_tags.record([unknown_tags.Sighting(*unknown, scan.location_id)])
    _store(sender, scan, Result.UNKNOWN, received_at)


def _remove_unknown(row: StoredScan) -> None:
    """Remove the code from the unknown tags unless other scans of it remain."""
    tag_type = guess_type(row.code)
    values = (row.organization_id, tag_type, tags.match_key(tag_type, row.code), BY_HANDHELD)
    condition = "WHERE organization_id = ? AND tag_type = ? AND match_key = ? AND reader_id = ?"
    execute(f"UPDATE unknown_tag SET sightings = sightings - 1 {condition}", values)
    execute(f"DELETE FROM unknown_tag {condition} AND sightings < 1", values)


class StoredScan(NamedTuple):
    """A row of the table `handheld_scan`. Times are microseconds since the epoch, UTC."""

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


def stored(scan_id: str) -> StoredScan | None:
    """Return the stored scan with this id, or None."""
    row = execute(f"SELECT {', '.join(StoredScan._fields)} FROM handheld_scan WHERE id = ?", (scan_id,)).fetchone()
    return StoredScan(*row) if row else None


def _store(
    sender: Actor,
    scan: Submitted,
    result: Result,
    received_at: int,
    *,
    asset_id: int | None = None,
    seq: int | None = None,
    undone_at: int | None = None,
    ended_load: loads.EndedLoad | None = None,
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
        ended_load.carrier_id if ended_load else scan.onto,
        ended_load.ended_at if ended_load else None,
    )
    insert("handheld_scan", row._asdict())


# Not for a person whose position this request may not show: "again" says that the person is still here.
_NEWEST_SCAN = f"""
SELECT location_id, observed_at FROM handheld_scan
WHERE asset_id = :asset AND observed_at BETWEEN :since AND :until AND undone_at IS NULL
AND {shown_positions.is_asset_shown(":asset")} ORDER BY observed_at DESC LIMIT 1
"""


def _is_scanned_again(scan: Submitted, asset_id: int) -> bool:
    """True if a person scanned the asset here during the shift and it has not left since."""
    since = scan.observed_at - AGAIN_WITHIN
    before = execute(_NEWEST_SCAN, {"asset": asset_id, "since": since, "until": scan.observed_at}).fetchone()
    position = report.current_position(asset_id)
    if before is None or position is None:
        return False
    location_id, observed_at = before
    return bool(location_id == position.location_id == scan.location_id and position.dwell_started_at <= observed_at)


def _asset(organization_id: int, asset_id: int) -> RecordRef | None:
    row = board.whereabouts(organization_id, asset_id)
    return RecordRef("asset", row.asset_id, row.external_key, row.name) if row else None


def _is_live_location(organization_id: int, location_id: int) -> bool | None:
    """Return whether the location is live, or None if the organization never had it."""
    sql = "SELECT deleted_at IS NULL FROM location WHERE id = ? AND organization_id = ?"
    row = execute(sql, (location_id, organization_id)).fetchone()
    return bool(row[0]) if row else None


def attach(actor: Actor, scan_id: str, asset_id: int) -> Answer:
    """Attach the unknown code of a waiting scan to an asset as a tag, and record the scan for the asset.

    Raises NotFound, and Conflict if the code has since been assigned to something else.
    """
    with acting(actor):
        scan = stored(scan_id)
        if scan is None or scan.organization_id != actor.organization_id:
            raise NotFound(N_("This scan is no longer waiting"))
        owner = lookup.by_code(actor.organization_id, scan.code)
        was = None
        if owner is None:
            was = board.whereabouts(actor.organization_id, asset_id)
            assets.attach_tag(actor, asset_id, NewTag(guess_type(scan.code), scan.code))
        elif owner.id != asset_id:
            raise Conflict(N_("This code has since been assigned to something else"))
        return stored_answer(actor, stored(scan_id) or scan)._replace(was=was)


def attach_to_new_asset(actor: Actor, scan_id: str, name: str) -> Answer:
    """Create an asset and attach the code to it in one transaction. Raises NotFound, Conflict."""
    with acting(actor):
        return attach(actor, scan_id, assets.create(actor, name=name).id)
