"""Topics of readers: found quickly, whatever they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import pytest

from edge.audit.actors import shell
from edge.database.connection import execute, writing
from edge.formats.reads import Kind, Parsed, Read
from edge.formats.status import parse_status
from edge.ingest import routing
from edge.ingest.routing import Line, Router
from edge.readers import readers
from tests.conftest import Cast


def counted_calls(work: Callable[[], Line | None]) -> tuple[Line | None, int]:
    calls: list[str] = []
    sys.setprofile(lambda _frame, event, _argument: calls.append(event))
    line = work()
    sys.setprofile(None)
    return line, len(calls)


def test_no_topic_costs_a_look_at_every_reader(cast: Cast) -> None:
    """Regression: a reader with a wildcard and a new topic in each message took the time of all others."""
    for number in range(100):
        readers.add_reader(
            shell(cast.acme), name=f"dock {number}", topic=f"site/{number}/+", status_topic=f"on/{number}", format="csl"
        )
    many = readers.add_reader(shell(cast.acme), name="gateways", topic="site/gateways/#", format="csl")
    router = Router()
    router.refresh()
    for topic in ("site/gateways", "site/gateways/7", "site/gateways/" + "x/" * 3_000, "nobody"):
        line, calls = counted_calls(partial(router.find, topic))
        assert (line and line.route.reader_id) == (None if topic == "nobody" else many.id)
        assert calls < 50


def test_the_status_topic_of_a_reader_may_be_among_its_reads(cast: Cast) -> None:
    added = (("one", "one/#", "one/+/state"), ("two", "two/#", "two/state"), ("any", "any", None))
    for name, own, status_topic in added:
        readers.add_reader(shell(cast.acme), name=name, topic=own, status_topic=status_topic, format="csl")
    with writing():  # as where nobody else has topics
        execute("UPDATE reader SET topic = '+/any' WHERE name = 'any'")
    router = Router()
    router.refresh()
    found = {
        topic: router.find(topic) for topic in ("one/1/state", "one/1/reads", "two/state", "two", "x/any", "$x/any")
    }
    parsers = {topic: line.parse is parse_status for topic, line in found.items() if line}
    assert parsers == {"one/1/state": True, "one/1/reads": False, "two/state": True, "two": False, "x/any": False}


def test_the_port_of_an_antenna_name_is_looked_up_once(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    mapping = '{"tag_path": "epc", "antenna_path": "antenna"}'
    readers.add_reader(shell(cast.acme), name="hall", topic="hall", format="mapping", mapping=mapping)
    router = Router()
    router.refresh()
    line = router.find("hall")
    assert line
    asked: list[str] = []
    port_of = routing.port_of
    monkeypatch.setattr(routing, "port_of", lambda reader, name: (asked.append(name), port_of(reader, name))[1])
    for name in ("north", "south", "north", "north"):
        line.numbered(Parsed(Kind.READS, reads=(Read("rfid", "30AA", antenna_name=name),)))
    assert asked == ["north", "south"]
