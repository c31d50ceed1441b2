"""Topics of readers: found quickly, and remembered within limits."""

from __future__ import annotations

import pytest

from edge.audit.actors import shell
from edge.formats.reads import Kind, Parsed, Read
from edge.ingest import routing
from edge.ingest.routing import Router
from edge.readers import readers
from tests.conftest import Cast


def test_the_number_of_remembered_topics_is_limited(cast: Cast) -> None:
    """A reader with a wildcard may publish on any number of topics, of any length."""
    fixed = readers.add_reader(shell(cast.acme), name="dock", topic="dock", format="csl")
    many = readers.add_reader(shell(cast.acme), name="gateways", topic="gateways/#", format="csl")
    router = Router()
    router.refresh()
    for number in range(10_050):
        line = router.find(f"gateways/{number}")
        assert line
        assert line.route.reader_id == many.id
    assert len(router._known) <= 10_000
    known = len(router._known)
    assert router.find("gateways/" + "x" * 300)
    assert len(router._known) == known
    line = router.find("dock")
    assert line
    assert line.route.reader_id == fixed.id


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


def test_a_topic_is_matched_once(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a reader with a wildcard and those without a reader; only very long ones are matched again."""
    readers.add_reader(shell(cast.acme), name="gateways", topic="gateways/#", format="csl")
    router = Router()
    router.refresh()
    matched: list[str] = []
    matches = routing.matches
    monkeypatch.setattr(routing, "matches", lambda one, topic: (matched.append(topic), matches(one, topic))[1])
    topics = ("gateways/1", "nobody", "n" * 200, "n" * 201)
    for topic in (*topics, *topics):
        router.find(topic)
    assert matched == [*topics, "n" * 201]
