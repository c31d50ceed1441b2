"""The MQTT side of ingest: its network thread takes messages for the `writer` and acknowledges what that committed.

A message is acknowledged only after its transaction. When the queue is full the network thread stops reading from
the socket, so the broker holds the rest. It runs its own loop around paho's non-blocking calls: paho's own thread
would go on reading, and would end silently on an exception in a callback.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.reasoncodes import ReasonCode

from edge import clock
from edge.clock import SECOND
from edge.ingest.messages import Message
from edge.ingest.mqtt_framing import Delivery, Wire
from edge.ingest.sessions import REFUSED, Broker, Client, Session, connect, deliveries, make_client
from edge.ingest.writer import Writer
from edge.validation.topics import DOCTOR_TOPIC, matches

log = logging.getLogger(__name__)

PING_EVERY_SECONDS = 10.0
PING_LOST_SECONDS = 45.0
TURN_SECONDS = 0.5
PAUSE_SECONDS = 0.02
SURELY_QUIET = 3  # pauses; TCP may keep back what the broker sends for two
WORTH_A_TURN = 64  # messages
MAX_BACKOFF_SECONDS = 30.0
LARGEST_PAYLOAD = 1_048_576
KEPT_OF_LARGER = 4_096  # enough to tell which reader sent it


class State(NamedTuple):
    """What the subscriber knows of itself, for health and metrics."""

    is_running: bool
    is_connected: bool
    problem: str  # empty, or why there is no connection or no subscription
    queued: int
    in_hand: int
    seconds_since_round_trip: float | None
    seconds_since_commit_progress: float
    received: int
    store_problem: str
    sessions: frozenset[int] = frozenset()  # beside the first, that are connected and subscribed


class Use(NamedTuple):
    """What the sessions beside the first are for."""

    numbers: frozenset[int] = frozenset()  # those that get the messages of a reader
    ignored: Mapping[int, Sequence[str]] = MappingProxyType({})  # topics that the first one still gets, by session


class Subscriber:
    """Takes messages from the broker and hands them in batches to `handle`, which commits them; see `Writer`."""

    def __init__(
        self,
        broker: Broker,
        topics: Sequence[str],
        handle: Callable[[Sequence[Message]], int],
        *,
        queue_size: int,
        batch_size: int,
        catch_up: Callable[[], bool] = lambda: False,
        sessions: int = 1,
    ) -> None:
        """`sessions`: see `edge.ingest.sessions`; with more than one, the broker must have an account for each."""
        self._broker = broker
        self._topics = topics
        self._stopping = threading.Event()
        self._wake_read, self._wake_write = _wake_pipe()
        self._writer = Writer(
            handle, catch_up, self._wake, queue_size=queue_size, batch_size=batch_size, stopping=self._stopping
        )
        self._connections = itertools.count(1)
        self._connection = 0
        self._beside = [Session(broker, number, topics) for number in range(1, sessions)]
        self._use = Use()
        self._is_connected = False
        self._problem = "not connected yet"
        self._refusal = ""  # of the sign-in, by the broker
        self._ping_sent = self._ping_seen = 0.0
        self._received = 0
        self._newest = 0
        self._ping_topic = f"edge/ping/{broker.client_id}"
        self._client = self._make_client()
        # A daemon is left behind when it does not stop in time: nothing it has in hand was acknowledged.
        self._network = threading.Thread(target=self._run_network, name="mqtt", daemon=True)

    def start(self) -> None:
        self._writer.thread.start()
        self._network.start()

    def stop(self, seconds: float = 4.0) -> None:
        """Take nothing more, commit and acknowledge what was taken, say goodbye."""
        self._stopping.set()
        self._writer.wake()
        self._wake()
        deadline = time.monotonic() + seconds
        for thread in (self._writer.thread, self._network):
            thread.join(max(0.1, deadline - time.monotonic()))
            if thread.is_alive():
                log.error("The %s thread did not stop within %s seconds", thread.name, seconds)
        self._wake_write.close()

    def requeue(self, dead_letter_id: int, topic: str, payload: bytes, received_at: int) -> None:
        """Take a message that was set aside once more, with the time it was received then; from any thread.

        What was set aside goes in the transaction of whatever becomes of it now, so that a crash loses nothing.
        """
        self._writer.requeue(Message(topic, payload, received_at, dead_letter_id=dead_letter_id))

    def use_sessions(self, use: Use) -> None:
        """From any thread, from the next message on."""
        self._use = use

    def state(self) -> State:
        now = time.monotonic()
        ready = frozenset(session.number for session in self._beside if session.is_ready)
        return State(
            self._network.is_alive() and self._writer.thread.is_alive(),
            self._is_connected,
            self._problem or self._problem_beside(),
            self._writer.queued(),
            self._writer.in_hand,
            now - self._ping_seen if self._ping_seen else None,
            self._writer.seconds_since_progress(),
            self._received,
            self._writer.store_problem,
            ready,
        )

    def _problem_beside(self) -> str:
        for session in self._beside:
            if session.number in self._use.numbers and not session.is_ready:
                return f"session {session.number}, of some readers, is not connected: {session.problem}"
        return ""

    # The network thread ---------------------------------------------------------------------------------------

    def _make_client(self) -> Client:
        client = make_client(self._broker)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        return client

    def _run_network(self) -> None:
        backoff = 1.0
        while not self._stopping.is_set():
            try:
                self._connect()
                self._serve_connection()
                backoff = 1.0 if self._ping_seen else backoff
            except OSError as error:
                problem = (
                    "the connection to broker {} was lost" if self._is_connected else "broker {} cannot be reached"
                )
                self._lost(f"{problem.format(_host_of(self._broker.url))}: {error}")
            except Exception:
                self._lost("an unexpected error ended the connection to the broker; see the log")
                log.exception("The connection to the broker ended unexpectedly; connecting again")
            for session in self._beside if not self._stopping.is_set() else ():
                session.lost("waits for the first session")
            if self._stopping.wait(backoff):
                break
            backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
        self._say_goodbye()

    def _connect(self) -> None:
        self._connection = next(self._connections)
        self._refusal, self._ping_seen = "", 0.0
        connect(self._client, self._broker)

    def _serve_connection(self) -> None:
        """Until the connection is lost or the service stops."""
        self._ping_sent = time.monotonic()
        has_paused, quiet = False, SURELY_QUIET  # the pauses since something came
        while not self._stopping.is_set() and self._client.socket():
            wire = self._client.wire
            has_room = self._writer.has_room()
            wires = [wire, *self._wires_beside()]
            patience = PAUSE_SECONDS if quiet < SURELY_QUIET else TURN_SECONDS
            readable, writable, _ = select.select(
                [self._wake_read.fileno(), *(one.fileno() for one in wires if has_room)],
                [one.fileno() for one in wires if one.wants_write()],
                [],
                0 if has_paused or (has_room and any(one.holds_back() for one in wires)) else patience,
            )
            if self._wake_read.fileno() in readable:
                self._wake_read.recv(4096)
            taken = self._take() if has_room else 0
            for one in wires:
                one.flush()
            self._acknowledge()
            self._ping()
            self._client.loop_misc()
            if taken:
                quiet = 0
            elif quiet < SURELY_QUIET and not readable and not writable:
                quiet += 1
                self._writer.be_quiet(is_sure=quiet == SURELY_QUIET)
            has_paused = 0 < taken < WORTH_A_TURN and self._pause()

    def _pause(self) -> bool:
        """While messages trickle in, look for them fifty times a second and not for each: a turn costs far more.

        It ends when something was committed, since the broker may wait for us to acknowledge; then it is False.
        """
        return not select.select([self._wake_read.fileno()], [], [], PAUSE_SECONDS)[0]

    def _wires_beside(self) -> Iterator[Wire]:
        """Of the sessions beside the first, once that one is connected."""
        for session in self._beside if self._is_connected else ():
            session.connect_if_due(self._connections.__next__)
            if wire := session.wire:
                yield wire

    def _take(self) -> int:
        """How many messages there were."""
        count = self._enqueue_all(deliveries(self._client), 0, self._connection)
        for session in self._beside:
            if session.wire:
                count += self._enqueue_all(session.take(), session.number, session.connection)
        if count:
            self._writer.wake()
        return count

    def _enqueue_all(self, found: list[Delivery], session: int, connection: int) -> int:
        for moment, delivery in enumerate(found, start=self._moment(len(found))):
            self._enqueue(delivery, moment, session, connection)
        return len(found)

    def _acknowledge(self) -> None:
        """What was taken on an earlier connection is not acknowledged on this one: the broker has sent it again."""
        done = self._writer.take_done()
        if done and self._client.socket():
            self._client.wire.acknowledge(mid for mid, connection in done if connection == self._connection)
        for session in self._beside:
            session.tend(done)

    def _ping(self) -> None:
        """A message to ourselves shows that the whole way through the broker works."""
        now = time.monotonic()
        if self._is_connected and now - self._ping_sent >= PING_EVERY_SECONDS:
            self._ping_sent = now
            self._client.publish(self._ping_topic, b"", qos=0)

    def _say_goodbye(self) -> None:
        self._writer.thread.join()
        with contextlib.suppress(OSError):  # a broker that is gone sends again what it saw no acknowledgement of
            self._acknowledge()
        for session in self._beside:
            session.leave()
        self._client.disconnect()
        self._wake_read.close()

    def _on_connect(self, client: mqtt.Client, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any) -> None:
        if reason.is_failure:
            self._refusal = str(reason)
            return
        client.subscribe([(topic, 1) for topic in (*self._topics, self._ping_topic)])

    def _on_subscribe(
        self, client: mqtt.Client, _data: Any, _mid: int, granted: list[ReasonCode], _properties: Any
    ) -> None:
        refused = [
            topic
            for topic, code in zip((*self._topics, self._ping_topic), granted, strict=False)
            if code.value >= REFUSED
        ]
        if refused:
            self._problem = f"the broker does not let us subscribe to {', '.join(refused)}; check its ACL"
            log.error("MQTT: %s", self._problem)
        else:
            log.info("MQTT: connected to %s", _host_of(self._broker.url))
            self._problem = ""
        self._is_connected = True
        client.publish(self._ping_topic, b"", qos=0)

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any) -> None:
        if self._stopping.is_set():
            return
        host = _host_of(self._broker.url)
        if self._refusal:
            self._lost(f"broker {host} refused the connection: {self._refusal}")
        else:
            self._lost(f"the connection to broker {host} was lost: {reason}")

    def _lost(self, problem: str) -> None:
        if self._is_connected or problem != self._problem:
            log.warning("MQTT: %s", problem)
        self._is_connected, self._problem = False, problem

    def _is_for_ingest(self, topic: str, session: int) -> bool:
        if session:
            return not any(matches(ignored, topic) for ignored in self._use.ignored.get(session, ()))
        if topic == self._ping_topic:
            self._ping_seen = time.monotonic()
        return topic not in (self._ping_topic, DOCTOR_TOPIC)  # of our own, and no reader's

    def _enqueue(self, delivery: Delivery, received_at: int, session: int, connection: int) -> None:
        topic = delivery.topic.decode("utf-8", "replace")
        if not self._is_for_ingest(topic, session):
            if delivery.qos:  # some brokers raise it to that of the subscription, and wait
                self._writer.put_done(delivery.mid, connection)
            return
        size = len(delivery.payload)
        payload = delivery.payload if size <= LARGEST_PAYLOAD else delivery.payload[:KEPT_OF_LARGER]
        self._writer.put(
            Message(
                topic,
                payload,
                received_at,
                delivery.mid,
                delivery.qos,
                delivery.is_retained,
                delivery.is_redelivered,
                connection,
                size=0 if size <= LARGEST_PAYLOAD else size,
                session=session,
            )
        )
        self._received += 1

    def _moment(self, count: int) -> int:
        """Now, for the first of so many messages, each a microsecond later: two at once would look like a repeat."""
        now = clock.now()
        if 0 <= self._newest - now < SECOND:
            now = self._newest + 1
        self._newest = now + count - 1
        return now

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: it is awake already; closed: it has stopped
            self._wake_write.send(b"\0")


def _wake_pipe() -> tuple[socket.socket, socket.socket]:
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    return reader, writer


def _host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
