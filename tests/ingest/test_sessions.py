"""Sessions: each reader has its own share of the broker's queue, and moving between sessions loses nothing."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from edge.ingest import sessions
from edge.ingest.mqtt_framing import Wire
from edge.ingest.sessions import Attempts, Broker, Session
from edge.ingest.subscriber import Subscriber, Use
from tests.ingest.subscribed import SOON, Handler
from tests.mosquitto import Mosquitto, free_port, mosquitto
from tests.service import wait_for

pytestmark = pytest.mark.mosquitto

ANYBODY = "topic readwrite #\n\nuser edge\n"
EVERYTHING = "topic read #\ntopic readwrite edge/ping/#\n\nuser edge-session-1\n"
SHARED = ANYBODY + EVERYTHING + "topic read site/a\n"  # delivered to both sessions
DIVIDED = ANYBODY + "topic deny site/a\n" + EVERYTHING + "topic read site/a\n"

FIRST = Use(frozenset([1]))


@contextmanager
def broker(folder: Path, acl: str, settings: str = "") -> Iterator[Mosquitto]:
    (folder / "acl").write_text(acl)
    (folder / "acl").chmod(0o644)
    with mosquitto(folder, f"acl_file {folder}/acl\n{settings}") as running:
        yield running


@contextmanager
def subscribed(running: Mosquitto, handler: Handler, use: Use = FIRST) -> Iterator[Subscriber]:
    url = f"mqtt://edge@127.0.0.1:{running.port}"
    subscriber = Subscriber(Broker(url, "edge"), ["#"], handler, queue_size=1_000, batch_size=10, sessions=2)
    subscriber.use_sessions(use)
    subscriber.start()
    try:
        wait_for(lambda: subscriber.state().sessions == {1}, SOON, lambda: str(subscriber.state()))
        assert subscriber.state().problem == ""
        yield subscriber
    finally:
        subscriber.stop()


def came(handler: Handler) -> list[tuple[str, int, bytes]]:
    return sorted((one.topic, one.session, one.payload) for one in handler.messages)


def test_messages_of_a_reader_arrive_on_its_session(
    tmp_path: Path,
) -> None:
    handler = Handler()
    with broker(tmp_path, DIVIDED) as running, subscribed(running, handler):
        for topic in ("site/a", "site/b"):
            running.publish(topic, [b"1", b"2"])
        wait_for(lambda: len(handler.messages) == 4, SOON)
    assert came(handler) == [("site/a", 1, b"1"), ("site/a", 1, b"2"), ("site/b", 0, b"1"), ("site/b", 0, b"2")]


def test_both_sessions_queue_messages_while_edge_is_stopped(tmp_path: Path) -> None:
    with broker(tmp_path, DIVIDED) as running:
        with subscribed(running, Handler()):
            pass
        for topic in ("site/a", "site/b"):
            running.publish(topic, [b"1"])
        first, second = Handler(), Handler()
        with subscribed(running, first):
            wait_for(lambda: len(first.messages) == 2, SOON)
        with subscribed(running, second):
            running.publish("site/b", [b"last"])
            wait_for(lambda: bool(second.messages), SOON)
    assert came(first) == [("site/a", 1, b"1"), ("site/b", 0, b"1")]
    assert came(second) == [("site/b", 0, b"last")]


def test_one_reader_cannot_fill_the_queue_of_the_others(tmp_path: Path) -> None:
    handler = Handler()
    with broker(tmp_path, DIVIDED, "max_queued_messages 5\n") as running:
        with subscribed(running, Handler()):
            pass
        running.publish("site/a", [b"flood"] * 50)
        running.publish("site/b", [b"1", b"2", b"3"])
        with subscribed(running, handler):
            wait_for(lambda: len(handler.messages) == 8, SOON)
    assert [one for one in came(handler) if one[0] == "site/b"] == [("site/b", 0, n) for n in (b"1", b"2", b"3")]


def test_moving_a_reader_to_a_session_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Check messages published just before the broker applied the new ACL, while edge was stopped."""
    before, between, after = Handler(), Handler(), Handler()
    waits = Use(frozenset([1]), {1: ["site/a"]})
    with broker(tmp_path, SHARED) as running:
        with subscribed(running, before, waits):
            running.publish("site/a", [b"1"])
            wait_for(lambda: bool(before.messages), SOON)
        running.publish("site/a", [b"2"])
        with subscribed(running, between, waits):
            wait_for(lambda: bool(between.messages), SOON)
        running.publish("site/a", [b"3"])
        (tmp_path / "acl").write_text(DIVIDED)
        running.send_signal(signal.SIGHUP)
        running.publish("site/a", [b"4"])
        with subscribed(running, after):
            wait_for(lambda: len(after.messages) == 2, SOON)
    assert came(before) == [("site/a", 0, b"1")]
    assert came(between) == [("site/a", 0, b"2")]
    assert came(after) == [("site/a", 1, b"3"), ("site/a", 1, b"4")]


def test_a_refused_session_is_reported_while_a_reader_needs_it(tmp_path: Path) -> None:
    subprocess.run(
        ["mosquitto_passwd", "-b", "-c", tmp_path / "users", "edge", "pass"], check=True
    )  # not that of session 1
    with mosquitto(tmp_path, f"allow_anonymous false\npassword_file {tmp_path}/users\n") as running:
        one = Broker(f"mqtt://edge@127.0.0.1:{running.port}", "edge", "pass")
        subscriber = Subscriber(one, ["#"], Handler(), queue_size=9, batch_size=9, sessions=2)
        subscriber.start()
        try:
            wait_for(lambda: subscriber.state().is_connected, SOON)
            assert subscriber.state().problem == ""
            subscriber.use_sessions(FIRST)
            wait_for(lambda: "session 1, of some readers, is not connected" in subscriber.state().problem, SOON)
        finally:
            subscriber.stop()


def test_a_session_that_the_broker_does_not_answer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "KEEPALIVE_SECONDS", 2)
    with mosquitto(tmp_path, "") as running, socket.create_server(("127.0.0.1", 0)) as silent:
        one = Broker(f"mqtt://edge@127.0.0.1:{running.port}", "edge")
        mute = one._replace(url=f"mqtt://edge@127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr(Broker, "of_session", lambda *_: mute)
        subscriber = Subscriber(one, ["#"], Handler(), queue_size=9, batch_size=9, sessions=2)
        subscriber.use_sessions(FIRST)
        subscriber.start()
        try:
            wait_for(lambda: subscriber.state().problem.endswith("is not connected: Keep alive timeout"), SOON)
        finally:
            subscriber.stop()


def test_a_session_that_waits_for_its_turn_is_no_fault(tmp_path: Path) -> None:
    with mosquitto(tmp_path, "") as running:
        one = Broker(f"mqtt://edge@127.0.0.1:{running.port}", "edge")
        subscriber = Subscriber(one, ["#"], Handler(), queue_size=9, batch_size=9, sessions=2)
        subscriber.use_sessions(FIRST)
        problems = set()
        subscriber.start()
        try:
            wait_for(lambda: problems.add(subscriber.state().problem) or 1 in subscriber.state().sessions, SOON)  # type: ignore[func-returns-value]
        finally:
            subscriber.stop()
        assert problems <= {"not connected yet", ""}


def test_session_0_is_drained_only_when_the_broker_holds_nothing_more(tmp_path: Path) -> None:
    """An empty queue of edge is no proof: it takes one message at a time here, and the broker holds the others."""
    handler = Handler()
    with mosquitto(tmp_path, "max_inflight_messages 1\n") as running:
        url = f"mqtt://edge@127.0.0.1:{running.port}"
        subscriber = Subscriber(Broker(url, "edge"), ["#"], handler, queue_size=1, batch_size=1)
        assert not subscriber.drain(0.1), "not connected"
        subscriber.start()
        try:
            wait_for(lambda: subscriber.state().is_connected, SOON)
            assert subscriber.drain(SOON)
            handler.is_open.clear()
            running.publish("site/a", [b"%d" % number for number in range(20)])
            wait_for(lambda: subscriber.state().in_hand + subscriber.state().queued > 0, SOON)
            assert not subscriber.drain(0.3)
            handler.is_open.set()
            assert subscriber.drain(SOON)
            assert len(handler.messages) == 20
        finally:
            subscriber.stop()


def test_a_broken_session_does_not_end_the_others(tmp_path: Path) -> None:
    handler = Handler()
    with broker(tmp_path, DIVIDED) as running, subscribed(running, handler) as subscriber:
        before = subscriber._connection
        session = subscriber._additional[0]
        wire = session.wire
        assert wire
        wire._unsent += b"\xc0\x00"  # something to send on a socket that is closed
        wire._socket.close()
        wait_for(lambda: session.wire is not wire, SOON)
        running.publish("site/b", [b"1"])
        wait_for(lambda: bool(handler.messages), SOON)
        assert subscriber._connection == before


class Slow(Session):
    """A session with a broker that does not answer, or refuses."""

    is_up = False

    @property
    def wire(self) -> Wire | None:
        return cast("Wire", self) if self.is_up else None


def test_sessions_connect_one_at_a_time_and_wait_together_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection attempt may block the network thread for seconds, while reads arrive on the others."""
    now = [100.0]
    monkeypatch.setattr(sessions.time, "monotonic", lambda: now[0])
    several = [Slow(Broker("mqtt://edge@127.0.0.1:1", "edge"), number, ["#"]) for number in (1, 2, 3)]
    attempts = Attempts()
    tried = []
    for _ in range(3 * 60):
        if due := attempts.next(several):
            tried.append(due.number)
            attempts.done(due)
        now[0] += 1 / 3
    assert tried[:6] == [1, 2, 3, 1, 2, 3]
    assert len(tried) <= 60 / sessions.RECONNECT_SECONDS + 1
    now[0] += sessions.RECONNECT_SECONDS
    connected = []
    while due := attempts.next(several):
        due.is_up = True  # type: ignore[attr-defined]
        attempts.done(due)
        connected.append(due.number)
    assert sorted(connected) == [1, 2, 3], "without a pause if they succeed"


def test_a_session_that_cannot_connect_says_why() -> None:
    session = Session(Broker(f"mqtt://127.0.0.1:{free_port()}", "edge"), 1, ["site/a"])
    session.connect(7)
    assert session.wire is None
    assert not session.is_ready
    assert "refused" in session.problem
