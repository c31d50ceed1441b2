"""Doctor: event destinations."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.events import destinations
from edge.events.destinations import DestinationKind, NewDestination
from edge.events.family import Destination
from edge.events.log import KINDS, Filter
from edge.events.progress import Progress, record_progress
from edge.operations.doctor.findings import Level, Subject
from edge.outbound import Network
from edge.people.organizations import list_organizations
from tests.operations.doctor.test_doctor import finding_of, subject

__all__ = ["subject"]


@pytest.fixture
def erp(site: Path) -> Destination:
    selection = Filter(frozenset(KINDS), None)
    new = NewDestination(DestinationKind.WEBHOOK, "ERP", "https://erp.example", b"sealed", selection, Network.INTERNET)
    return destinations.add(shell(list_organizations()[0].id), new)


def failing(erp: Destination, *, since: int | None = None, disabled: str | None = None) -> None:
    record_progress(erp.id, Progress(0, (), (), 3, since, 0, "answered 500", 0, disabled))


def test_a_receiver_that_takes_events_is_well(subject: Subject, erp: Destination) -> None:
    assert finding_of(subject, "events") == (Level.OK, "1 event destinations, all working")


def test_a_receiver_may_be_away_for_a_while(subject: Subject, erp: Destination) -> None:
    failing(erp, since=clock.now() - clock.HOUR // 2)
    assert finding_of(subject, "events")[0] is Level.OK
    failing(erp, since=clock.now() - 2 * clock.HOUR)
    level, text = finding_of(subject, "events")
    assert level is Level.WARNING
    assert "ERP has failed since" in text
    assert "answered 500" in text


def test_a_destination_that_was_given_up_is_named(subject: Subject, erp: Destination) -> None:
    failing(erp, disabled="nothing was taken for a week")
    level, text = finding_of(subject, "events")
    assert (level, "ERP was disabled: nothing was taken for a week" in text) == (Level.WARNING, True)
