"""Whoever the box connects to may send anything: what it reads is bounded before memory is reserved for it."""

from __future__ import annotations

import socket
import ssl
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from edge.events.delivery import Message, Outcome, Result
from edge.events.mqtt import Broker
from edge.ingest import sessions
from edge.ingest.output_commands import OutputCommands
from edge.outbound import Network
from edge.rules.channels.compose import Outgoing
from edge.rules.channels.kinds.email.mail import MailServer
from edge.rules.channels.kinds.email.mail_settings import MailSettings, Security
from edge.sync.client import HubClient
from edge.sync.hub_connection import MAX_ANSWER
from edge.sync.sender import LinkError

MOST = 8_000_000  # bytes; each attack would take many times more
PLAIN = ssl.create_default_context()
MAIL = Outgoing("edge.1", "Pallet 1 left", "Pallet 1 left hall 2 at 08:15")
EVENT = Message("evt_1_aa", "asset.moved", {}, b"{}")
HUGE = 200_000_000
CONNACK = b"\x20\xff\xff\xff\x5f"  # of 200 MB


@contextmanager
def partner(greeting: bytes, piece: bytes, total: int, *, waits: bool = False) -> Iterator[int]:
    """Run a server that sends a greeting and then pieces until `total` bytes are sent or the box closes."""
    stopping = threading.Event()

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while not stopping.is_set():
                with listening.accept()[0] as accepted, suppress(OSError):
                    if waits:
                        accepted.recv(10_000)
                    accepted.sendall(greeting)
                    sent = 0
                    while sent < total and not stopping.is_set():
                        accepted.sendall(piece)
                        sent += len(piece)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        listening.settimeout(None)
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            stopping.set()
            with suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            thread.join(60)
            assert not thread.is_alive()


def peak_of(act: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        act()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("security", [Security.NONE, Security.STARTTLS])
@pytest.mark.parametrize("piece", [b"220-" + b"x" * 500 + b"\r\n", b"x" * 50_000], ids=["lines", "one line"])
def test_a_mail_server_whose_greeting_does_not_end(security: Security, piece: bytes) -> None:
    with partner(b"", piece * (1 + 100_000 // len(piece)), 60_000_000) as port:
        settings = MailSettings("127.0.0.1", port, security, "", "edge@example.com", ("lead@example.com",))
        outcomes: list[Outcome] = []

        def send() -> None:
            outcomes.append(MailServer(settings, "", Network.LOOPBACK, PLAIN).send(MAIL))

        assert peak_of(send) < MOST
        assert outcomes[0].result is Result.FAILED


def test_a_broker_of_events_that_announces_200_megabytes() -> None:
    with partner(CONNACK, bytes(1_000_000), 60_000_000, waits=True) as port:
        broker = Broker(f"mqtt://127.0.0.1:{port}", "", "a", Network.LOOPBACK, PLAIN, "edge")
        with closing(broker):
            assert peak_of(lambda: broker.send(EVENT)) < MOST


def test_a_broker_of_commands_that_announces_200_megabytes() -> None:
    with partner(CONNACK, bytes(1_000_000), 60_000_000, waits=True) as port:
        commands = OutputCommands(sessions.Broker(f"mqtt://127.0.0.1:{port}", "edge"))
        with closing(commands):
            assert peak_of(lambda: commands.send("a", "on")) < MOST


def test_a_hub_that_answers_with_many_values() -> None:
    content = b'{"a":[' + b"[]," * 10_000_000 + b"1]}"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content)

    def ask(client: HubClient) -> None:
        with pytest.raises(LinkError, match="too much memory"):
            client.preview("secret", b"")

    def follow(client: HubClient) -> None:
        client._token = "token"
        with pytest.raises(LinkError):
            client.call("masters", b"")

    with (
        partner(head, content, len(content), waits=True) as port,
        closing(HubClient(f"http://127.0.0.1:{port}", "id", "secret", None)) as client,
    ):
        assert peak_of(lambda: ask(client)) < MOST
        assert peak_of(lambda: follow(client)) < 3.1 * MAX_ANSWER
