"""Subscriber: commits before it acknowledges, and recovers from any failure of the broker."""

from __future__ import annotations

import asyncio
import select
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database import connection as database
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute
from edge.errors import Unavailable
from edge.ingest import embedded_broker, writer
from edge.ingest import subscriber as subscriber_module
from edge.ingest.embedded_broker import EmbeddedBroker
from edge.ingest.mqtt_framing import Delivery
from edge.ingest.subscriber import KEPT_OF_LARGER, LARGEST_PAYLOAD, Broker, Subscriber
from edge.people import organizations
from tests.ingest.packets import REFUSED, FakeBroker
from tests.ingest.site import DOCK, Site, buckets, csl, make_site, seen
from tests.ingest.subscribed import SOON, Handler, delivery, numbers, publish, steady, subscribed, until_connected
from tests.mosquitto import Mosquitto, free_port, mosquitto
from tests.service import wait_for

NOT_UTF8 = b"site/\xff"


@pytest.fixture(params=["embedded", pytest.param("mosquitto", marks=pytest.mark.mosquitto)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Start a broker of either kind."""
    if request.param == "mosquitto":
        with mosquitto(tmp_path) as broker:
            yield broker.url
    else:
        embedded = EmbeddedBroker(f"127.0.0.1:{(port := free_port())}")
        embedded.start()
        yield f"mqtt://127.0.0.1:{port}"
        embedded.stop()


def test_stopping_the_embedded_broker_ends_its_thread() -> None:
    def brokers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "broker"]

    before = brokers()
    embedded = EmbeddedBroker(f"127.0.0.1:{free_port()}")
    embedded.start()
    assert len(brokers()) == len(before) + 1
    embedded.stop()
    assert brokers() == before


def test_stopping_the_embedded_broker_disconnects_its_clients() -> None:
    embedded = EmbeddedBroker(f"127.0.0.1:{(port := free_port())}")
    embedded.start()
    with socket.create_connection(("127.0.0.1", port), SOON) as client:
        client.sendall(bytes.fromhex("100d00044d5154540402003c0001") + b"x")  # CONNECT as client x
        assert client.recv(4) == bytes.fromhex("20020000")
        embedded.stop()
        assert client.recv(1) == b""


def test_the_embedded_broker_takes_mqtt_3_1_and_names_the_remedy_of_other_versions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedded = EmbeddedBroker(f"127.0.0.1:{(port := free_port())}")
    embedded.start()
    for connect, answer in (
        ("100f00064d51497364700302003c0001", "20020000"),
        ("100e00044d5154540502003c000001", "20020001"),
    ):
        with socket.create_connection(("127.0.0.1", port), SOON) as client:
            client.sendall(bytes.fromhex(connect) + b"x")
            assert client.recv(4) == bytes.fromhex(answer)
    embedded.stop()
    assert [record.getMessage() for record in caplog.records if "refused" in record.message] == [
        "A client was refused: set MQTT 3.1.1 on the device, not version 5"
    ]


def test_stopping_the_embedded_broker_closes_its_port() -> None:
    embedded = EmbeddedBroker(f"127.0.0.1:{(port := free_port())}")
    embedded.start()
    embedded.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), SOON)


def test_an_embedded_broker_that_does_not_close_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    shutdown = embedded_broker.Broker.shutdown

    async def hang(broker: embedded_broker.Broker) -> None:
        await shutdown(broker)  # an open socket would fail a later test
        await asyncio.sleep(SOON)

    monkeypatch.setattr(embedded_broker.Broker, "shutdown", hang)
    embedded = EmbeddedBroker(f"127.0.0.1:{free_port()}")
    embedded.start()
    began = time.monotonic()
    embedded.stop()
    assert time.monotonic() - began < SOON / 2
    assert not asyncio.all_tasks(embedded._loop), "they would be reported when they are collected"


def test_messages_arrive_whole_and_in_order(url: str) -> None:
    handler = Handler()
    with subscribed(url, handler) as subscriber:
        until_connected(subscriber)
        publish(url, *numbers(100), b"", b"\x00\xff" * 50_000)
        wait_for(lambda: len(handler.messages) == 102, SOON)
    assert handler.payloads() == [*numbers(100), b"", b"\x00\xff" * 50_000]
    assert {(message.topic, message.qos, message.is_retained) for message in handler.messages} == {(DOCK, 1, False)}


@pytest.mark.mosquitto
def test_large_messages_wait_at_the_broker_and_not_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the memory limit for a reader that sends the largest messages."""
    monkeypatch.setattr(writer, "QUEUE_BYTES", 2_000_000)
    handler = Handler()
    handler.is_open.clear()
    with mosquitto(tmp_path) as broker, subscribed(broker.url, handler) as subscriber:
        until_connected(subscriber)
        publish(broker.url, *numbers(30, 500_000))
        wait_for(lambda: not subscriber._writer.has_room(), SOON)
        held = subscriber.state()
        handler.is_open.set()
        wait_for(lambda: len(handler.messages) == 30, SOON)
    assert held.queued + held.in_hand <= 8
    assert handler.payloads() == numbers(30, 500_000)


@pytest.mark.mosquitto
def test_messages_queued_while_disconnected_are_received(tmp_path: Path) -> None:
    handler = Handler()
    with mosquitto(tmp_path) as broker:
        with subscribed(broker.url, handler) as subscriber:
            until_connected(subscriber)
        publish(broker.url, *numbers(20))
        with subscribed(broker.url, handler):
            wait_for(lambda: len(handler.messages) == 20, SOON)
    assert handler.payloads() == numbers(20)


def test_stop_commits_and_acknowledges_queued_messages(url: str) -> None:
    handler = Handler()
    with subscribed(url, handler) as subscriber:
        until_connected(subscriber)
        handler.is_open.clear()
        publish(url, *numbers(30))
        wait_for(lambda: subscriber.state().received == 30, SOON)
        threading.Timer(0.2, handler.is_open.set).start()
    assert handler.payloads() == numbers(30)
    with subscribed(url, handler) as subscriber:
        until_connected(subscriber)
        publish(url, b"next")
        wait_for(lambda: handler.payloads()[30:], SOON)
    assert handler.payloads()[30:] == [b"next"]


def test_a_retained_message_is_not_a_read(url: str, store: Path) -> None:
    site = make_site(organizations.add_organization(shell(), "Acme").id)
    publish(url, csl(seen(site.epcs[0])), retain=True)
    with subscribed(url):
        wait_for(buckets, SOON)
    assert buckets() == {"retained": (1, 0)}


def test_no_message_blocks_the_next_one(url: str, store: Path) -> None:
    site = make_site(organizations.add_organization(shell(), "Acme").id)
    poison = [b"\xff\xfe{", b"[" * 100_000, b'{"tags":' + b"9" * 5000 + b"}", b"", b"\x00" * (2 * LARGEST_PAYLOAD)]
    with subscribed(url) as subscriber:
        until_connected(subscriber)
        publish(url, *poison, csl(seen(site.epcs[0])))
        wait_for(lambda: "recorded" in buckets(), SOON, lambda: str(buckets()))
        assert subscriber.state().is_running
    assert sum(messages for messages, _ in buckets().values()) == 6
    assert buckets()["too_large"] == (1, 0)
    largest = execute("SELECT length(payload), size, reason FROM dead_letter ORDER BY size DESC").fetchone()
    assert largest == (KEPT_OF_LARGER, 2 * LARGEST_PAYLOAD, REASON_TOO_LARGE)


REASON_TOO_LARGE = "the message has 2,097,152 bytes; set the reader to send at most 1 MiB"


def test_a_topic_that_is_not_utf_8_is_counted() -> None:
    handler = Handler()
    with FakeBroker() as broker, subscribed(broker.url, handler) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        broker.send(delivery(b"one", 1, topic=NOT_UTF8), delivery(b"two", 2))
        wait_for(lambda: broker.acknowledged == [1, 2], SOON)
    assert handler.payloads() == [b"one", b"two"]


def test_an_acknowledgement_follows_the_commit() -> None:
    handler = Handler()
    handler.wrong = Unavailable("The disk is full")
    with FakeBroker() as broker, subscribed(broker.url, handler) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        broker.send(delivery(b"one", 1), delivery(b"two", 2))
        wait_for(lambda: subscriber.state().store_problem, SOON)
        assert broker.acknowledged == []
        handler.wrong = None
        wait_for(lambda: broker.acknowledged == [1, 2], SOON)
        assert subscriber.state().store_problem == ""
    assert handler.payloads() == [b"one", b"two"]
    assert all(message.is_redelivered for message in handler.messages), "a part may have been committed"


def test_the_service_stops_with_a_full_disk() -> None:
    handler = Handler()
    handler.wrong = Unavailable("The disk is full")
    with FakeBroker() as broker:
        with subscribed(broker.url, handler) as subscriber:
            wait_for(lambda: subscriber.state().is_connected, SOON)
            broker.send(delivery(b"one", 1))
            wait_for(lambda: subscriber.state().store_problem, SOON)
        assert not subscriber.state().is_running
        assert broker.acknowledged == []


def take_one_and_hang_up(broker: FakeBroker, subscriber: Subscriber, handler: Handler) -> None:
    wait_for(lambda: subscriber.state().is_connected, SOON)
    handler.is_open.clear()
    broker.send(delivery(b"one", 1))
    wait_for(lambda: subscriber.state().received == 1, SOON)
    broker.hang_up()


def test_messages_of_a_lost_connection_are_not_acknowledged_on_the_next() -> None:
    """Check that packet IDs are valid only for their connection."""
    handler = Handler()
    with FakeBroker() as broker, subscribed(broker.url, handler) as subscriber:
        take_one_and_hang_up(broker, subscriber, handler)
        wait_for(lambda: broker.connections == 2 and subscriber.state().is_connected, SOON)
        handler.is_open.set()
        wait_for(handler.payloads, SOON)
        broker.send(delivery(b"two", 2))
        wait_for(lambda: 2 in broker.acknowledged, SOON)
        assert broker.acknowledged == [2]


def test_pings_are_rare() -> None:
    """Check the rate of pings: one after connecting, then one every 10 s."""
    with FakeBroker() as broker, subscribed(broker.url, Handler()) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        began = time.monotonic()
        for mid in range(1, 21):
            broker.send(delivery(b"one", mid))
            wait_for(lambda mid=mid: mid in broker.acknowledged, SOON)
        assert broker.published <= 2 + (time.monotonic() - began) // 10


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Times at which the network thread looked at its sockets."""
    times: list[float] = []

    def noted(*arguments: Any) -> Any:
        times.append(time.monotonic())
        return select.select(*arguments)

    monkeypatch.setattr(subscriber_module, "select", SimpleNamespace(select=noted))
    return times


def turns_in_a_second(turns: list[float]) -> int:
    turns.clear()
    time.sleep(1.0)
    return len(turns)


def test_a_connection_without_messages_wakes_up_rarely(turns: list[float]) -> None:
    with FakeBroker() as broker, subscribed(broker.url, Handler()) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        wait_for(lambda: turns_in_a_second(turns) <= 5, SOON)


def test_messages_that_wait_for_room_do_not_wake_it_up(turns: list[float]) -> None:
    handler = Handler()
    handler.is_open.clear()
    with FakeBroker() as broker, subscribed(broker.url, handler, queue_size=5) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        for mid in range(1, 40):
            broker.send(delivery(b"x" * 10_000, mid))
            time.sleep(0.01)
        wait_for(lambda: not subscriber._writer.has_room(), SOON)
        wait_for(lambda: turns_in_a_second(turns) <= 60, SOON / 5)
        handler.is_open.set()


def test_a_committed_message_with_the_dup_flag_is_a_repeat(site: Site) -> None:
    """Check an acknowledgement lost after the commit, for a reader without a clock."""
    read = delivery(csl(seen(site.epcs[0])), 1)
    with FakeBroker() as broker, subscribed(broker.url) as subscriber:
        for connection, one in enumerate([read, replace(read, is_redelivered=True)], start=1):
            wait_for(lambda at=connection: broker.connections == at and subscriber.state().is_connected, SOON)
            broker.send(one)
            wait_for(lambda at=connection: broker.acknowledged == [1] * at, SOON)
            broker.hang_up()
    assert buckets() == {"recorded": (1, 1), "repeat": (1, 0)}


def test_messages_keep_their_order_when_the_clock_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check a step back: below 1 s, time continues in microseconds; a larger step is followed."""
    handler, now = Handler(), clock.now()
    with FakeBroker() as broker, subscribed(broker.url, handler) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        for mid, box in enumerate([now, now - SECOND // 2, now - clock.HOUR], start=1):
            monkeypatch.setattr(clock, "now", lambda box=box: box)
            broker.send(delivery(b"one", 2 * mid), delivery(b"two", 2 * mid + 1))
            wait_for(lambda mid=mid: len(handler.messages) == 2 * mid, SOON)
    times = [message.received_at for message in handler.messages]
    assert times[:4] == sorted(set(times[:4]))
    assert times[3] < now + SECOND
    assert times[4:] == [now - clock.HOUR, now - clock.HOUR + 1]


def test_stop_without_a_broker_commits_queued_messages() -> None:
    handler = Handler()
    with FakeBroker() as broker, subscribed(broker.url, handler) as subscriber:
        take_one_and_hang_up(broker, subscriber, handler)
        wait_for(lambda: not subscriber.state().is_connected, SOON)
        threading.Timer(0.2, handler.is_open.set).start()
    assert handler.payloads() == [b"one"]
    assert broker.acknowledged == []


def test_a_refused_subscription_is_reported() -> None:
    with FakeBroker(granted=REFUSED) as broker, subscribed(broker.url, Handler()) as subscriber:
        wait_for(lambda: "denied the subscription to #" in subscriber.state().problem, SOON)


def test_a_refused_login_is_reported() -> None:
    with FakeBroker(code=5) as broker, subscribed(broker.url, Handler()) as subscriber:
        wait_for(lambda: "refused the connection: Not authorized" in subscriber.state().problem, SOON)


def test_there_is_no_fallback_to_an_older_protocol() -> None:
    """Check that paho does not reconnect by itself, which would skip the backoff."""
    with FakeBroker(code=1) as broker, subscribed(broker.url, Handler()):
        wait_for(lambda: len(broker.protocols) == 2, SOON)
        assert broker.protocols == [b"MQTT\x04"] * 2


def test_a_protocol_error_leads_to_a_reconnect() -> None:
    handler = Handler()
    with FakeBroker() as broker, subscribed(broker.url, handler) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        broker.send(Delivery(DOCK.encode(), b"impossible", 1, 3, False, False))
        wait_for(lambda: broker.connections == 2 and subscriber.state().is_connected, SOON)
        broker.send(delivery(b"one", 1))
        wait_for(lambda: broker.acknowledged == [1], SOON)


def test_connection_attempts_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    class Stopping(threading.Event):
        """Event that never waits and is set after six attempts."""

        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0.0)
            if len(waits) == 6:
                self.set()
            return self.is_set()

    subscriber = Subscriber(
        Broker(f"mqtt://127.0.0.1:{free_port()}", "edge"),
        ["#"],
        Handler(),
        queue_size=10,
        batch_size=10,
    )
    monkeypatch.setattr(subscriber, "_stopping", Stopping())
    subscriber.start()
    wait_for(lambda: len(waits) == 6, SOON)
    subscriber.stop()
    assert waits == [1, 2, 4, 8, 16, subscriber_module.MAX_BACKOFF_SECONDS]
    assert "cannot be reached" in subscriber.state().problem


@pytest.mark.mosquitto
def test_a_broker_that_starts_later_is_connected(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    with subscribed(broker.url, Handler()) as subscriber:
        wait_for(lambda: "cannot be reached" in subscriber.state().problem, SOON)
        assert subscriber.state().is_running
        broker.start()
        try:
            until_connected(subscriber)
        finally:
            broker.stop()
    assert not subscriber.state().is_running


@pytest.mark.mosquitto
def test_a_broker_restart_loses_and_repeats_nothing(tmp_path: Path, store: Path) -> None:
    site = make_site(organizations.add_organization(shell(), "Acme").id)
    with mosquitto(tmp_path) as broker, subscribed(broker.url) as subscriber:
        until_connected(subscriber)
        publish(broker.url, *[csl(seen(site.epcs[0], rssi=-number)) for number in range(1, 51)])
        broker.stop()
        wait_for(lambda: not subscriber.state().is_connected and "lost" in subscriber.state().problem, SOON)
        broker.start()
        publish(broker.url, *[csl(seen(site.epcs[0], rssi=-number)) for number in range(51, 101)])
        wait_for(lambda: buckets().get("recorded", (0, 0)) == (100, 100), SOON, lambda: str(buckets()))


@pytest.mark.mosquitto
def test_all_messages_arrive_over_tls(tmp_path: Path) -> None:
    """Check data that TLS has decrypted but `select` does not report."""
    certificate, key, plain = tmp_path / "broker.crt", tmp_path / "broker.key", free_port()
    request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=broker"
    name = "subjectAltName=IP:127.0.0.1"
    command = ["openssl", *request.split(), "-addext", name, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    settings = f"listener {plain} 127.0.0.1\n"
    handler = Handler()
    sent = numbers(2_000, size=300)
    with mosquitto(tmp_path, settings, tls=(certificate, key)) as broker:
        with subscribed(broker.url, handler, ca_file=certificate) as subscriber:
            until_connected(subscriber)
            publish(f"mqtt://127.0.0.1:{plain}", *sent)
            wait_for(lambda: len(handler.messages) == len(sent), SOON)
        with subscribed(broker.url, handler, ca_file=certificate) as subscriber:
            until_connected(subscriber)
    assert handler.payloads() == sent, "and all was acknowledged at the end"


@pytest.mark.mosquitto
def test_a_full_queue_leaves_the_rest_to_the_broker(tmp_path: Path) -> None:
    """Check that at most one buffer beyond the queue limit is read."""
    handler = Handler()
    sent = numbers(1_000, size=5_000)
    with mosquitto(tmp_path) as broker, subscribed(broker.url, handler, queue_size=50) as subscriber:
        until_connected(subscriber)
        handler.is_open.clear()
        broker.publish(DOCK, sent)
        assert 50 <= steady(lambda: subscriber.state().received) < 200
        handler.is_open.set()
        wait_for(lambda: len(handler.messages) == 1_000, SOON)
    assert handler.payloads() == sent


@pytest.mark.mosquitto
def test_reads_wait_at_the_broker_while_another_process_holds_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    migrate.migrate(tmp_path)
    site = make_site(organizations.add_organization(shell(), "Acme").id)
    other = sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
    with mosquitto(tmp_path) as broker, subscribed(broker.url) as subscriber:
        until_connected(subscriber)
        other.execute("BEGIN IMMEDIATE")
        publish(broker.url, csl(seen(site.epcs[0])))
        wait_for(lambda: "Another process" in subscriber.state().store_problem, SOON)
        other.execute("ROLLBACK")
        wait_for(lambda: buckets() == {"recorded": (1, 1)}, SOON, lambda: str(buckets()))
        wait_for(lambda: subscriber.state().store_problem == "", SOON)
    other.close()
    close_database()


@pytest.mark.parametrize(
    ("url", "port"),
    [("mqtt://broker", 1883), ("mqtts://broker", 8883), ("mqtt://broker:1", 1), ("mqtts://broker:2", 2)],
)
def test_default_port(monkeypatch: pytest.MonkeyPatch, url: str, port: int) -> None:
    asked: list[int] = []

    def connect(_client: object, _host: str, at: int, **_: object) -> None:
        asked.append(at)
        raise ConnectionRefusedError

    monkeypatch.setattr(subscriber_module.Client, "connect", connect)
    with subscribed(url, Handler()):
        wait_for(lambda: asked, SOON)
    assert set(asked) == {port}


@pytest.mark.parametrize(
    ("topic", "payload", "is_seen"), [("own", b"7", True), ("own", b"", False), ("doctor", b"7", False)]
)
def test_only_its_own_marker_proves_that_earlier_messages_have_arrived(
    topic: str, payload: bytes, is_seen: bool
) -> None:
    one = Subscriber(Broker("mqtt://127.0.0.1:1", "edge"), ["#"], Handler(), queue_size=10, batch_size=10)
    one._marker_sent = 7
    name = one._ping_topic if topic == "own" else subscriber_module.DOCTOR_TOPIC
    one._enqueue(delivery(payload, 1, name.encode()), 1, 0, 1)
    one._wake_read.close()
    one._wake_write.close()
    assert (one._marker_seen == 7) is is_seen


def test_its_turns_wait_only_for_the_known_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the pause of a small batch it looks without waiting, or the commit would be late."""
    times: set[float] = set()

    def noted(*arguments: Any) -> Any:
        times.add(arguments[3])
        return select.select(*arguments)

    monkeypatch.setattr(subscriber_module, "select", SimpleNamespace(select=noted))
    handler = Handler()
    handler.is_open.clear()  # a commit would end the pause early
    with FakeBroker() as broker, subscribed(broker.url, handler) as subscriber:
        wait_for(lambda: subscriber.state().is_connected, SOON)
        broker.send(delivery(b"one", 1))
        wait_for(lambda: len(times) == 3, SOON, lambda: str(times))
        handler.is_open.set()
    assert times == {0, subscriber_module.PAUSE_SECONDS, subscriber_module.TURN_SECONDS}


def test_of_a_message_that_is_too_large_enough_is_kept_to_identify_the_sender() -> None:
    assert 1_000 <= KEPT_OF_LARGER <= LARGEST_PAYLOAD


def test_a_ping_is_due_after_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now, sent = [100.0], []
    one = Subscriber(Broker("mqtt://127.0.0.1:1", "edge"), ["#"], Handler(), queue_size=10, batch_size=10)
    monkeypatch.setattr(subscriber_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(one._client, "publish", lambda *_, **__: sent.append(now[0]))
    one._is_connected, one._ping_sent, one._marker_sent = True, 100.0, one._marker
    for now[0] in (109.9, 110.0, 111.0, 120.0):
        one._ping()
    one._wake_read.close()
    one._wake_write.close()
    assert sent == [110.0, 120.0]
