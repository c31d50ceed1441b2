"""A partner during whose conversation the service ended unexpectedly has to wait after the restart."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from edge import conversations
from edge.conversations import FIRST_SECONDS, FORGET_SECONDS, LINGER_SECONDS, LONGEST_SECONDS, Waits, talking
from edge.events.delivery import Message
from edge.events.mqtt import Broker, OutputCommands
from edge.events.webhook import Poster
from edge.ingest import sessions
from edge.outbound import Network
from edge.rules.channels.compose import Outgoing
from edge.rules.channels.kinds.email.mail import MailServer
from edge.rules.channels.kinds.email.mail_settings import MailSettings, Security
from edge.runtime import readiness
from edge.sync.client import HubClient
from edge.sync.sender import LinkError
from tests.ingest.subscribed import SOON, Handler, subscribed
from tests.service import wait_for

MAIL = "mail.example.com:25"
PLAIN = ssl.create_default_context()


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(conversations, "now", lambda: now[0])
    return now


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    conversations.begin(tmp_path)
    yield tmp_path
    conversations.begin(tmp_path / "none")
    conversations.end()


def crash(folder: Path) -> None:
    """Start again, as if the process had ended at this moment."""
    conversations.begin(folder)


def seconds_of(partner: str, longest: int = LONGEST_SECONDS) -> int:
    """Return how long the partner has to wait."""
    with suppress(Waits), talking(partner, longest):
        return 0
    return conversations.waiting()[partner]


def test_the_wait_grows_with_each_unexpected_end(folder: Path, time: list[float]) -> None:
    waits = []
    for number in range(7):
        with talking(MAIL):
            crash(folder)
        waits.append(seconds_of(MAIL))
        assert seconds_of(f"other{number}.example.com:25") == 0
        time[0] += waits[-1]
    assert waits == [FIRST_SECONDS * 4**number for number in range(5)] + [LONGEST_SECONDS] * 2
    with talking(MAIL):
        crash(folder)
    assert seconds_of(MAIL, 30) == 30
    time[0] += FORGET_SECONDS + 1
    crash(folder)
    assert seconds_of(MAIL) == 0


def test_a_stop_and_a_restart_without_a_conversation_let_nobody_wait(folder: Path, time: list[float]) -> None:
    with talking(MAIL):
        conversations.end()
    crash(folder)
    assert seconds_of(MAIL) == 0
    with talking(MAIL):
        pass
    time[0] += LINGER_SECONDS + 1
    conversations.close_marks()
    crash(folder)
    assert seconds_of(MAIL) == 0
    assert readiness.check_partners().ok


def crash_while_an_answer_is_used(folder: Path, time: list[float]) -> None:
    with talking(MAIL):
        pass
    time[0] += LINGER_SECONDS - 1
    conversations.close_marks()
    crash(folder)
    assert seconds_of(MAIL) == FIRST_SECONDS


@pytest.mark.usefixtures("store")
def test_an_answer_that_is_still_being_used_counts(folder: Path, time: list[float]) -> None:
    crash_while_an_answer_is_used(folder, time)
    check = readiness.check_partners()
    assert not check.ok
    assert f"connected to {MAIL}" in check.detail
    time[0] += FIRST_SECONDS
    assert readiness.check_partners().ok


def test_marks_cost_no_write_for_each_conversation_and_damaged_ones_are_ignored(
    folder: Path, time: list[float]
) -> None:
    for _ in range(3):
        with talking(MAIL), talking(MAIL):
            written = [file.stat().st_mtime_ns for file in folder.iterdir()]
        assert [file.stat().st_mtime_ns for file in folder.iterdir()] == written
    next(folder.iterdir()).write_text("1 x")
    crash(folder)
    assert seconds_of(MAIL) == 0


class Partner(NamedTuple):
    port: int
    marks: list[list[str]]  # that were open, for each connection


@pytest.fixture
def partner(folder: Path) -> Iterator[Partner]:
    """Run a server that closes each connection."""
    marks: list[list[str]] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                with listening.accept()[0]:
                    marks.append([file.read_text() for file in folder.iterdir()])

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield Partner(listening.getsockname()[1], marks)
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def send_mail(port: int) -> str:
    settings = MailSettings("127.0.0.1", port, Security.NONE, "", "edge@example.com", ("lead@example.com",))
    return MailServer(settings, "", Network.LOOPBACK, PLAIN).send(Outgoing("edge.1", "Left", "Pallet 1 left")).detail


def send_event(port: int) -> str:
    with closing(Broker(f"mqtt://127.0.0.1:{port}", "", "a", Network.LOOPBACK, PLAIN, "edge")) as broker:
        return broker.send(Message("evt_1_aa", "asset.moved", {}, b"{}")).detail


def send_command(port: int) -> str:
    with closing(OutputCommands(sessions.Broker(f"mqtt://127.0.0.1:{port}", "edge").address)) as commands:
        return commands.send("a", "on").detail


def post(port: int) -> str:
    with closing(Poster(f"http://127.0.0.1:{port}", Network.LOOPBACK, PLAIN)) as poster:
        return poster.post(b"{}", {}).detail


def ask_hub(port: int) -> str:
    with closing(HubClient(f"http://127.0.0.1:{port}", "id", "secret", None)) as client:
        try:
            client.call("hello", b"")
        except LinkError as error:
            return str(error)
    return ""


@pytest.mark.parametrize("talk", [send_mail, send_event, send_command, post, ask_hub])
def test_every_kind_of_partner_waits(folder: Path, partner: Partner, talk: Callable[[int], str]) -> None:
    talk(partner.port)
    assert [text for text in partner.marks[0] if text.startswith("1 ") and text.endswith(f" 127.0.0.1:{partner.port}")]
    before = len(partner.marks)
    crash(folder)
    assert "ended unexpectedly" in talk(partner.port)
    assert len(partner.marks) == before


def test_the_main_broker_waits_for_a_short_time(folder: Path, partner: Partner) -> None:
    with talking(f"127.0.0.1:{partner.port}"):
        crash(folder)
    with subscribed(f"mqtt://127.0.0.1:{partner.port}", Handler()) as subscriber:
        wait_for(lambda: "ended unexpectedly" in subscriber.state().problem, SOON)
        assert not partner.marks
    assert sessions.Broker("mqtt://127.0.0.1", "edge").address.longest_wait < LONGEST_SECONDS / 100


@pytest.mark.usefixtures("cast")
def test_one_organization_does_not_see_the_partners_of_another(folder: Path, time: list[float]) -> None:
    crash_while_an_answer_is_used(folder, time)
    check = readiness.check_partners()
    assert not check.ok
    assert MAIL not in check.detail
