"""News of readers from the messages of one batch: state, antennas, clocks, mapped fields, ignored messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from edge.formats.reads import Kind, Parsed
from edge.ingest.messages import Opened
from edge.ingest.routing import Line
from edge.ingest.timing import Timekeeper
from edge.readers import ignored_messages, mapped_fields, status
from edge.readers.ignored_messages import IgnoredMessage
from edge.readers.status import ReaderStatus
from edge.validation.field_counts import FieldCount, add_counts

NO_PORT = 0  # port number for a reader without antennas
MAX_NOTE = 500


class ReaderNews:
    """News of readers by their IDs. Any recognized message counts, because a dock at night reads no tags."""

    def __init__(self, timekeeper: Timekeeper) -> None:
        self._timekeeper = timekeeper
        self._newest: dict[int, tuple[Opened, Line]] = {}
        self._notes: dict[int, str] = {}
        self._read_at: dict[int, int] = {}
        self._antennas: dict[tuple[int, int], int] = {}
        self._offsets: dict[int, int | None] = {}  # clock offsets, of readers with held messages
        self._ignored: dict[int, deque[IgnoredMessage]] = {}
        self._fields: dict[int, dict[str, FieldCount]] = {}  # results of the optional mapping paths

    def note(self, opened: Opened, line: Line, parsed: Parsed) -> None:
        """Note that the reader is online."""
        reader_id, message = line.route.reader_id, opened.message
        if parsed.kind is Kind.IGNORED:
            payload = message.payload[: ignored_messages.KEPT_BYTES]
            kept = self._ignored.setdefault(reader_id, deque(maxlen=ignored_messages.KEPT))
            kept.append(
                IgnoredMessage(reader_id, message.topic, payload, len(message.payload), parsed.note, opened.received_at)
            )
            return
        if parsed.fields:
            add_counts(self._fields.setdefault(reader_id, {}), parsed.fields)
        self._newest[reader_id] = opened, line
        if parsed.note:
            printable = filter(str.isprintable, parsed.note)  # control characters could affect a terminal
            self._notes[reader_id] = "".join(printable)[:MAX_NOTE]
        for read in parsed.reads:
            self._antennas[reader_id, read.antenna or NO_PORT] = opened.received_at
        if parsed.reads:
            self._read_at[reader_id] = opened.received_at

    def note_offset(self, opened: Opened, line: Line) -> None:
        """Note the offset of a clock that was decided after the message was received."""
        self._offsets[line.route.reader_id] = self._timekeeper.clock_of(line.clock_of(opened.message.topic)).offset

    def write(self) -> None:
        """Store everything, in the caller's transaction."""
        status.record_readers(self._states())
        if self._offsets:
            status.record_offsets(self._offsets)
        if self._antennas:
            status.record_antennas(self._antennas)
        if self._fields:
            mapped_fields.record(self._fields)
        if self._ignored:
            ignored_messages.record([message for kept in self._ignored.values() for message in kept])

    def _states(self) -> Iterator[ReaderStatus]:
        for reader_id, (opened, line) in self._newest.items():
            clock = self._timekeeper.clock_of(line.clock_of(opened.message.topic))
            yield ReaderStatus(
                reader_id,
                opened.received_at,
                self._read_at.get(reader_id),
                clock.offset,
                opened.message.qos,
                self._notes.get(reader_id),
                opened.parsed is not None and opened.parsed.kind is Kind.OFFLINE,
                clock.stands_at,
            )
