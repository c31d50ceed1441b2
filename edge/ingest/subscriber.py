"""MQTT client of ingest: its network thread queues messages for the `writer` and acknowledges committed ones.

A message is acknowledged only after its transaction. When the queue is full, the network thread stops reading from the
socket and the broker holds the rest. The thread runs its own loop around paho's non-blocking calls. paho's own thread
would continue to read, and would end silently on an exception in a callback.
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
from edge.ingest.sessions import REFUSED, Attempts, Broker, Client, Session, connect, deliveries, make_client
from edge.ingest.writer import Writer
from edge.texts import N_, fill
from edge.validation.topics import DOCTOR_TOPIC, matches

log = logging.getLogger(__name__)

PING_EVERY_SECONDS = 10.0
PING_LOST_SECONDS = 45.0
TURN_SECONDS = 0.5

LOST = N_("the connection to broker %(host)s was lost: %(reason)s")
UNREACHABLE = N_("broker %(host)s cannot be reached: %(reason)s")
REFUSED_BY = N_("broker %(host)s refused the connection: %(reason)s")
DENIED = N_("the broker denied the subscription to %(topics)s; check its ACL")
PAUSE_SECONDS = 0.02
SURELY_QUIET = 3  # pauses; TCP may delay data for two
WORTH_A_TURN = 64  # messages
MAX_BACKOFF_SECONDS = 30.0
LARGEST_PAYLOAD = 1_048_576
KEPT_OF_LARGER = 4_096  # bytes; enough to identify the sender


class State(NamedTuple):
    """State of the subscriber, for health checks and metrics."""

    is_running: bool
    is_connected: bool
    problem: str  # empty, or the reason for a missing connection or subscription
    queued: int
    in_hand: int
    seconds_since_round_trip: float | None
    seconds_since_commit_progress: float
    received: int
    store_problem: str
    sessions: frozenset[int] = frozenset()  # additional sessions that are connected and subscribed

    @property
    def figures(self) -> dict[str, float]:
        return {
            "connected": self.is_connected,
            "queued_messages": self.queued,
            "messages_in_hand": self.in_hand,
            "received_messages": self.received,
            "store_refuses": bool(self.store_problem),
        }


class Use(NamedTuple):
    """Assignment of the additional sessions."""

    numbers: frozenset[int] = frozenset()  # sessions that receive the messages of a reader
    ignored: Mapping[int, Sequence[str]] = MappingProxyType({})  # topics that session 0 still receives, by session


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
        catch_up: Callable[[bool], bool] = lambda _: False,
        sessions: int = 1,
    ) -> None:
        """Prepare the threads; `start` starts them.

        `sessions`: see `edge.ingest.sessions`. With more than one, the broker needs an account for each.
        """
        self._broker = broker
        self._topics = topics
        self._stopping = threading.Event()
        self._wake_read, self._wake_write = _wake_pipe()
        self._writer = Writer(
            handle, catch_up, self._wake, queue_size=queue_size, batch_size=batch_size, stopping=self._stopping
        )
        self._connections = itertools.count(1)
        self._connection = 0
        self._additional = [Session(broker, number, topics) for number in range(1, sessions)]
        self._attempts = Attempts()
        self._use = Use()
        self._is_own: Callable[[str], bool] = lambda _: False
        self._marker = self._marker_sent = self._marker_seen = 0  # see `drain`
        self._is_connected = False
        self._problem = N_("not connected yet")
        self._refusal = ""  # reason why the broker refused the connection
        self._ping_sent = self._ping_seen = 0.0
        self._received = 0
        self._newest = 0
        self._ping_topic = f"edge/ping/{broker.client_id}"
        self._client = self._make_client()
        # A daemon thread may be abandoned at exit: its pending messages are not acknowledged.
        self._network = threading.Thread(target=self._run_network, name="mqtt", daemon=True)

    def start(self) -> None:
        self._writer.thread.start()
        self._network.start()

    def stop(self, seconds: float = 4.0) -> None:
        """Stop reading, commit and acknowledge the queued messages, then disconnect. Waits at most `seconds`."""
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
        """Queue a dead letter again with its original time of receipt. Thread-safe.

        The dead letter is deleted in the transaction that records its new outcome, so a crash loses nothing.
        """
        self._writer.requeue(Message(topic, payload, received_at, dead_letter_id=dead_letter_id))

    def use_sessions(self, use: Use) -> None:
        """Set the assignment of the additional sessions, starting with the next message. Thread-safe."""
        self._use = use

    def drain(self, seconds: float) -> bool:
        """Return True if everything that waited for session 0 at the broker has arrived and is committed. Thread-safe.

        An empty queue here is no proof: the broker may hold more. It delivers messages in order, so this publishes one
        and waits for it.
        """
        self._marker += 1
        marker, deadline = self._marker, time.monotonic() + seconds
        self._wake()
        while self._is_connected and time.monotonic() < deadline:
            if self._marker_seen == marker and not self._writer.queued() and not self._writer.in_hand:
                return True
            if self._stopping.wait(PAUSE_SECONDS):
                break
        return False

    def state(self) -> State:
        now = time.monotonic()
        ready = frozenset(session.number for session in self._additional if session.is_ready)
        return State(
            self._network.is_alive() and self._writer.thread.is_alive(),
            self._is_connected,
            self._problem or self._session_problem(),
            self._writer.queued(),
            self._writer.in_hand,
            now - self._ping_seen if self._ping_seen else None,
            self._writer.seconds_since_progress(),
            self._received,
            self._writer.store_problem,
            ready,
        )

    def _session_problem(self) -> str:
        for session in self._additional:
            if session.number in self._use.numbers and session.problem:
                return f"session {session.number}, of some readers, is not connected: {session.problem}"
        return ""

    # Network thread -------------------------------------------------------------------------------------------

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
                with self._broker.address.talking():
                    self._connect()
                    self._serve_connection()
                backoff = 1.0 if self._ping_seen else backoff
            except OSError as error:
                problem = LOST if self._is_connected else UNREACHABLE
                self._lost(fill(problem, host=_host_of(self._broker.url), reason=str(error)))
            except Exception:
                self._lost(N_("an unexpected error ended the connection to the broker; see the log"))
                log.exception("Unexpected error in the connection to the broker; reconnecting")
            for session in self._additional if not self._stopping.is_set() else ():
                session.lost("")
            if self._stopping.wait(backoff):
                break
            backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)
        self._shut_down()

    def _connect(self) -> None:
        self._connection = next(self._connections)
        self._refusal, self._ping_seen = "", 0.0
        connect(self._client, self._broker)

    def _serve_connection(self) -> None:
        """Serve the connection until it is lost or the service stops."""
        self._ping_sent = time.monotonic()
        has_paused, quiet = False, SURELY_QUIET  # number of pauses since the last message
        while not self._stopping.is_set() and self._client.socket():
            wire = self._client.wire
            has_room = self._writer.has_room()
            wires = [wire, *self._additional_wires()]
            patience = PAUSE_SECONDS if quiet < SURELY_QUIET else TURN_SECONDS
            readable, writable, _ = select.select(
                [self._wake_read.fileno(), *(one.fileno() for one in wires if has_room)],
                [one.fileno() for one in wires if one.wants_write()],
                [],
                0 if has_paused or (has_room and any(one.has_decrypted() for one in wires)) else patience,
            )
            if self._wake_read.fileno() in readable:
                self._wake_read.recv(4096)
            taken = self._take() if has_room else 0
            wire.flush()
            for session in self._additional:
                session.flush()
            self._acknowledge()
            self._ping()
            self._client.loop_misc()
            if taken:
                quiet = 0
            elif quiet < SURELY_QUIET and not readable and not writable:
                quiet += 1
                self._writer.note_pause(is_sure=quiet == SURELY_QUIET)
            has_paused = 0 < taken < WORTH_A_TURN and self._pause()

    def _pause(self) -> bool:
        """Wait 20 ms while few messages arrive, because a loop turn for each message is expensive.

        Returns False if a commit ended the wait early: the broker may be waiting for acknowledgements.
        """
        return not select.select([self._wake_read.fileno()], [], [], PAUSE_SECONDS)[0]

    def _additional_wires(self) -> Iterator[Wire]:
        """Connect at most one additional session, and yield the connections. Session 0 must be connected."""
        if self._is_connected and (due := self._attempts.next(self._additional)):
            due.connect(next(self._connections))
            self._attempts.done(due)
        for session in self._additional if self._is_connected else ():
            if wire := session.wire:
                yield wire

    def _take(self) -> int:
        """Queue the messages that have arrived. Returns their number."""
        count = self._enqueue_all(deliveries(self._client), 0, self._connection)
        for session in self._additional:
            if session.wire:
                count += self._enqueue_all(session.take(), session.number, session.connection)
        if count:
            self._writer.wake()
        return count

    def _enqueue_all(self, taken: list[Delivery], session: int, connection: int) -> int:
        for received_at, delivery in enumerate(taken, start=self._first_receipt(len(taken))):
            self._enqueue(delivery, received_at, session, connection)
        return len(taken)

    def _acknowledge(self) -> None:
        """Acknowledge committed messages of the current connections. The broker resends those of earlier ones."""
        done = self._writer.take_done()
        if done and self._client.socket():
            self._client.wire.acknowledge(mid for mid, connection in done if connection == self._connection)
        for session in self._additional:
            session.acknowledge(done)

    def _ping(self) -> None:
        """Publish a message to ourselves to check the round trip through the broker."""
        now = time.monotonic()
        if self._is_connected and self._marker_sent != self._marker:
            self._marker_sent = self._marker
            # With QoS 0 it would overtake messages that wait for acknowledgements.
            self._client.publish(self._ping_topic, str(self._marker_sent).encode(), qos=1)
        if self._is_connected and now - self._ping_sent >= PING_EVERY_SECONDS:
            self._ping_sent = now
            self._client.publish(self._ping_topic, b"", qos=0)

    def _shut_down(self) -> None:
        self._writer.thread.join()
        with contextlib.suppress(OSError):  # connection lost: the broker resends unacknowledged messages
            self._acknowledge()
        for session in self._additional:
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
            self._problem = fill(DENIED, topics=", ".join(refused))
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
            self._lost(fill(REFUSED_BY, host=host, reason=self._refusal))
        else:
            self._lost(fill(LOST, host=host, reason=str(reason)))

    def _lost(self, problem: str) -> None:
        if self._is_connected or problem != self._problem:
            log.warning("MQTT: %s", problem)
        self._is_connected, self._problem = False, problem

    def ignore(self, is_own: Callable[[str], bool]) -> None:
        """Ignore topics on which edge itself publishes, for brokers that deliver them to edge."""
        self._is_own = is_own

    def _is_for_ingest(self, topic: str, session: int) -> bool:
        if session:
            return not any(matches(ignored, topic) for ignored in self._use.ignored.get(session, ()))
        if topic == self._ping_topic:
            self._ping_seen = time.monotonic()
        return topic not in (self._ping_topic, DOCTOR_TOPIC) and not self._is_own(topic)  # published by edge itself

    def _enqueue(self, delivery: Delivery, received_at: int, session: int, connection: int) -> None:
        topic = delivery.topic.decode("utf-8", "replace")
        if not self._is_for_ingest(topic, session):
            if topic == self._ping_topic and delivery.payload == str(self._marker_sent).encode():
                self._marker_seen = self._marker_sent
            if delivery.qos:  # some brokers raise it to the QoS of the subscription
                self._writer.put_done(delivery.mid, connection)
            return
        size = len(delivery.payload) + delivery.dropped
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

    def _first_receipt(self, count: int) -> int:
        """Reserve `count` times of receipt, one microsecond apart; equal times would look like repeats.

        Returns the first one, in microseconds since the epoch.
        """
        now = clock.now()
        if 0 <= self._newest - now < SECOND:
            now = self._newest + 1
        self._newest = now + count - 1
        return now

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):  # full: already awake; closed: stopped
            self._wake_write.send(b"\0")


def _wake_pipe() -> tuple[socket.socket, socket.socket]:
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    return reader, writer


def _host_of(url: str) -> str:
    address = urlsplit(url)
    return f"{address.hostname}:{address.port}" if address.port else str(address.hostname)
