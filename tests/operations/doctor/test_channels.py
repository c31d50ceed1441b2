"""Doctor: channels that notify people."""

from __future__ import annotations

from pathlib import Path

from edge import clock
from edge.audit.actors import shell
from edge.events.delivery import Outcome, Result
from edge.events.progress import Attempt
from edge.operations.doctor.findings import Level, Subject
from edge.people.organizations import list_organizations
from edge.rules.channels import channels, worker
from tests.audit.stage import CHANNEL
from tests.operations.doctor.test_doctor import finding_of, subject

__all__ = ["subject"]


def test_a_channel_that_fails_for_an_hour_is_reported_with_its_reason(subject: Subject, site: Path) -> None:
    row = channels.add(shell(list_organizations()[0].id), CHANNEL)
    assert finding_of(subject, "channels") == (Level.OK, "1 channels, all working")
    outcome = Outcome(Result.FAILED, "mail.example.com refused user and password")
    failed = Attempt(clock.now() - clock.HOUR // 2, 1, "edge.1", "message", False, outcome.detail)
    worker.record(row, [], outcome, failed)
    assert finding_of(subject, "channels")[0] is Level.OK
    worker.record(row, [], Outcome(Result.DELIVERED, "accepted"), failed._replace(is_delivered=True))
    worker.record(row, [], outcome, failed._replace(at=clock.now() - 2 * clock.HOUR))
    level, text = finding_of(subject, "channels")
    assert (level, ": mail.example.com refused user and password" in text) == (Level.WARNING, True)
