"""Reads of sleds become scans of their operator.

An asset is scanned once a minute at each choice of a location: by the first read. So the result depends on the times of
the reads, the choices and the assignments, and not on the order of their arrival. Reads are kept for a day, so that a
choice that arrives late moves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute, insert, reading
from edge.readers import kept_messages, readers, sleds
from edge.readers.ledger import Bucket
from edge.readers.sled_owners import Owner, owner_at, owners_of
from edge.readers.sleds import MINUTE, Choice
from edge.tracking import carriers, late_reads, positions
from edge.tracking.deletion import SLED_READS_KEPT
from edge.tracking.stays import Quality, Scan

MOST_READS = 100_000  # kept of a sled
COUNT_EVERY = 1_000
SLICE = 100  # reads compared in one transaction, about 50 ms
NEAR_FOR = 10 * clock.SECOND  # a read is shown as signal strength for so long
MOST_UNDONE = 2_000

_uncounted: dict[int, int] = {}  # reads added since the last count, by reader


class SledRead(NamedTuple):
    """A read of an asset by a sled. `code`: the tag. Times are microseconds since the epoch, UTC."""

    organization_id: int
    reader_id: int
    asset_id: int
    code: str
    observed_at: int
    received_at: int
    rssi: float | None


def record(read: SledRead, owner: Owner, gap: int, *, is_again: bool = False) -> Bucket:
    """Record a read in the caller's transaction, and return its bucket. `gap` as in `positions.record`.

    `is_again`: the message was kept and is replayed.
    """
    if read.observed_at > read.received_at - SLED_READS_KEPT and not _keep(read) and not is_again:
        return Bucket.REPEAT
    choice = sleds.choice_at(owner, read.observed_at)
    if choice is None or choice.location_id is None or not choice.is_live:
        return Bucket.NO_LOCATION
    is_counted = _count(read, choice, choice.location_id, gap)
    return Bucket.RECORDED if is_counted or (is_again and _stored(read)) else Bucket.REPEAT


def _keep(read: SledRead) -> bool:
    """Store a read. Returns False if it is known."""
    if not execute(
        "INSERT OR IGNORE INTO sled_read (reader_id, observed_at, asset_id, received_at, rssi, code) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (read.reader_id, read.observed_at, read.asset_id, read.received_at, read.rssi, read.code),
    ).rowcount:
        return False
    number = _uncounted.get(read.reader_id, COUNT_EVERY) + 1
    if number > COUNT_EVERY:
        number = 0
        execute(_DROP_OVER, (read.reader_id, MOST_READS))
    _uncounted[read.reader_id] = number
    return True


_DROP_OVER = """
DELETE FROM sled_read WHERE reader_id = ?1 AND observed_at < (
    SELECT observed_at FROM sled_read WHERE reader_id = ?1 ORDER BY observed_at DESC LIMIT 1 OFFSET ?2)
"""


def _count(read: SledRead, choice: Choice, location_id: int, gap: int) -> bool:
    """Record a scan for the read if it is the first one of its minute and choice."""
    minute = read.observed_at - read.observed_at % MINUTE
    begin, end = max(minute, choice.chosen_at), min(minute + MINUTE, choice.until)
    counted = execute(
        "SELECT id, observed_at, seq, undone_at FROM handheld_scan WHERE asset_id = ? AND observed_at >= ? "
        "AND observed_at < ? AND id GLOB ?",
        (read.asset_id, begin, end, f"sled:{read.reader_id}:*"),
    ).fetchall()
    if any(observed_at <= read.observed_at or undone_at for _, observed_at, _, undone_at in counted):
        return False
    for scan_id, observed_at, seq, _ in counted:
        _take_back(scan_id, read.asset_id, observed_at, seq, gap)
    scan = Scan(
        read.organization_id,
        read.asset_id,
        location_id,
        None,
        None,
        read.observed_at,
        read.received_at,
        Quality.HANDHELD,
    )
    seq = positions.record_by_person(scan)
    carriers.follow([scan], gap=0)
    columns = {
        "id": scan_id_of(read.reader_id, read.asset_id, read.observed_at),
        "organization_id": read.organization_id,
        "person_id": choice.person_id,
        "sent_by": choice.person_id,
        "device_id": choice.device_id,
        "location_id": location_id,
        "asset_id": read.asset_id,
        "code": read.code,
        "outcome": "recorded",
        "observed_at": read.observed_at,
        "received_at": read.received_at,
        "seq": seq,
    }
    insert("handheld_scan", columns)
    return True


def scan_id_of(reader_id: int, asset_id: int, observed_at: int) -> str:
    """Return the id of the scan of a read. No handheld can send one with a colon."""
    return f"sled:{reader_id}:{asset_id}:{observed_at}"


def _stored(read: SledRead) -> bool:
    scan_id = scan_id_of(read.reader_id, read.asset_id, read.observed_at)
    return execute("SELECT 1 FROM handheld_scan WHERE id = ?", (scan_id,)).fetchone() is not None


def _take_back(scan_id: str, asset_id: int, observed_at: int, seq: int, gap: int) -> None:
    """Remove a scan with its effects, as if it had not been made."""
    _undo_effects(asset_id, observed_at, seq, gap)
    execute("DELETE FROM handheld_scan WHERE id = ?", (scan_id,))


def _undo_effects(asset_id: int, observed_at: int, seq: int, gap: int) -> None:
    late_reads.take_back(asset_id, observed_at, seq, gap)
    positions.reconsider(asset_id, observed_at, is_undone=True)
    carriers.take_back(asset_id, observed_at, gap)


def is_recount_due() -> bool:
    """Return True if a choice arrived after reads that it concerns."""
    return execute("SELECT 1 FROM sled_recount LIMIT 1").fetchone() is not None


def recount_some(gap: int) -> None:
    """Compare some reads with the choices again, in the caller's transaction."""
    reader_id, since, after_asset, until = execute(
        "SELECT reader_id, since, after_asset, until FROM sled_recount LIMIT 1"
    ).fetchone()
    rows = execute(_TO_RECOUNT, (reader_id, since, after_asset, until, SLICE)).fetchall()
    owners = owners_of(reader_id)
    if [
        read for read in map(SledRead._make, rows) if _recount(read, owners, gap)
    ]:  # their messages wait for a location
        kept_messages.request_for_reader(rows[0][0], reader_id)
    if len(rows) < SLICE:
        execute("DELETE FROM sled_recount WHERE reader_id = ?", (reader_id,))
    else:
        last = SledRead(*rows[-1])
        execute(
            "UPDATE sled_recount SET since = ?, after_asset = ? WHERE reader_id = ?",
            (last.observed_at, last.asset_id, reader_id),
        )


_TO_RECOUNT = """
SELECT a.organization_id, r.reader_id, r.asset_id, r.code, r.observed_at, r.received_at, r.rssi
FROM sled_read r JOIN asset a ON a.id = r.asset_id
WHERE r.reader_id = ?1 AND (r.observed_at, r.asset_id) > (?2, ?3) AND r.observed_at < ?4
ORDER BY r.observed_at, r.asset_id LIMIT ?5
"""


def _recount(read: SledRead, owners: Sequence[Owner], gap: int) -> bool:
    """Compare one read with the choices. Returns True if that changed anything."""
    owner = owner_at(owners, read.observed_at)
    if owner is None:
        return False
    choice = sleds.choice_at(owner, read.observed_at)
    scan_id = scan_id_of(read.reader_id, read.asset_id, read.observed_at)
    row = execute(
        "SELECT person_id, location_id, seq, undone_at FROM handheld_scan WHERE id = ?", (scan_id,)
    ).fetchone()
    right = (choice.person_id, choice.location_id) if choice else (None, None)
    is_wrong = row is not None and row[:2] != right
    if is_wrong and row[3] is None:
        _take_back(scan_id, read.asset_id, read.observed_at, row[2], gap)
    is_live = execute("SELECT 1 FROM asset WHERE id = ? AND deleted_at IS NULL", (read.asset_id,)).fetchone()
    if choice is None or choice.location_id is None or not (choice.is_live and is_live) or (row and row[3]):
        return is_wrong
    return _count(read, choice, choice.location_id, gap) or is_wrong


def undo(actor: Actor, reader_id: int, since: int, gap: int) -> int:
    """Undo the scans of a sled since a time, at most `MOST_UNDONE`, newest first. Returns their number.

    Reaches back as far as reads are kept. Raises NotFound. `gap` as in `positions.record`.
    """
    with reading():
        reader = readers.get_reader(actor.organization_id, reader_id)
        scans = execute(_TO_UNDO, (reader_id, since, MOST_UNDONE)).fetchall()
    for first in range(0, len(scans), SLICE):
        with acting(actor) as act:
            part = scans[first : first + SLICE]
            undone = [scan_id for scan_id, *rest in part if _undo_one(scan_id, *rest, gap=gap)]
            if undone:
                details = {"scans": len(undone), "since": clock.rfc3339(since)}
                act.note("sled.undone", readers.subject_of(reader), details)
    return len(scans)


def _undo_one(scan_id: str, asset_id: int, observed_at: int, seq: int, *, gap: int) -> bool:
    undone = "UPDATE handheld_scan SET undone_at = ? WHERE id = ? AND undone_at IS NULL"
    if not execute(undone, (clock.now(), scan_id)).rowcount:
        return False
    _undo_effects(asset_id, observed_at, seq, gap)
    return True


_TO_UNDO = """
SELECT s.id, s.asset_id, s.observed_at, s.seq FROM sled_read r
JOIN handheld_scan s ON s.id = 'sled:' || r.reader_id || ':' || r.asset_id || ':' || r.observed_at
WHERE r.reader_id = ? AND r.observed_at >= ? AND s.undone_at IS NULL ORDER BY r.observed_at DESC LIMIT ?
"""


class Nearness(NamedTuple):
    """The newest read of an asset: its strength in dBm (None if the sled does not report it), and its time."""

    rssi: float | None
    observed_at: int


def nearness(reader_ids: Sequence[int], asset_id: int) -> Nearness | None:
    """Return the newest read of an asset by one of these sleds in the last seconds, or None."""
    now = clock.now()
    reads = [
        row
        for reader_id in reader_ids
        for row in execute(
            "SELECT rssi, observed_at FROM sled_read WHERE reader_id = ? AND observed_at > ? AND asset_id = ? "
            "AND received_at > ? ORDER BY observed_at DESC LIMIT 1",
            (reader_id, now - 6 * NEAR_FOR, asset_id, now - NEAR_FOR),
        )
    ]
    return max((Nearness(*row) for row in reads), key=lambda one: one.observed_at, default=None)
