"""Stock-takes: what should be at a location is compared with what was found there.

A device begins one with its own list of what should be there. Scans are kept apart from the history until somebody
signs off; then they are recorded like any other scan, and the result is kept as of that moment. Everything arrives
under ids that devices made, with any number of repeats, from any number of devices.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from edge import clock
from edge.audit import actors, quotas
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, execute_many, reading, writing
from edge.handhelds import scans as handheld
from edge.handhelds.scans import Answer, Result, Submitted
from edge.records import location_tree, lookup
from edge.tracking import board
from edge.tracking.report import scanned_last

MOST_EXPECTED = 20_000  # as many as a device keeps
MOST_SCANS = 50_000  # of one stock-take; a bound for what a broken device may send
MOST_DEVICES = 100  # of one stock-take; what more of them say is not kept


class StockTake(NamedTuple):
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


class Line(NamedTuple):
    """One line of the signed-off sheet. `result` is here, elsewhere, missing or unknown.

    `how` is scan, reader, or person, who scanned it outside of the stock-take.
    """

    result: str
    asset_id: int | None
    external_key: str
    name: str
    code: str
    how: str
    location_name: str | None  # where it was seen last before it was scanned here
    seen_at: int | None
    lost_at: int | None


class Holding(NamedTuple):
    """What a device says about one stock-take."""

    stock_take_id: str
    is_open: bool
    unsent: int  # scans and undos
    unsent_since: int | None


class OtherDevice(NamedTuple):
    """What was known of another device when somebody signed off."""

    name: str
    unsent: int
    unsent_since: int | None
    reported_at: int


class Signed(NamedTuple):
    """The result on the screen of the person who signs off."""

    assets: dict[str, list[tuple[int, str]]]  # by result: the assets, and how each is known
    unknown: list[str]  # codes
    devices: list[OtherDevice]


class Progress(NamedTuple):
    """What a device needs to continue a stock-take that another one began."""

    stock_take: StockTake
    expected: list[int]
    scans: list[tuple[str, str, int | None, int, str]]  # scan id, code, asset, observed_at, whose
    seen: list[tuple[int, int, int, bool]]  # asset, location, when, whether by a person: expected ones, since it began
    devices: list[tuple[str, str, bool, int, int | None, int]]  # id, name, is_open, unsent, unsent_since, reported_at


def begin(
    sender: Actor,
    stock_take_id: str,
    location_id: int,
    *,
    with_sublocations: bool,
    expected: Sequence[int],
    started_at: int,
) -> bool:
    """Keep what should be there; False if the location is not the organization's. A repeat changes nothing.

    Raises Conflict when the organization has too many, and OverQuota.
    """
    with writing():
        if not _has_location(sender.organization_id, location_id):
            return False
        if not execute("SELECT 1 FROM stock_take WHERE id = ?", (stock_take_id,)).fetchone():
            for kind in ("stock_take", "open stock_take"):
                quotas.check_cap(sender, kind, more=1)
            quotas.charge(sender, quotas.ROW_BYTES + quotas.LINE_BYTES * len(expected[:MOST_EXPECTED]), is_scan=True)
        values = (stock_take_id, sender.organization_id, location_id, with_sublocations, started_at, sender.person_id)
        added = execute(
            "INSERT INTO stock_take (id, organization_id, location_id, with_sublocations, started_at, started_by) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            values,
        )
        if added.rowcount:
            execute(
                "INSERT INTO stock_take_expected (stock_take_id, asset_id) SELECT ?, asset.id FROM json_each(?) given "
                "JOIN asset ON asset.id = given.value AND asset.organization_id = ? WHERE true ON CONFLICT DO NOTHING",
                (stock_take_id, json.dumps(list(expected[:MOST_EXPECTED])), sender.organization_id),
            )
        return True


def scan(sender: Actor, stock_take_id: str, submitted: Submitted, received_at: int) -> Answer:
    """Keep a scan until the stock-take is signed off; afterwards, or beyond MOST_SCANS, it is recorded at once."""
    with writing():
        if not _takes(sender.organization_id, stock_take_id, submitted):
            return handheld.submit(sender, [submitted], received_at)[0]
        found = lookup.by_code(sender.organization_id, submitted.code)
        if found and found.kind == "location":
            return Answer(submitted.id, Result.LOCATION, found=found)
        was = board.whereabouts(sender.organization_id, found.id) if found else None
        quotas.charge(sender, quotas.ROW_BYTES, is_scan=True)
        execute(
            "INSERT INTO stock_take_scan (id, stock_take_id, location_id, person_id, device_id, code, asset_id, "
            "observed_at, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (
                *(submitted.id, stock_take_id, submitted.location_id, sender.person_id, sender.device_id),
                *(submitted.code, found.id if found else None, submitted.observed_at, received_at),
            ),
        )
        return Answer(submitted.id, Result.COUNTED, found=found, was=was)


def _takes(organization_id: int, stock_take_id: str, submitted: Submitted) -> bool:
    """Whether a scan is kept by the stock-take, because that is open and the scan can be recorded when it is not."""
    open_take = _find_open(organization_id, stock_take_id)
    if open_take is None or handheld.stored(submitted.id) or handheld.why_unusable(organization_id, submitted):
        return False
    is_repeat = execute("SELECT 1 FROM stock_take_scan WHERE id = ?", (submitted.id,)).fetchone() is not None
    return is_repeat or open_take.scanned < MOST_SCANS


def take_back(sender: Actor, scan_id: str) -> None:
    """Delete a scan that the sender made, unless it has been signed off.

    On behalf of somebody else who used the device, only scans made on that device can be undone.
    """
    sql = (
        "DELETE FROM stock_take_scan WHERE id = ? AND person_id = ? AND (? = '' OR device_id = ?) AND stock_take_id IN "
        "(SELECT id FROM stock_take WHERE organization_id = ? AND finished_at IS NULL)"
    )
    with writing():
        execute(sql, (scan_id, sender.person_id, sender.sender_id, sender.device_id, sender.organization_id))


def report(organization_id: int, device: str, name: str, holdings: Sequence[Holding], reported_at: int) -> None:
    """Keep what a device says of all stock-takes that it has open or has scans for; of the others it holds nothing."""
    if not holdings and not execute("SELECT 1 FROM stock_take_device WHERE device = ?", (device,)).fetchone():
        return  # as nearly always
    ids = [holding.stock_take_id for holding in holdings]
    with writing():
        execute(
            "DELETE FROM stock_take_device WHERE device = ? AND stock_take_id NOT IN (SELECT value FROM json_each(?)) "
            "AND stock_take_id IN (SELECT id FROM stock_take WHERE organization_id = ?)",
            (device, json.dumps(ids), organization_id),
        )
        for holding in holdings:
            if _find_open(organization_id, holding.stock_take_id):
                _keep_holding(device, name, holding, reported_at)


def _keep_holding(device: str, name: str, holding: Holding, reported_at: int) -> None:
    others = execute(
        "SELECT count(*) FROM stock_take_device WHERE stock_take_id = ? AND device <> ?",
        (holding.stock_take_id, device),
    ).fetchone()[0]
    if others < MOST_DEVICES:
        execute(
            "INSERT OR REPLACE INTO stock_take_device (stock_take_id, device, name, is_open, unsent, unsent_since, "
            "reported_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (holding.stock_take_id, device, name, *holding[1:], reported_at),
        )


def _forget_devices(stock_take_id: str) -> None:
    execute("DELETE FROM stock_take_device WHERE stock_take_id = ?", (stock_take_id,))


def finish(sender: Actor, stock_take_id: str, received_at: int, signed: Signed | None = None) -> bool:
    """Sign off: keep the result that was signed, and record the scans. False if there is no such stock-take.

    Without `signed`, the result is what is known now.
    """
    found = _find(sender.organization_id, stock_take_id)
    if found is None or found.cancelled_at:
        return False
    with acting(sender) as act:
        if _find_open(sender.organization_id, stock_take_id) is None:
            return True
        _look_up_unknown(sender.organization_id, stock_take_id)
        lines = (
            _lines_now(sender.organization_id, found)
            if signed is None
            else _lines_signed(sender.organization_id, found, signed)
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
            [(stock_take_id, no, *one) for no, one in enumerate(signed.devices if signed else [])],
        )
        _forget_devices(stock_take_id)
        execute(
            "UPDATE stock_take SET finished_at = ?, finished_by = ? WHERE id = ?",
            (received_at, sender.person_id, stock_take_id),
        )
        _record_scans(sender.organization_id, stock_take_id)
        counts = {result: sum(line[0] == result for line in lines) for result in _RESULTS}
        act.note("stock_take.signed_off", Subject("stock_take", stock_take_id, found.location_name), counts)
    return True


def cancel(sender: Actor, stock_take_id: str, received_at: int) -> bool:
    """Record nothing of it. False if there is no such stock-take, or it has been signed off."""
    with acting(sender) as act:
        found = _find_open(sender.organization_id, stock_take_id)
        if found is None:
            return False
        execute("UPDATE stock_take SET cancelled_at = ? WHERE id = ?", (received_at, stock_take_id))
        _forget_devices(stock_take_id)
        act.note("stock_take.cancelled", Subject("stock_take", stock_take_id, found.location_name))
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


def list_stock_takes(organization_id: int, *, only_open: bool = False, limit: int = 100) -> list[StockTake]:
    """Newest first, without those that were cancelled."""
    unfinished = "AND take.finished_at IS NULL" if only_open else ""
    sql = f"{_SELECT} AND take.cancelled_at IS NULL {unfinished} ORDER BY take.started_at DESC LIMIT ?"
    return [_row(row) for row in execute(sql, (organization_id, limit))]


def find_stock_take(organization_id: int, stock_take_id: str) -> StockTake | None:
    return _find(organization_id, stock_take_id)


def progress(organization_id: int, stock_take_id: str) -> Progress | None:
    """The state of an open stock-take: all its scans, by anybody, and what readers have seen since it began."""
    with reading():
        take = _find(organization_id, stock_take_id)
        if take is None:
            return None
        expected = [row[0] for row in execute(_EXPECTED, (stock_take_id,))]
        scans = execute(
            "SELECT scan.id, scan.code, scan.asset_id, scan.observed_at, person.name FROM stock_take_scan scan "
            "JOIN person ON person.id = scan.person_id WHERE scan.stock_take_id = ? ORDER BY scan.observed_at",
            (stock_take_id,),
        ).fetchall()
        found = execute(
            "SELECT position.asset_id, position.location_id, position.last_seen_at "
            "FROM stock_take_expected expected JOIN position ON position.asset_id = expected.asset_id "
            "WHERE expected.stock_take_id = ? AND position.last_seen_at >= ?",
            (stock_take_id, take.started_at),
        ).fetchall()
        scanned = scanned_last([asset_id for asset_id, *_ in found])
        seen = [(*row, row[0] in scanned) for row in found]
        devices = execute(
            "SELECT device, name, is_open, unsent, unsent_since, reported_at FROM stock_take_device "
            "WHERE stock_take_id = ? ORDER BY name, device",
            (stock_take_id,),
        ).fetchall()
    return Progress(take, expected, scans, seen, devices)


def sheet(organization_id: int, stock_take_id: str) -> list[Line]:
    """The lines of a signed-off stock-take, by result and name."""
    sql = (
        "SELECT line.result, line.asset_id, ifnull(asset.external_key, ''), ifnull(asset.name, ''), line.code, "
        "line.how, location.name, line.seen_at, "
        "iif(ifnull(position.last_seen_at, 0) < lost.marked_at, lost.marked_at, NULL) "
        "FROM stock_take_line line JOIN stock_take take ON take.id = line.stock_take_id "
        "LEFT JOIN asset ON asset.id = line.asset_id LEFT JOIN location ON location.id = line.location_id "
        "LEFT JOIN lost_asset lost ON lost.asset_id = line.asset_id AND line.result = 'missing' "
        "LEFT JOIN position ON position.asset_id = line.asset_id "
        "WHERE line.stock_take_id = ? AND take.organization_id = ? ORDER BY line.no"
    )
    return [Line(*row) for row in execute(sql, (stock_take_id, organization_id))]


def devices_at_sign_off(organization_id: int, stock_take_id: str) -> list[OtherDevice]:
    """What was known of other devices when a stock-take was signed off."""
    sql = (
        "SELECT unsent.name, unsent.unsent, unsent.unsent_since, unsent.reported_at FROM stock_take_unsent unsent "
        "JOIN stock_take take ON take.id = unsent.stock_take_id "
        "WHERE unsent.stock_take_id = ? AND take.organization_id = ? ORDER BY unsent.no"
    )
    return [OtherDevice(*row) for row in execute(sql, (stock_take_id, organization_id))]


# The result ---------------------------------------------------------------------------------------------------

_RESULTS = ("missing", "elsewhere", "unknown", "here")
_EXPECTED = "SELECT asset_id FROM stock_take_expected WHERE stock_take_id = ?"

_LineNow = tuple[str, int | None, str, str, int | None, int | None]

_FACTS = """
SELECT asset.id, position.location_id, position.last_seen_at, expected.asset_id IS NOT NULL, scanned.code
FROM asset
LEFT JOIN position ON position.asset_id = asset.id
LEFT JOIN stock_take_expected expected ON expected.asset_id = asset.id AND expected.stock_take_id = :id
LEFT JOIN (SELECT asset_id, min(code) AS code FROM stock_take_scan WHERE stock_take_id = :id GROUP BY asset_id) scanned
    ON scanned.asset_id = asset.id
WHERE asset.organization_id = :organization_id AND asset.deleted_at IS NULL
    AND (expected.asset_id IS NOT NULL OR scanned.asset_id IS NOT NULL)
ORDER BY asset.name, asset.id
"""


def _lines_now(organization_id: int, take: StockTake) -> list[_LineNow]:
    """(result, asset, code, how, location, seen at), before the scans of the stock-take are recorded."""
    scope = _scope(take)
    rows = execute(_FACTS, {"id": take.id, "organization_id": organization_id}).fetchall()
    scanned = scanned_last([row[0] for row in rows])
    lines = [_judge(take, scope, *row, by_person=row[0] in scanned) for row in rows]
    unknown = execute(
        "SELECT DISTINCT code FROM stock_take_scan WHERE stock_take_id = ? AND asset_id IS NULL ORDER BY code",
        (take.id,),
    )
    lines += [("unknown", None, code, "scan", None, None) for (code,) in unknown]
    return sorted(lines, key=lambda line: _RESULTS.index(line[0]))


def _lines_signed(organization_id: int, take: StockTake, signed: Signed) -> list[_LineNow]:
    """What was on the screen of the person who signed, with where each asset was seen last."""
    ids = [asset_id for result in _OF_ASSETS for asset_id, _ in signed.assets.get(result, [])]
    asked = {"id": take.id, "organization_id": organization_id, "assets": json.dumps(ids)}
    facts = {asset_id: row for asset_id, *row in execute(_SIGNED_FACTS, asked)}
    lines: list[_LineNow] = []
    for result in _RESULTS:
        if result == "unknown":
            lines += [("unknown", None, code, "scan", None, None) for code in signed.unknown]
        for asset_id, how in signed.assets.get(result, []):
            if asset_id in facts:
                code, location_id, seen_at = facts[asset_id]
                lines.append((result, asset_id, code or "", how, location_id, seen_at))
    return lines


_OF_ASSETS = ("missing", "elsewhere", "here")
_SIGNED_FACTS = """
SELECT asset.id, (SELECT min(code) FROM stock_take_scan WHERE stock_take_id = :id AND asset_id = asset.id),
       position.location_id, position.last_seen_at
FROM json_each(:assets) given JOIN asset ON asset.id = given.value AND asset.organization_id = :organization_id
LEFT JOIN position ON position.asset_id = asset.id
"""


def _look_up_unknown(organization_id: int, stock_take_id: str) -> None:
    """The codes that belonged to nothing when they were scanned may have been attached to assets since."""
    unknown = execute(
        "SELECT DISTINCT code FROM stock_take_scan WHERE stock_take_id = ? AND asset_id IS NULL", (stock_take_id,)
    )
    for (code,) in unknown.fetchall():
        found = lookup.by_code(organization_id, code)
        if found and found.kind == "asset":
            execute(
                "UPDATE stock_take_scan SET asset_id = ? WHERE stock_take_id = ? AND code = ? AND asset_id IS NULL",
                (found.id, stock_take_id, code),
            )


def _judge(
    take: StockTake,
    scope: set[int],
    asset_id: int,
    location_id: int | None,
    seen_at: int | None,
    is_expected: bool,
    code: str | None,
    *,
    by_person: bool,
) -> _LineNow:
    """What arrived during the count belongs here; what left during the count is elsewhere."""
    seen_meanwhile = seen_at is not None and seen_at >= take.started_at
    is_inside = location_id in scope
    if code is not None:
        result, how = ("here" if is_expected or is_inside else "elsewhere"), "scan"
    elif seen_meanwhile:
        result, how = ("here" if is_inside else "elsewhere"), ("person" if by_person else "reader")
    else:
        result, how = "missing", ""
    return result, asset_id, code or "", how, location_id, seen_at


def _scope(take: StockTake) -> set[int]:
    below = location_tree.visible_descendants(take.location_id, clock.now()) if take.with_sublocations else []
    return {take.location_id, *below}


def _record_scans(organization_id: int, stock_take_id: str) -> None:
    found = execute(
        "SELECT id, code, location_id, observed_at, person_id, device_id, received_at FROM stock_take_scan "
        "WHERE stock_take_id = ? ORDER BY observed_at, id",
        (stock_take_id,),
    ).fetchall()
    for scan_id, code, location_id, observed_at, person_id, device_id, received_at in found:
        whose = actors.person(organization_id, person_id, "", device_id)
        handheld.record_accepted(whose, Submitted(scan_id, code, location_id, observed_at), received_at)


def _find(organization_id: int, stock_take_id: str) -> StockTake | None:
    row = execute(f"{_SELECT} AND take.id = ?", (organization_id, stock_take_id)).fetchone()
    return _row(row) if row else None


def _find_open(organization_id: int, stock_take_id: str) -> StockTake | None:
    take = _find(organization_id, stock_take_id)
    return take if take and take.finished_at is None and take.cancelled_at is None else None


def _row(row: tuple[object, ...]) -> StockTake:
    take = StockTake._make(row)
    return take._replace(with_sublocations=bool(take.with_sublocations))


def _has_location(organization_id: int, location_id: int) -> bool:
    sql = "SELECT 1 FROM location WHERE id = ? AND organization_id = ?"
    return execute(sql, (location_id, organization_id)).fetchone() is not None
