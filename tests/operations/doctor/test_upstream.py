"""Doctor: the service that gets copies of records."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge import clock
from edge.audit.actors import Actor, shell
from edge.database.connection import execute
from edge.operations.doctor.findings import Level, Subject
from edge.outbound import Network
from edge.people.organizations import list_organizations
from edge.readers import readers
from edge.upstream import bridges, upstreams
from edge.upstream.upstreams import NewUpstream
from tests.operations.doctor.test_doctor import finding_of, subject

__all__ = ["subject"]

URL = "https://assets.example"


@pytest.fixture
def actor(site: Path) -> Actor:
    actor = shell(list_organizations()[0].id)
    upstreams.add(actor, NewUpstream(URL, Network.INTERNET, "id", b"sealed"))
    return actor


def test_a_box_without_upstream(subject: Subject) -> None:
    assert finding_of(subject, "upstream")[0] is Level.OK


def test_the_states_of_an_upstream(subject: Subject, actor: Actor) -> None:
    assert finding_of(subject, "upstream") == (Level.OK, f"records are equal at {URL}")
    row = upstreams.get(actor.organization_id)
    upstreams.note_failure(row, "no route", 0)
    assert finding_of(subject, "upstream")[0] is Level.OK, "it may be a restart"
    execute("UPDATE upstream SET failing_since = ?", (clock.now() - 2 * clock.HOUR,))
    level, text = finding_of(subject, "upstream")
    assert (level, "no route" in text) == (Level.WARNING, True)
    upstreams.pause(actor)
    assert finding_of(subject, "upstream")[1].startswith("paused")


def test_a_record_that_differs(subject: Subject, actor: Actor) -> None:
    no = upstreams.get(actor.organization_id).no
    execute(
        "INSERT INTO upstream_record (upstream_no, record_id, kind, trouble_kind, trouble) VALUES (?, 1, 2, ?, 'x')",
        (no, "changed there"),
    )
    level, text = finding_of(subject, "upstream")
    assert (level, text) == (Level.WARNING, f"1 record differs at {URL}")


def test_the_states_of_a_bridge(subject: Subject, actor: Actor) -> None:
    assert finding_of(subject, "upstream-bridge")[0] is Level.OK
    readers.add_reader(actor, name="Portal", topic="portal/1", format="edge")
    row = bridges.write(actor, "mqtts://broker.example")

    def finding(state: str | None) -> tuple[Level, str]:
        values = {} if state is None else {row.state_topic: state}
        return finding_of(subject._replace(ask_broker=lambda: values), "upstream-bridge")

    assert finding("1") == (Level.OK, "connected to mqtts://broker.example")
    assert finding("0")[1].startswith("the bridge to mqtts://broker.example is not connected")
    assert finding(None)[1].startswith("the broker does not know the bridge")
    readers.add_reader(actor, name="New", topic="new/1", format="edge")
    assert finding("1") == (Level.WARNING, "not bridged to mqtts://broker.example: new/1")
