"""Subject and text that a channel sends: one message, or a digest of many.

Names of assets and texts of readers may be hostile. Control characters, line breaks in subjects and characters that
change the direction of text are removed here; each sender escapes what its own format needs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from datetime import tzinfo
from typing import NamedTuple

from edge import clock
from edge.events.progress import TEST
from edge.rules.channels.outbox import Attachment, Message

MOST_IN_DIGEST = 200
MAX_SUBJECT = 200
PARTLY = "accepted, except for "  # begins the detail of a mail that some recipients did not get
_REMOVED = ("Cc", "Cf", "Cs", "Zl", "Zp")


class Entry(NamedTuple):
    """A message to send. `is_late`: it was due long ago."""

    message: Message
    is_late: bool


class Outgoing(NamedTuple):
    """Content that a channel sends in one piece. `id` is the same in all attempts for the same messages."""

    id: str
    subject: str
    text: str
    entries: Sequence[Entry] = ()
    attachment: Attachment | None = None

    @property
    def kind(self) -> str:
        return "message" if self.entries else TEST


def outgoing(outgoing_id: str, entries: Sequence[Entry], zone: tzinfo) -> Outgoing:
    """Return one message as it is, or a digest of several."""
    if len(entries) == 1:
        return _single(outgoing_id, entries[0], zone)
    return _digest(outgoing_id, entries, zone)


def test_message(outgoing_id: str, channel_name: str) -> Outgoing:
    text = f"This is a test of the channel {one_line(channel_name)}. If you can read this, it works."
    return Outgoing(outgoing_id, f"Test: {one_line(channel_name)}"[:MAX_SUBJECT], text)


def one_line(text: str) -> str:
    """Return a text without line breaks, control characters and invisible characters, with single spaces."""
    return " ".join("".join(" " if unicodedata.category(one) in _REMOVED else one for one in text).split())


def clean(text: str) -> str:
    """Return a text of several lines, each without control characters and invisible characters."""
    return "\n".join(one_line(line) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")).strip()


def shortened(text: str, size: int) -> str:
    """Return the lines that fit into `size` bytes, and how many are left out."""
    if len(text.encode()) <= size:
        return text
    lines = text.split("\n")
    kept: list[str] = []
    room = size - 40
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    if not kept:
        return text.encode()[:size].decode("utf-8", "ignore")
    return "\n".join([*kept, f"and {len(lines) - len(kept)} more lines"])


def _single(outgoing_id: str, entry: Entry, zone: tzinfo) -> Outgoing:
    message = entry.message
    lines = [clean(message.text), "", f"Time: {_local(message.occurred_at, zone)}"]
    if entry.is_late:
        lines.append("This message is late: it could not be sent earlier.")
    elif message.is_late:
        lines.append("This message is late: its reads arrived late.")
    return Outgoing(outgoing_id, _subject(entry)[:MAX_SUBJECT], "\n".join(lines), [entry])


def _digest(outgoing_id: str, entries: Sequence[Entry], zone: tzinfo) -> Outgoing:
    late = " (late)" if any(entry.is_late for entry in entries) else ""
    lines = [f"{_local(one.message.occurred_at, zone)}  {_subject(one)}" for one in entries]
    subject = f"{len(entries)} messages{late}: {one_line(entries[0].message.subject)}"
    return Outgoing(outgoing_id, subject[:MAX_SUBJECT], "\n".join(lines), list(entries))


def _subject(entry: Entry) -> str:
    over = "Over: " if entry.message.is_over else ""
    late = " (late)" if entry.is_late or entry.message.is_late else ""
    return f"{over}{one_line(entry.message.subject)}{late}"


def _local(moment: int, zone: tzinfo) -> str:
    return f"{clock.to_datetime(moment).astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"
