"""Assign topics to readers and their parsers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from paho.mqtt.matcher import MQTTMatcher

from edge.database.connection import scalar
from edge.formats.reads import UNREADABLE_ANTENNA, Malformed, Parsed, Parser, Read
from edge.formats.registry import WITH_NAMES, parser_of
from edge.formats.status import parse_status
from edge.ingest.reader_clock import LONGEST_TOPIC, Source
from edge.readers.readers import Route, routes
from edge.tracking.antenna_names import port_of, ports_by_name
from edge.validation.topics import has_wildcard

_tree: Callable[[], Any] = MQTTMatcher  # of topic filters; it has no types


class Line(Struct, frozen=True):
    """Topic filter of a reader, with the parser of its format."""

    route: Route
    parse: Parser
    ports: dict[str, int]  # antenna name -> port
    clock: Source | None  # None: with a wildcard, each device has its own clock

    def numbered(self, parsed: Parsed) -> Parsed:
        """Return `parsed` with a port for each named antenna. Stores ports of new names in the caller's transaction."""
        if self.route.format not in WITH_NAMES or all(read.antenna_name is None for read in parsed.reads):
            return parsed
        return replace(parsed, reads=tuple(self._numbered(read) for read in parsed.reads))

    def _numbered(self, read: Read) -> Read:
        name = read.antenna_name
        if name is None or read.antenna == UNREADABLE_ANTENNA:
            return read
        port = self.ports.get(name) or port_of(self.route.reader_id, name)
        if port:
            self.ports[name] = port
        return replace(read, antenna=port)

    def clock_of(self, topic: str) -> Source:
        """Return the clock that produced the times of messages on this topic."""
        own = topic if len(topic) <= LONGEST_TOPIC else ""
        return self.clock or Source(self.route.reader_id, own, self.route.organization_id)


class Router:
    """Cache of the readers in the database. `refresh` loads changes by any process."""

    def __init__(self) -> None:
        self._version = -1
        self._plain: dict[str, Line] = {}
        self._with_wildcard = _tree()  # each line with its rank
        self.organizations = 0  # number of organizations with readers

    def refresh(self) -> None:
        version = scalar("SELECT readers FROM version")  # changed by any process
        if version != self._version:
            ports = ports_by_name()
            all_routes = list(routes())
            lines = [line for route in all_routes for line in _lines(route, ports.get(route.reader_id, {}))]
            self.organizations = len({route.organization_id for route in all_routes})
            self._plain = {line.route.topic: line for line in lines if not has_wildcard(line.route.topic)}
            self._with_wildcard = _tree()
            for rank, line in enumerate(lines):
                if has_wildcard(line.route.topic):
                    self._with_wildcard[line.route.topic] = (rank, line)
            self._version = version

    def forget(self) -> None:
        """Reload everything at the next `refresh`. Call after a rollback, which may discard new antenna names."""
        self._version = -1

    def find(self, topic: str) -> Line | None:
        """Return the reader with a matching filter. Only those of one reader overlap: the first one counts.

        A reader with a wildcard may publish on any number of topics, of any length, so none is remembered.
        """
        line = self._plain.get(topic)
        if line is None:
            _, line = min(self._with_wildcard.iter_match(topic), key=itemgetter(0), default=(0, None))
        return line


def _lines(route: Route, ports: dict[str, int]) -> Iterator[Line]:
    """Yield the status topic first, because the filter of the reads may include it."""
    if route.status_topic:
        yield _line(replace(route, topic=route.status_topic), parse_status, ports)
    yield _line(route, _parser_or_refusal(route), ports)


def _line(route: Route, parse: Parser, ports: dict[str, int]) -> Line:
    return Line(route, parse, ports, None if has_wildcard(route.topic) else _clock_of(route))


def _clock_of(route: Route) -> Source:
    return Source(route.reader_id, organization_id=route.organization_id)


def _parser_or_refusal(route: Route) -> Parser:
    """Return the parser of a reader. For a format unknown to this version, it turns all messages into dead letters."""
    try:
        return parser_of(route.format, route.mapping)
    except (KeyError, ValueError) as error:
        reason = f"the format {route.format} of this reader cannot be used ({error}); choose another one"

    def refuse(_topic: str, _payload: bytes) -> Parsed:
        raise Malformed(reason)

    return refuse
