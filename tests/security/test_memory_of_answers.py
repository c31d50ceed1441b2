"""Whoever the box connects to may send anything: what it reads is bounded before memory is reserved for it."""

from __future__ import annotations

import socket
import ssl
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from edge.events.delivery import Message, Outcome, Result
from edge.events.mqtt import Broker, OutputCommands
from edge.events.mqtt_session import MAX_PACKET
from edge.ingest import sessions
from edge.outbound import Network
from edge.rules.channels.compose import Outgoing
from edge.rules.channels.kinds.email.mail import MailServer
from edge.rules.channels.kinds.email.mail_settings import MailSettings, Security
from edge.sync import enrollment
from edge.sync.client import MAX_ANSWER, HubClient
from edge.sync.sender import LinkError
from tests.ingest.subscribed import Handler, subscribed
from tests.service import wait_for
from tests.sync import tls

MOST = 8_000_000  # bytes; each attack would take many times more
PLAIN = ssl.create_default_context()
MAIL = Outgoing("edge.1", "Pallet 1 left", "Pallet 1 left hall 2 at 08:15")
EVENT = Message("evt_1_aa", "asset.moved", {}, b"{}")
HUGE = 200_000_000
CONNACK = b"\x20\xff\xff\xff\x5f"  # of 200 MB


@contextmanager
def partner(
    greeting: bytes, piece: bytes, total: int, *, waits: bool = False, certificate: tls.Certificate | None = None
) -> Iterator[int]:
    """Run a server that sends a greeting and then pieces until `total` bytes are sent or the box closes."""
    stopping = threading.Event()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if certificate:
        context.load_cert_chain(certificate.file, certificate.key)

    def encrypted(plain: socket.socket) -> socket.socket:
        return context.wrap_socket(plain, server_side=True) if certificate else plain

    def serve(listening: socket.socket) -> None:
        with suppress(OSError):
            while not stopping.is_set():
                with suppress(OSError), encrypted(listening.accept()[0]) as accepted:
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
        commands = OutputCommands(sessions.Broker(f"mqtt://127.0.0.1:{port}", "edge").address)
        with closing(commands):
            assert peak_of(lambda: commands.send("a", "on")) < MOST


def test_the_main_broker_sends_one_packet_of_256_megabytes() -> None:
    """Its beginning is recorded as unreadable; of its rest nothing is kept."""
    packet = b"\x20\x02\x00\x00" + b"\x30\xff\xff\xff\x7f" + b"\x00\x03a/b"
    handler = Handler()
    with partner(packet, bytes(1_000_000), 60_000_000, waits=True) as port:

        def receive() -> None:
            with subscribed(f"mqtt://127.0.0.1:{port}", handler):  # the second connection comes after all of the first
                wait_for(lambda: len(handler.messages) > 1, 60.0)

        assert peak_of(receive) < MOST
    assert [message.topic for message in handler.messages[:2]] == ["a/b", "a/b"]
    assert all(len(message.payload) < MAX_PACKET < message.size for message in handler.messages)


@pytest.mark.real_time  # OpenSSL compares certificates with the time of the machine
def test_the_hub_of_a_join_code_with_its_own_authority(tmp_path: Path) -> None:
    content = b'{"a":[' + b"[]," * 10_000_000 + b"1]}"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content)
    certificate = tls.make(tmp_path / "tls")
    with partner(head, content, len(content), waits=True, certificate=certificate) as port:
        code = enrollment.JoinCode(f"https://127.0.0.1:{port}", "secret", certificate.authority.read_text())

        def ask() -> None:
            with enrollment.client(code) as client:
                with pytest.raises(LinkError, match="too much memory"):
                    client.preview(code.secret, b"")
                with pytest.raises(LinkError, match="too much memory"):
                    client.join(code.secret, "test")

        assert peak_of(ask) < MOST


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
