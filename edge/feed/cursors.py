"""Readers of the open feed and their cursors.

A cursor names the reader, the last change that it has, and a random mark. The mark is stored with each cursor that is
handed out, so a cursor is valid only in the database that issued it or in a later state of it. A restored backup and
files that were copied back do not know later marks, and their readers start again with a copy.
"""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

from edge import clock
from edge.database import change_log
from edge.database.connection import execute, writing
from edge.errors import EdgeError, Invalid
from edge.sync.store import change_feed
from edge.validation.values import MAX_INT64

MOST_OF_KEY = 10
MOST_OF_ORGANIZATION = 50
MARKS = 1_000  # cursors of a reader that stay valid
FORGET_AFTER = 30 * clock.DAY
NOTE_EVERY = clock.HOUR  # at least, for `read_at` of a reader without news


class Gone(EdgeError):
    """The feed no longer has all changes after a cursor: the reader needs a new copy."""


class Place(NamedTuple):
    """Place of a reader in its first copy: the table, and the key of the last row."""

    table: int
    key: tuple[int, int, int]


class Cursor(NamedTuple):
    """`place` is None after the first copy."""

    reader_no: int
    number: int
    mark: str
    place: Place | None = None

    @property
    def text(self) -> str:
        own = f"{self.reader_no}.{self.number}.{self.mark}"
        return own if self.place is None else ".".join(map(str, (own, self.place.table, *self.place.key)))


class Reader(NamedTuple):
    no: int
    organization_id: int
    site_no: int | None
    read_at: int
    number: int


_NUMBER = r"-?[0-9]{1,19}"
_PLACE = rf"\.([0-9])\.({_NUMBER})\.({_NUMBER})\.({_NUMBER})"
_CURSOR = re.compile(rf"([0-9]{{1,18}})\.([0-9]{{1,18}})\.([0-9a-f]{{16}})(?:{_PLACE})?")


def parse(text: str) -> Cursor:
    """Return the cursor of its text. Raises Invalid."""
    match = _CURSOR.fullmatch(text)
    if match is None or any(abs(int(key)) > MAX_INT64 for key in match.groups()[4:] if key):
        raise Invalid.one("cursor", "invalid_value", "The cursor is not one of this feed; omit it to start with a copy")
    reader_no, number, mark, table, *key = match.groups()
    if table is None:
        return Cursor(int(reader_no), int(number), mark)
    first, second, third = map(int, key)
    return Cursor(int(reader_no), int(number), mark, Place(int(table), (first, second, third)))


def begin(organization_id: int, api_key_id: str, site_no: int | None) -> tuple[Reader, Cursor]:
    """Register a reader that starts with a copy, and open the feed if it is the first one.

    The readers of the key that have been silent longest make room for it, or those of the organization.
    """
    now = clock.now()
    with writing():
        change_feed.open_for_readers()
        number = change_log.newest()
        row = execute(
            "INSERT INTO feed_reader (organization_id, api_key_id, site_no, created_at, read_at, number) "
            "VALUES (?, ?, ?, ?, ?, ?) RETURNING no",
            (organization_id, api_key_id, site_no, now, now, number),
        ).fetchone()
        reader = Reader(row[0], organization_id, site_no, now, number)
        execute(f"{_FORGET} WHERE api_key_id = ? {_MORE_THAN}", (api_key_id, MOST_OF_KEY))
        execute(f"{_FORGET} WHERE organization_id = ? {_MORE_THAN}", (organization_id, MOST_OF_ORGANIZATION))
        cursor = _marked(reader, number, now)
    return reader, cursor


_FORGET = "DELETE FROM feed_reader WHERE no IN (SELECT no FROM feed_reader"
_MORE_THAN = "ORDER BY read_at DESC, no DESC LIMIT -1 OFFSET ?)"


def resume(organization_id: int, cursor: Cursor) -> Reader:
    """Return the reader of a cursor. Raises Gone."""
    row = execute(
        "SELECT no, organization_id, site_no, read_at, r.number FROM feed_reader r "
        "JOIN feed_mark m ON m.reader_no = no "
        "WHERE no = ? AND organization_id = ? AND m.number = ? AND mark = ?",
        (cursor.reader_no, organization_id, cursor.number, cursor.mark),
    ).fetchone()
    if row is None:
        raise Gone(_UNKNOWN)
    if cursor.number < change_log.oldest_kept() - 1:
        raise Gone("The changes after this cursor are no longer kept")
    return Reader._make(row)


_UNKNOWN = (
    "This cursor is unknown: it is too old, the database was replaced, or newer readers have taken its place: "
    f"an API key can have {MOST_OF_KEY} readers, an organization {MOST_OF_ORGANIZATION}. "
    "Each request without a cursor makes one"
)


def advance(reader: Reader, cursor: Cursor, number: int) -> Cursor:
    """Return the cursor at a later change. Writes only if there is news, or from time to time."""
    now = clock.now()
    if number == cursor.number:
        if not 0 <= now - reader.read_at < NOTE_EVERY:
            with writing():
                execute("UPDATE feed_reader SET read_at = ? WHERE no = ?", (now, reader.no))
        return cursor._replace(place=None)
    with writing():
        return _marked(reader, number, now)


def _marked(reader: Reader, number: int, now: int) -> Cursor:
    """Return a cursor with its mark, which is stored. A reader that was forgotten meanwhile gets 410 next time."""
    execute("UPDATE feed_reader SET read_at = ?, number = ? WHERE no = ?", (now, number, reader.no))
    execute(
        "INSERT OR IGNORE INTO feed_mark (reader_no, number, mark) SELECT no, ?, ? FROM feed_reader WHERE no = ?",
        (number, secrets.token_hex(8), reader.no),
    )
    execute(
        "DELETE FROM feed_mark WHERE reader_no = ?1 AND number <= (SELECT number FROM feed_mark WHERE reader_no = ?1 "
        "ORDER BY number DESC LIMIT 1 OFFSET ?2)",
        (reader.no, MARKS),
    )
    row = execute("SELECT mark FROM feed_mark WHERE reader_no = ? AND number = ?", (reader.no, number)).fetchone()
    return Cursor(reader.no, number, row[0] if row else secrets.token_hex(8))


def forget_silent(now: int) -> None:
    """Forget the readers that have been silent for 30 days, and close the feed after the last one."""
    if not change_feed.is_open():
        return
    if execute("SELECT 1 FROM feed_reader WHERE read_at >= ?", (now - FORGET_AFTER,)).fetchone() is None:
        with writing():
            execute("DELETE FROM feed_reader")
            change_feed.close_for_readers()
        return
    with writing():
        execute("DELETE FROM feed_reader WHERE read_at < ?", (now - FORGET_AFTER,))
