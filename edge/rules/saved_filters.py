"""Filters of the board that were saved under a name, and their lists by email.

A list is written and queued in one transaction when it is due, so a mail server that is away only delays it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting, changed
from edge.audit.kinds import Kind
from edge.database.connection import are_people_hidden, execute, hide_people, writing
from edge.errors import Conflict, EdgeError, Invalid, Unavailable
from edge.records.loans import LoanFilter
from edge.rules.channels import channels, outbox
from edge.rules.channels.kinds import KINDS
from edge.rules.channels.outbox import Attachment, Message
from edge.texts import N_, fill
from edge.tracking import board, exports, tracked_people
from edge.tracking.board import BoardFilter
from edge.validation import csv_text, json_text

log = logging.getLogger(__name__)

MAX_NAME = 80
MOST_MAILED = 20  # of an organization
MOST_ROWS = 10_000  # of a list by email
MAX_BYTES = 1024 * 1024
LONGEST_WAIT = 8 * clock.DAY  # between two lists, with a change of the local time


class SavedFilter(NamedTuple):
    no: int
    organization_id: int
    name: str
    filter: BoardFilter
    channel_no: int | None
    minute: int  # of the local day
    weekday: int | None  # 0 is Monday, None every day
    next_at: int | None


def _saved(row: Sequence[Any]) -> SavedFilter:
    saved = SavedFilter(*row)
    content: dict[str, Any] = json_text.decode(str(saved.filter))
    if "loan" in content:
        content["loan"] = LoanFilter(content["loan"])
    return saved._replace(filter=BoardFilter(**content))


KIND = Kind(
    "saved_filter",
    "filter",
    f"SELECT {', '.join(SavedFilter._fields)} FROM saved_filter",
    _saved,
    taken=N_("A filter %(name)s already exists; choose another name"),
)
get, list_filters = KIND.get, KIND.list_of


def save(actor: Actor, name: str, filters: BoardFilter) -> int:
    """Save a filter. Raises Invalid, and Conflict if the name is taken or there are too many."""
    name = name.strip()
    if not 1 <= len(name) <= MAX_NAME:
        raise Invalid.one(
            "name", "invalid_value", fill(N_("Enter a name of at most %(most)s characters"), most=MAX_NAME)
        )
    content = json_text.text({field: value for field, value in filters._asdict().items() if value})
    return KIND.add(actor, {"name": name, "filter": content}, filter=content).no


def remove(actor: Actor, no: int) -> None:
    """Remove a saved filter. Raises NotFound."""
    KIND.remove(actor, no)


def send_by_mail(actor: Actor, no: int, channel_no: int | None, minute: int, weekday: int | None, zone: tzinfo) -> None:
    """Send the list by email from now on, every day or once a week; without a channel, no more.

    Raises NotFound, Invalid and Conflict.
    """
    with acting(actor):
        before = get(actor.organization_id, no)
        if channel_no is not None:
            if not KINDS[channels.get(actor.organization_id, channel_no).kind].takes_files:
                raise Invalid.one("channel", "invalid_value", N_("Choose a channel for email"))
            others = [row for row in list_filters(actor.organization_id) if row.channel_no is not None and row.no != no]
            if len(others) >= MOST_MAILED:
                text = N_("At most %(most)s lists can be sent by email; stop one first")
                raise Conflict(fill(text, most=MOST_MAILED))
        next_at = None if channel_no is None else next_time(clock.now(), minute, weekday, zone)
        columns: dict[str, Any] = {"channel_no": channel_no, "minute": minute, "weekday": weekday, "next_at": next_at}
        KIND.change(actor, no, columns, **changed(_schedule(before), _schedule(before._replace(**columns))))


def _schedule(row: SavedFilter) -> dict[str, Any]:
    return {"channel": row.channel_no, "minute": row.minute, "weekday": row.weekday}


def next_time(after: int, minute: int, weekday: int | None, zone: tzinfo) -> int:
    """Return the next moment at which the local clock shows this minute of a day, on this weekday."""
    today = clock.to_datetime(after).astimezone(zone).date()
    for days in range(9):
        day = today + timedelta(days=days)
        moment = clock.to_micros(datetime.combine(day, time(minute // 60, minute % 60), zone))
        if moment > after and weekday in (None, day.weekday()):
            return moment
    raise AssertionError("a week has every weekday")


def enqueue_due(now: int, zone: tzinfo) -> int:
    """Queue the lists that are due. Returns their number. For the service only.

    A list that fails is tried again at its next time, so that it does not keep back the others.
    """
    _reschedule(now, zone)
    waiting = f"{KIND.select} WHERE channel_no IS NOT NULL AND next_at <= ? ORDER BY next_at LIMIT 5"
    due = execute(waiting, (now,)).fetchall()
    for row in due:
        try:
            _enqueue(_saved(row), now, zone)
        except Unavailable:
            raise
        except (EdgeError, ValueError, TypeError, LookupError):
            log.exception("The list of a saved filter failed; trying again at its next time")
            _set_next(SavedFilter(*row), now, zone)
    return len(due)


def _reschedule(now: int, zone: tzinfo) -> None:
    """Schedule lists again that are due later than their next time, because the clock was ahead."""
    sql = f"{KIND.select} WHERE channel_no IS NOT NULL AND next_at > ?"
    for row in execute(sql, (now + LONGEST_WAIT,)).fetchall():
        _set_next(SavedFilter(*row), now, zone)


def _set_next(saved: SavedFilter, now: int, zone: tzinfo) -> None:
    with writing():
        next_at = next_time(now, saved.minute, saved.weekday, zone)
        execute("UPDATE saved_filter SET next_at = ? WHERE no = ?", (next_at, saved.no))


def _enqueue(saved: SavedFilter, now: int, zone: tzinfo) -> None:
    content, number = _table(saved, zone)
    listed = f"{number} asset{'' if number == 1 else 's'}"
    cut = f" The file has the first {MOST_ROWS:,} at most." if number > MOST_ROWS else ""
    text = f"{saved.name}: {listed}.{cut} The list is attached as CSV."
    message = Message(f"{saved.name}: {listed}", text, 0, None, None, now, is_over=False, is_late=False)
    day = clock.to_datetime(now).astimezone(zone).date()
    with writing():
        attachment = Attachment(f"{_file_name(saved.name)}-{day}.csv", content)
        outbox.enqueue(saved.organization_id, saved.channel_no or 0, message, now, attachment)
        _set_next(saved, now, zone)


def _table(saved: SavedFilter, zone: tzinfo) -> tuple[bytes, int]:
    """Return the list as CSV with the number of all rows. Without positions of people, unless the API has them."""
    was_hidden = are_people_hidden()
    hide_people(tracked_people.setting(saved.organization_id).is_hidden_in_api)
    try:
        page = board.board(saved.organization_id, saved.filter, limit=MOST_ROWS)
    finally:
        hide_people(was_hidden)
    cells = (exports.board_cells(row, zone) for row in page.rows)
    return _bounded(csv_text.write_rows(exports.BOARD_HEADING, cells, ",")), page.total_count


def _bounded(chunks: Iterable[str | bytes]) -> bytes:
    """Return whole lines of at most MAX_BYTES."""
    content = b"".join(chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks)
    return content if len(content) <= MAX_BYTES else content[: content.rindex(b"\n", 0, MAX_BYTES) + 1]


def _file_name(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name).strip("-") or "list"
