"""Records scans that were accepted earlier: those of a signed-off stock-take, and those that waited for a tag.

There can be tens of thousands. The transaction that releases them records some, and a thread of the service the rest
in short transactions, so that other writers wait only briefly. After a crash the rest is found again: a stock-take
notes that it has one, and waiting scans are stored until they are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from edge.audit import actors
from edge.database.connection import column, execute, transaction_seconds
from edge.database.sliced_writing import write_in_slices
from edge.errors import EdgeError
from edge.handhelds import scans
from edge.handhelds.scans import StoredScan, Submitted
from edge.readers import unknown_tags
from edge.records import lookup, tags
from edge.records.tags import NewTag

MOST_SECONDS = 0.25  # of processor time in the transaction that releases scans
PAGE = 200  # waiting scans that are read at once
PAUSE_SECONDS = 0.01
MOST_KEYS = 500  # of unknown codes, that are looked up at once
MOST_CODES = 200  # of one key


class Released(NamedTuple):
    """Scans to record: those of a stock-take, or those with the key of an unknown code (`scans.waits_for`)."""

    organization_id: int
    stock_take_id: str = ""
    waits_for: str = ""


_rest: set[Released] = set()
_walked = (0, "")  # organization and key of the last unknown code that `find_rest` has looked up


def record_of_stock_take(organization_id: int, stock_take_id: str) -> None:
    """Record the scans of a stock-take. Call in the transaction of the sign-off."""
    _record_some(Released(organization_id, stock_take_id=stock_take_id))


def record_waiting_scans(organization_id: int, attached: Sequence[NewTag]) -> None:
    """Record the scans that waited for newly attached tags, and remove the tags from the list of unknown tags.

    Call in the transaction that attaches the tags.
    """
    known = {
        (tag_type, key)
        for tag in attached
        for key in {tags.match_key(tag.tag_type, tag.value), tags.match_key("barcode", tag.value)}
        for tag_type in {tag.tag_type, "barcode"}
    }
    unknown_tags.drop(organization_id, known)
    if execute(_HAS_WAITING, (organization_id,)).fetchone():
        for tag in attached:
            _record_some(Released(organization_id, waits_for=scans.waits_for(tag.value)))


_HAS_WAITING = "SELECT 1 FROM handheld_scan WHERE organization_id = ? AND waits_for IS NOT NULL LIMIT 1"


def has_rest() -> bool:
    return bool(_rest)


def record_rest(wait: Callable[[float], bool]) -> None:
    """Record the rest in short transactions, until there is none or `wait` returns True. Raises Unavailable."""
    while _rest and not wait(PAUSE_SECONDS):
        released = _rest.pop()  # one that fails unexpectedly does not stop the others
        try:
            write_in_slices(_until(_steps(released), wait))
        except EdgeError:
            _rest.add(released)
            raise


def find_rest() -> None:
    """Find scans that a crash or a command of the shell has left. Looks up some unknown codes with each call."""
    global _walked
    rows = execute("SELECT organization_id, id FROM stock_take WHERE is_recording = 1")
    _rest.update(Released(organization_id, stock_take_id=take) for organization_id, take in rows)
    keys = execute(_KEYS, (*_walked, MOST_KEYS)).fetchall()
    for organization_id, key in keys:
        codes = set(column(_CODES, (organization_id, key, MOST_CODES)))
        if any(lookup.by_code(organization_id, code) for code in codes):
            _rest.add(Released(organization_id, waits_for=key))
    _walked = keys[-1] if len(keys) == MOST_KEYS else (0, "")


_KEYS = """
SELECT DISTINCT organization_id, waits_for FROM handheld_scan
WHERE waits_for IS NOT NULL AND (organization_id, waits_for) > (?, ?) ORDER BY 1, 2 LIMIT ?
"""
_CODES = "SELECT code FROM handheld_scan WHERE organization_id = ? AND waits_for = ? AND undone_at IS NULL LIMIT ?"


def _record_some(released: Released) -> None:
    """Record scans while the transaction is short, and leave the rest to `record_rest`."""
    for _ in _steps(released):
        if transaction_seconds() > MOST_SECONDS:
            _note_recording(released.stock_take_id, True)
            _rest.add(released)
            return


def _note_recording(stock_take_id: str, is_recording: bool) -> None:
    execute("UPDATE stock_take SET is_recording = ? WHERE id = ?", (is_recording, stock_take_id))


def _until(steps: Iterator[None], wait: Callable[[float], bool]) -> Iterator[None]:
    for _ in steps:
        yield
        if wait(0):
            return


def _steps(released: Released) -> Iterator[None]:
    """Record one scan with each step."""
    if released.stock_take_id:
        return _of_stock_take(released.organization_id, released.stock_take_id)
    return _of_key(released.organization_id, released.waits_for)


def _of_stock_take(organization_id: int, stock_take_id: str) -> Iterator[None]:
    rows = execute(_UNRECORDED, (stock_take_id, organization_id)).fetchall()
    for scan_id, code, location_id, observed_at, person_id, device_id, received_at in rows:
        actor = actors.person(organization_id, person_id, "", device_id)
        scans.record_accepted(actor, Submitted(scan_id, code, location_id, observed_at), received_at)
        yield
    _note_recording(stock_take_id, False)


_UNRECORDED = """
SELECT s.id, s.code, s.location_id, s.observed_at, s.person_id, s.device_id, s.received_at
FROM stock_take_scan s JOIN stock_take t ON t.id = s.stock_take_id
WHERE s.stock_take_id = ? AND t.organization_id = ? AND t.finished_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM handheld_scan h WHERE h.id = s.id)
ORDER BY s.observed_at, s.id
"""


def _of_key(organization_id: int, key: str) -> Iterator[None]:
    """Record the scans with a key whose code is known now. Pages are by id, which needs no sorting of all."""
    after = ""
    while page := execute(_WAITING, (organization_id, key, after, PAGE)).fetchall():
        after = page[-1][0]
        for scan_id, _ in sorted(page, key=lambda row: row[1]):
            row = scans.stored(scan_id)  # somebody may have undone it between two transactions
            if row is not None and row.waits_for == key and row.undone_at is None:
                _record_waiting(row)
            yield


_WAITING = """
SELECT id, observed_at FROM handheld_scan
WHERE organization_id = ? AND waits_for = ? AND id > ? AND undone_at IS NULL ORDER BY id LIMIT ?
"""


def _record_waiting(row: StoredScan) -> None:
    if lookup.by_code(row.organization_id, row.code) is not None:
        execute("DELETE FROM handheld_scan WHERE id = ?", (row.id,))
        actor = actors.person(row.organization_id, row.person_id, "", row.device_id)
        scan = Submitted(row.id, row.code, row.location_id or 0, row.observed_at, sent_by=row.sent_by)
        scans.record_accepted(actor, scan, row.received_at)
