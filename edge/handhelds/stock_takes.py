"""Stock-takes: compare the expected assets of a location with the scanned ones.

A device starts a stock-take with its list of expected assets. Its scans are stored separately and become normal scans
at sign-off; the result is stored at the same time. Devices assign all ids, and any number of devices can take part and
repeat requests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import column, execute, execute_many, reading, writing
from edge.errors import Conflict
from edge.handhelds import accepted_scans, device_reports
from edge.handhelds import scans as handheld
from edge.handhelds.scans import Answer, Result, Submitted
from edge.records import location_tree, lookup
from edge.texts import N_, fill
from edge.tracking import board, carriers, report
from edge.tracking.report import CurrentPosition

MAX_EXPECTED = 20_000  # assets; the size of the copy on a device
MAX_SCANS = 50_000  # per stock-take, against broken devices; further scans are recorded immediately


class StockTake(NamedTuple):
    """A stock-take. `expected` and `scanned` are numbers of assets and scans; times are in microseconds."""

    id: str
    location_id: int
    location_name: str
    with_sublocations: bool
    started_at: int
    started_by: str
    finished_at: int | None
    finished_by: str | None
    cancelled_at: int | None
    expected: int
    scanned: int

    @property
    def is_open(self) -> bool:
        return self.finished_at is None and self.cancelled_at is None


class Line(NamedTuple):
    """One line of the signed-off sheet.

    `result` is here, elsewhere, missing or unknown. `how` is scan, reader, or person for a scan outside the stock-take.
    """

    result: str
    asset_id: int | None
    external_key: str
    name: str
    code: str
    how: str
    location_name: str | None  # last location before the scan
    seen_at: int | None
    lost_at: int | None


class OtherDevice(NamedTuple):
    """The last report of another device before sign-off."""

    name: str
    unsent: int
    unsent_since: int | None
    reported_at: int


class SignedResult(NamedTuple):
    """The result on the screen of the person who signs off."""

    assets: dict[str, list[tuple[int, str]]]  # by result: (asset id, how), see `Line`
    unknown: list[str]  # codes
    devices: list[OtherDevice]


class Progress(NamedTuple):
    """The data with which a device continues a stock-take that another device started."""

    expected: list[int]
    scans: list[tuple[str, str, int | None, int, str]]  # scan id, code, asset, observed_at, name of the person
    seen: list[tuple[int, int, int, bool]]  # expected assets seen since the start: asset, location, time, by a person


def begin(
    sender: Actor,
    stock_take_id: str,
    location_id: int,
    *,
    with_sublocations: bool,
    expected: Sequence[int],
    started_at: int,
) -> bool:
    """Start a stock-take with its expected assets. Returns False if the organization does not have the location.

    A repeat changes nothing. Raises OverQuota, and Conflict if the organization has too many stock-takes.
    """
    with writing():
        sql = "SELECT 1 FROM location WHERE id = ? AND organization_id = ?"
        if not execute(sql, (location_id, sender.organization_id)).fetchone():
            return False
        if not execute("SELECT 1 FROM stock_take WHERE id = ?", (stock_take_id,)).fetchone():
            for kind in ("stock_take", "open stock_take"):
                quotas.check_cap(sender, kind, more=1)
            quotas.charge(sender, quotas.ROW_BYTES + quotas.LINE_BYTES * len(expected[:MAX_EXPECTED]), is_scan=True)
        values = (stock_take_id, sender.organization_id, location_id, with_sublocations, started_at, sender.person_id)
        added = execute(
            "INSERT INTO stock_take (id, organization_id, location_id, with_sublocations, started_at, started_by) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            values,
        )
        if added.rowcount:
            execute(
                "INSERT INTO stock_take_expected (stock_take_id, asset_id) SELECT ?, asset.id FROM json_each(?) item "
                "CROSS JOIN asset ON asset.id = item.value AND asset.organization_id = ? "
                "WHERE asset.id NOT IN (SELECT asset_id FROM tracked_person) ON CONFLICT DO NOTHING",
                (stock_take_id, json.dumps(list(expected[:MAX_EXPECTED])), sender.organization_id),
            )
        return True


def scan(sender: Actor, stock_take_id: str, submitted: Submitted, received_at: int) -> Answer:
    """Store a scan in an open stock-take. After sign-off or above MAX_SCANS it is recorded immediately.

    It is refused after the stock-take was cancelled, which records nothing. Raises OverQuota.
    """
    with writing():
        take = find_stock_take(sender.organization_id, stock_take_id)
        if take and take.cancelled_at and not handheld.stored(submitted.id):
            return Answer(submitted.id, Result.REFUSED, N_("The stock-take was cancelled. Nothing of it is recorded"))
        if not _is_counted(sender.organization_id, take, submitted):
            return handheld.submit(sender, [submitted], received_at)[0]
        record = lookup.by_code(sender.organization_id, submitted.code)
        if record and record.kind == "location":
            return Answer(submitted.id, Result.LOCATION, record=record)
        was = board.whereabouts(sender.organization_id, record.id) if record else None
        carried = carriers.all_on(record.id) if record else ()  # they move with it at the sign-off
        quotas.charge(sender, quotas.ROW_BYTES + quotas.LINE_BYTES * len(carried), is_scan=True)
        execute(
            "INSERT INTO stock_take_scan (id, stock_take_id, location_id, person_id, device_id, code, asset_id, "
            "observed_at, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (
                *(submitted.id, stock_take_id, submitted.location_id, sender.person_id, sender.device_id),
                *(submitted.code, record.id if record else None, submitted.observed_at, received_at),
            ),
        )
        return Answer(submitted.id, Result.COUNTED, record=record, was=was)


def _is_counted(organization_id: int, take: StockTake | None, submitted: Submitted) -> bool:
    """True if the stock-take is open and stores the scan, so it can be recorded at sign-off."""
    if not (take and take.is_open) or handheld.stored(submitted.id) or handheld.scan_error(organization_id, submitted):
        return False
    is_repeat = execute("SELECT 1 FROM stock_take_scan WHERE id = ?", (submitted.id,)).fetchone() is not None
    return is_repeat or take.scanned < MAX_SCANS


def undo_scan(sender: Actor, scan_id: str) -> None:
    """Delete a scan that the sender made, unless the stock-take is signed off.

    For another person who used the device, only scans made on that device can be undone.
    """
    sql = (
        "DELETE FROM stock_take_scan WHERE id = ? AND person_id = ? AND (? = '' OR device_id = ?) AND stock_take_id IN "
        "(SELECT id FROM stock_take WHERE organization_id = ? AND finished_at IS NULL)"
    )
    with writing():
        execute(sql, (scan_id, sender.person_id, sender.sender_id, sender.device_id, sender.organization_id))


def finish(sender: Actor, stock_take_id: str, received_at: int, signed: SignedResult | None = None) -> bool:
    """Sign off: store the signed result and record the scans. Returns False if there is no such stock-take.

    Without `signed` the result is computed from the current data. Raises OverQuota, and Conflict if somebody else was
    quicker: then that result is the stored one.
    """
    take = find_stock_take(sender.organization_id, stock_take_id)
    if take is None or take.cancelled_at:
        return False
    found = _found_meanwhile(sender.organization_id, stock_take_id)  # before the lock: 40,000 codes take 20 s
    with acting(sender) as act:
        if _find_open(sender.organization_id, stock_take_id) is None:
            _check_signer(sender, stock_take_id)
            return True
        execute_many(
            "UPDATE stock_take_scan SET asset_id = ? WHERE id = ? AND stock_take_id = ? AND asset_id IS NULL",
            [(asset_id, scan_id, stock_take_id) for scan_id, asset_id in found],
        )
        lines = (
            _current_lines(sender.organization_id, take)
            if signed is None
            else _signed_lines(sender.organization_id, take, signed)
        )
        quotas.charge(sender, quotas.LINE_BYTES * len(lines), is_scan=True)
        execute_many(
            "INSERT INTO stock_take_line (stock_take_id, no, result, asset_id, code, how, location_id, seen_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [(stock_take_id, no, *line) for no, line in enumerate(lines)],
        )
        execute_many(
            "INSERT INTO stock_take_unsent (stock_take_id, no, name, unsent, unsent_since, reported_at) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            [(stock_take_id, no, *device) for no, device in enumerate(signed.devices if signed else [])],
        )
        device_reports.forget("stock_take", stock_take_id)
        execute(
            "UPDATE stock_take SET finished_at = ?, finished_by = ? WHERE id = ?",
            (received_at, sender.person_id, stock_take_id),
        )
        accepted_scans.record_of_stock_take(sender.organization_id, stock_take_id)
        counts = {result: sum(line[0] == result for line in lines) for result in _RESULTS}
        act.note("stock_take.signed_off", Subject("stock_take", stock_take_id, take.location_name), counts)
    return True


def _check_signer(sender: Actor, stock_take_id: str) -> None:
    """Raise Conflict if it was signed off by another person than the sender, who may only have sent the same again."""
    sql = "SELECT name FROM person WHERE id <> ? AND id = (SELECT finished_by FROM stock_take WHERE id = ?)"
    for (name,) in execute(sql, (sender.person_id, stock_take_id)):
        raise Conflict(fill(N_("%(name)s has signed it off already. Your result is not stored"), name=name))


def cancel(sender: Actor, stock_take_id: str, received_at: int) -> bool:
    """Discard an open stock-take. Returns False if there is no such stock-take or it has been signed off."""
    with acting(sender) as act:
        take = _find_open(sender.organization_id, stock_take_id)
        if take is None:
            return False
        execute("UPDATE stock_take SET cancelled_at = ? WHERE id = ?", (received_at, stock_take_id))
        device_reports.forget("stock_take", stock_take_id)
        act.note("stock_take.cancelled", Subject("stock_take", stock_take_id, take.location_name))
    return True


# Reading ------------------------------------------------------------------------------------------------------

_SELECT = """
SELECT take.id, take.location_id, location.name, take.with_sublocations, take.started_at, starter.name,
       take.finished_at, finisher.name, take.cancelled_at,
       (SELECT count(*) FROM stock_take_expected WHERE stock_take_id = take.id),
       (SELECT count(*) FROM stock_take_scan WHERE stock_take_id = take.id)
FROM stock_take take
JOIN location ON location.id = take.location_id
JOIN person starter ON starter.id = take.started_by
LEFT JOIN person finisher ON finisher.id = take.finished_by
WHERE take.organization_id = ?
"""


def list_stock_takes(organization_id: int, *, is_open_only: bool = False, limit: int = 100) -> list[StockTake]:
    """Return the stock-takes that are not cancelled, newest first."""
    unfinished = "AND take.finished_at IS NULL" if is_open_only else ""
    sql = f"{_SELECT} AND take.cancelled_at IS NULL {unfinished} ORDER BY take.started_at DESC LIMIT ?"
    return [_row(row) for row in execute(sql, (organization_id, limit))]


def find_stock_take(organization_id: int, stock_take_id: str) -> StockTake | None:
    """Return the stock-take with this id, or None."""
    row = execute(f"{_SELECT} AND take.id = ?", (organization_id, stock_take_id)).fetchone()
    return _row(row) if row else None


def progress(take: StockTake) -> Progress:
    """Return the state of a stock-take: all scans, and the expected assets that were seen since it started."""
    with reading():
        expected = column(_EXPECTED, (take.id,))
        scans = execute(
            "SELECT scan.id, scan.code, scan.asset_id, scan.observed_at, person.name FROM stock_take_scan scan "
            "JOIN person ON person.id = scan.person_id WHERE scan.stock_take_id = ? ORDER BY scan.observed_at",
            (take.id,),
        ).fetchall()
        read_since = {
            asset_id: position
            for asset_id, position in report.current_positions(expected if take.is_open else ()).items()
            if position.last_seen_at >= take.started_at
        }
        scanned = report.scanned_last(read_since)
        seen = [(no, one.location_id, one.last_seen_at, no in scanned) for no, one in read_since.items()]
    return Progress(expected, scans, seen)


def sheet(organization_id: int, stock_take_id: str) -> list[Line]:
    """Return the lines of a signed-off stock-take, by result and name."""
    sql = (
        "SELECT line.result, line.asset_id, ifnull(asset.external_key, ''), ifnull(asset.name, ''), line.code, "
        "line.how, location.name, line.seen_at, lost.marked_at "
        "FROM stock_take_line line JOIN stock_take take ON take.id = line.stock_take_id "
        "LEFT JOIN asset ON asset.id = line.asset_id LEFT JOIN location ON location.id = line.location_id "
        "LEFT JOIN lost_asset lost ON lost.asset_id = line.asset_id AND line.result = 'missing' "
        "WHERE line.stock_take_id = ? AND take.organization_id = ? ORDER BY line.no"
    )
    with reading():
        lines = [Line(*row) for row in execute(sql, (stock_take_id, organization_id))]
        current = report.current_positions([line.asset_id for line in lines if line.lost_at and line.asset_id])
    return [_without_lost_mark(line, current.get(line.asset_id or 0)) for line in lines]


def _without_lost_mark(line: Line, position: CurrentPosition | None) -> Line:
    """Remove the mark if the asset was read since it was reported lost."""
    is_read_since = line.lost_at is not None and position is not None and position.last_seen_at >= line.lost_at
    return line._replace(lost_at=None) if is_read_since else line


def devices_at_sign_off(organization_id: int, stock_take_id: str) -> list[OtherDevice]:
    """Return the reports of other devices at the time of sign-off."""
    sql = (
        "SELECT unsent.name, unsent.unsent, unsent.unsent_since, unsent.reported_at FROM stock_take_unsent unsent "
        "JOIN stock_take take ON take.id = unsent.stock_take_id "
        "WHERE unsent.stock_take_id = ? AND take.organization_id = ? ORDER BY unsent.no"
    )
    return [OtherDevice(*row) for row in execute(sql, (stock_take_id, organization_id))]


# The result ---------------------------------------------------------------------------------------------------

_RESULTS = ("missing", "elsewhere", "unknown", "here")
# An asset may have become a person since.
_EXPECTED = """
SELECT asset_id FROM stock_take_expected
WHERE stock_take_id = ? AND asset_id NOT IN (SELECT asset_id FROM tracked_person)
"""

_LineValues = tuple[str, int | None, str, str, int | None, int | None]  # result, asset, code, how, location, seen at

_ASSETS = """
SELECT asset.id, expected.asset_id IS NOT NULL, scanned.code
FROM asset
LEFT JOIN stock_take_expected expected ON expected.asset_id = asset.id AND expected.stock_take_id = :id
LEFT JOIN (SELECT asset_id, min(code) AS code FROM stock_take_scan WHERE stock_take_id = :id GROUP BY asset_id) scanned
    ON scanned.asset_id = asset.id
WHERE asset.organization_id = :organization_id AND asset.deleted_at IS NULL
    AND (expected.asset_id IS NOT NULL OR scanned.asset_id IS NOT NULL)
    AND asset.id NOT IN (SELECT asset_id FROM tracked_person)
ORDER BY asset.name, asset.id
"""


def _current_lines(organization_id: int, take: StockTake) -> list[_LineValues]:
    """Compute the lines from the current data, before the scans of the stock-take are recorded."""
    scope = _scope(take)
    rows = execute(_ASSETS, {"id": take.id, "organization_id": organization_id}).fetchall()
    asset_ids = [row[0] for row in rows]
    current, scanned = report.current_positions(asset_ids), report.scanned_last(asset_ids)
    lines = [
        _classify(take, scope, asset_id, current.get(asset_id), is_expected, code, is_by_person=asset_id in scanned)
        for asset_id, is_expected, code in rows
    ]
    unknown = execute(
        "SELECT DISTINCT code FROM stock_take_scan WHERE stock_take_id = ? AND asset_id IS NULL ORDER BY code",
        (take.id,),
    )
    lines += [("unknown", None, code, "scan", None, None) for (code,) in unknown]
    return sorted(lines, key=lambda line: _RESULTS.index(line[0]))


def _signed_lines(organization_id: int, take: StockTake, signed: SignedResult) -> list[_LineValues]:
    """Return the lines of the signed result, with the last location of each asset."""
    ids = [asset_id for result in _ASSET_RESULTS for asset_id, _ in signed.assets.get(result, [])]
    values = {"id": take.id, "organization_id": organization_id, "assets": json.dumps(ids)}
    codes = dict(execute(_SIGNED_ASSETS, values).fetchall())
    current = report.current_positions(codes)
    lines: list[_LineValues] = []
    for result in _RESULTS:
        if result == "unknown":
            lines += [("unknown", None, code, "scan", None, None) for code in signed.unknown]
        for asset_id, how in signed.assets.get(result, []):
            if asset_id in codes:
                position = current.get(asset_id)
                seen = (position.location_id, position.last_seen_at) if position else (None, None)
                lines.append((result, asset_id, codes[asset_id] or "", how, *seen))
    return lines


_ASSET_RESULTS = ("missing", "elsewhere", "here")
_SIGNED_ASSETS = """
SELECT asset.id, (SELECT min(code) FROM stock_take_scan WHERE stock_take_id = :id AND asset_id = asset.id)
FROM json_each(:assets) item CROSS JOIN asset ON asset.id = item.value AND asset.organization_id = :organization_id
WHERE asset.id NOT IN (SELECT asset_id FROM tracked_person)
"""


def _found_meanwhile(organization_id: int, stock_take_id: str) -> list[tuple[str, int]]:
    """Return the scans of unknown codes that have been attached since, with their assets."""
    unknown = execute(
        "SELECT code, id FROM stock_take_scan WHERE stock_take_id = ? AND asset_id IS NULL ORDER BY code",
        (stock_take_id,),
    ).fetchall()
    found: list[tuple[str, int]] = []
    for code, scans in groupby(unknown, itemgetter(0)):
        record = lookup.by_code(organization_id, code)
        if record and record.kind == "asset":
            found += [(scan_id, record.id) for _, scan_id in scans]
    return found


def _classify(
    take: StockTake,
    scope: set[int],
    asset_id: int,
    position: CurrentPosition | None,
    is_expected: bool,
    code: str | None,
    *,
    is_by_person: bool,
) -> _LineValues:
    """Return the line of an asset. Assets that arrived during the count are here, those that left are elsewhere."""
    location_id, seen_at = (position.location_id, position.last_seen_at) if position else (None, None)
    is_seen_since_start = seen_at is not None and seen_at >= take.started_at
    is_inside = location_id in scope
    if code is not None:
        result, how = ("here" if is_expected or is_inside else "elsewhere"), "scan"
    elif is_seen_since_start:
        result, how = ("here" if is_inside else "elsewhere"), ("person" if is_by_person else "reader")
    else:
        result, how = "missing", ""
    return result, asset_id, code or "", how, location_id, seen_at


def _scope(take: StockTake) -> set[int]:
    below = location_tree.visible_descendants(take.location_id, clock.now()) if take.with_sublocations else []
    return {take.location_id, *below}


def _find_open(organization_id: int, stock_take_id: str) -> StockTake | None:
    take = find_stock_take(organization_id, stock_take_id)
    return take if take and take.is_open else None


def _row(row: tuple[object, ...]) -> StockTake:
    take = StockTake._make(row)
    return take._replace(with_sublocations=bool(take.with_sublocations))
