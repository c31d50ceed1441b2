"""The worker sends due messages, keeps those that cannot be sent, and reports the state of each channel."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor
from edge.clock import DAY, HOUR, SECOND
from edge.events.family import Destination, last_test
from edge.events.worker import EventsWorker
from edge.outbound import Network
from edge.rules.channels import channels, outbox
from edge.rules.channels.channels import NewChannel, Schedule
from edge.rules.channels.outbox import Message
from edge.rules.channels.worker import Messages
from tests.conftest import Cast
from tests.events.conftest import PACE
from tests.rules.channels.mail_server import MailServerOfTest, mail_server, send_due
from tests.service import wait_for

BEGAN = clock.to_micros(datetime(2026, 3, 2, 12, 0, tzinfo=UTC))


@pytest.fixture
def server() -> Iterator[MailServerOfTest]:
    with mail_server() as one:
        yield one


class Stage:
    """A channel of Acme at the test server, a worker in UTC, and a clock that the test moves."""

    def __init__(self, cast: Cast, server: MailServerOfTest, monkeypatch: pytest.MonkeyPatch) -> None:
        self.acme = cast.acme
        self.actor: Actor = actors.shell(cast.acme)
        self.server = server
        self.messages = Messages(lambda: UTC)
        self.now = BEGAN
        monkeypatch.setattr(clock, "now", lambda: self.now)
        self.no = self.add("Shift lead")

    def add(self, name: str, schedule: Schedule | None = None, secret: bytes = b"", port: int = 0) -> int:
        settings = {
            "host": "127.0.0.1",
            "port": port or self.server.port,
            "security": "none",
            "user": "",
            "sender": "edge@example.com",
            "recipients": ["lead@example.com"],
        }
        new = NewChannel("email", name, settings, secret, schedule or Schedule(), Network.LOOPBACK)
        return channels.add(self.actor, new).no

    def alert(self, text: str, no: int = 0, *, is_over: bool = False, is_late: bool = False) -> None:
        message = Message(text, f"{text} hall 2", 1, 1, 1, self.now, is_over, is_late)
        outbox.enqueue(self.acme, no or self.no, message, self.now)

    def work(self, after: int = 0) -> None:
        self.now += after
        send_due(self.messages)

    def subjects(self) -> list[str]:
        return [str(mail.parsed["Subject"]) for mail in self.server.mails]

    def channel(self) -> Destination:
        return channels.get(self.acme, self.no)


@pytest.fixture
def stage(cast: Cast, server: MailServerOfTest, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(cast, server, monkeypatch)


def test_a_message_is_sent_once(stage: Stage) -> None:
    stage.alert("Pallet 1 left")
    stage.work()
    stage.work()
    (mail,) = stage.server.mails
    assert mail.parsed["Subject"] == "Pallet 1 left"
    assert mail.parsed.get_content().splitlines()[:3] == ["Pallet 1 left hall 2", "", "Time: 2026-03-02 12:00:00 UTC"]
    assert (stage.channel().delivered, outbox.count_waiting(stage.channel())) == (1, 0)


def test_the_second_message_says_that_it_is_over(stage: Stage) -> None:
    stage.alert("Pallet 1 left", is_over=True)
    stage.work()
    assert stage.subjects() == ["Over: Pallet 1 left"]


def test_a_digest_is_one_mail_for_forty_pallets(stage: Stage) -> None:
    no = stage.add("Digest", Schedule(digest=900))
    for pallet in range(40):
        stage.alert(f"Pallet {pallet} left", no)
        stage.work(SECOND)
    assert stage.subjects() == []
    stage.work(900 * SECOND)
    (mail,) = stage.server.mails
    assert mail.parsed["Subject"] == "40 messages: Pallet 0 left"
    lines = mail.parsed.get_content().splitlines()
    assert (len(lines), lines[39]) == (40, "2026-03-02 12:00:39 UTC  Pallet 39 left")


def test_nothing_is_sent_in_quiet_hours(stage: Stage) -> None:
    no = stage.add("Day shift", Schedule(quiet_from=12 * 60, quiet_until=20 * 60))
    stage.alert("Pallet 1 left", no)
    stage.work()
    stage.work(7 * HOUR + 59 * 60 * SECOND)
    assert stage.subjects() == []
    stage.work(60 * SECOND)
    assert stage.subjects() == ["Pallet 1 left"]


def test_messages_wait_while_the_mail_server_is_away_and_are_marked_late(stage: Stage) -> None:
    stage.server.refuse = {"HELLO": "421 4.3.2 shutting down"}
    for pallet in range(30):
        stage.alert(f"Pallet {pallet} left")
    for _ in range(10):
        stage.work(2 * HOUR)
    row = stage.channel()
    assert (row.failures, outbox.count_waiting(stage.channel())) == (10, 30)
    assert "421 4.3.2 shutting down" in str(row.last_error)
    assert [text for text in channels.troubles() if "Shift lead" in text]
    stage.server.refuse = {}
    stage.work(2 * HOUR)
    assert stage.subjects() == ["30 messages (late): Pallet 0 left"]
    assert "Pallet 29 left (late)" in stage.server.mails[0].parsed.get_content()
    row = stage.channel()
    assert (row.failures, row.failing_since, row.last_error, row.delivered) == (0, None, None, 30)
    assert channels.troubles() == []


def test_a_channel_that_is_enabled_again_starts_without_its_old_failures(stage: Stage) -> None:
    stage.server.refuse = {"HELLO": "421 4.3.2 shutting down"}
    stage.alert("Pallet 1 left")
    for _ in range(3):
        stage.work(2 * HOUR)
    assert channels.troubles()
    channels.disable(stage.actor, stage.no)
    channels.enable(stage.actor, stage.no)
    row = stage.channel()
    assert (row.failures, row.failing_since, row.last_error) == (0, None, None)
    assert channels.troubles() == []


def test_a_single_late_message_says_so(stage: Stage) -> None:
    stage.alert("Pallet 1 left")
    stage.work(HOUR)
    assert stage.subjects() == ["Pallet 1 left (late)"]
    assert "could not be sent earlier" in stage.server.mails[0].parsed.get_content()


def test_a_failing_server_is_asked_less_and_less_often(stage: Stage) -> None:
    stage.server.refuse = {"HELLO": "421 4.3.2 shutting down"}
    stage.alert("Pallet 1 left")
    pauses = []
    for _ in range(12):
        stage.work()
        pauses.append((stage.channel().next_try_at - stage.now) // SECOND)
        stage.work(stage.channel().next_try_at - stage.now - 1)  # not due yet
        stage.now += 1
    assert stage.channel().failures == 12
    assert pauses[0] <= 6
    assert 2800 <= pauses[-1] <= 4400


def test_a_message_is_given_up_after_days_and_counted(stage: Stage) -> None:
    stage.server.refuse = {"HELLO": "421 4.3.2 shutting down"}
    stage.alert("Pallet 1 left")
    for _ in range(60):
        stage.work(2 * HOUR)
    assert (stage.channel().lost, outbox.count_waiting(stage.channel())) == (0, 1)
    stage.work(DAY)
    assert (stage.channel().lost, outbox.count_waiting(stage.channel())) == (1, 0)


def test_a_refused_message_does_not_hold_up_the_next(stage: Stage) -> None:
    stage.server.refuse = {"DATA": "554 5.6.0 this looks like spam"}
    stage.alert("Pallet 1 left")
    stage.work()
    stage.server.refuse = {}
    stage.alert("Pallet 2 left")
    stage.work(SECOND)
    assert stage.subjects() == ["Pallet 2 left"]
    stage.work(10 * SECOND)
    assert stage.subjects() == ["Pallet 2 left", "Pallet 1 left"]


def test_a_turn_of_a_channel_sends_one_message(stage: Stage) -> None:
    """So organizations whose turns wait in the same queue are delayed by one attempt, see `tests/events`."""
    for number in range(3):
        stage.alert(f"Pallet {number} left")
    (turn,) = (one for one in stage.messages.due() if one.organization_id == stage.acme)
    assert [(turn.serve(), len(stage.server.mails)) for _ in range(4)] == [(True, 1), (True, 2), (True, 3), (False, 3)]


def test_another_channel_goes_on(stage: Stage) -> None:
    with mail_server() as gone:
        pass
    no = stage.add("Broken", port=gone.port)
    stage.alert("Pallet 1 left", no)
    stage.alert("Pallet 1 left")
    stage.work()
    assert stage.subjects() == ["Pallet 1 left"]


def test_a_partly_refused_mail_is_reported(stage: Stage) -> None:
    settings = {**stage.channel().settings, "recipients": ["lead@example.com", "gone@example.com"]}
    new = NewChannel("email", "Shift lead", settings, None, Schedule(), Network.LOOPBACK)
    channels.change(stage.actor, stage.no, new)
    stage.server.refuse = {"gone@example.com": "550 5.1.1 no such user"}
    stage.alert("Pallet 1 left")
    stage.work()
    assert "accepted, except for gone@example.com" in str(stage.channel().last_error)


def test_a_test_is_sent_in_quiet_hours_and_shows_its_result(stage: Stage) -> None:
    no = stage.add("Day shift", Schedule(quiet_from=12 * 60, quiet_until=20 * 60))
    channels.request_test(stage.actor, no)
    stage.work()
    row = channels.get(stage.acme, no)
    test = last_test(row)
    assert test
    assert (test.is_delivered, test.detail, row.tested_at) == (True, "accepted for 1 recipient", None)
    assert stage.subjects() == ["Test: Day shift"]
    stage.server.refuse = {"lead@example.com": "550 5.1.1 no such user"}
    channels.request_test(stage.actor, no)
    stage.work()
    test = last_test(row)
    assert test
    assert (test.is_delivered, "550 5.1.1 no such user" in test.detail) == (False, True)


def test_a_password_of_another_box_is_reported(stage: Stage) -> None:
    no = stage.add("Restored", secret=b"sealed elsewhere")
    channels.request_test(stage.actor, no)
    stage.work()
    assert "secret cannot be read on this box" in str(last_test(channels.get(stage.acme, no)))


def test_the_threads_of_events_send_messages_without_any_destination(
    cast: Cast, server: MailServerOfTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge.events.worker.IDLE_SECONDS", 0.01)
    monkeypatch.setattr("edge.events.worker.MESSAGES_SECONDS", 0.01)
    stage = Stage(cast, server, monkeypatch)
    worker = EventsWorker(PACE, messages=stage.messages.due)
    worker.start()
    try:
        stage.alert("Pallet 1 left")
        wait_for(lambda: server.mails)
        channels.remove(stage.actor, stage.no)
    finally:
        worker.stop()
