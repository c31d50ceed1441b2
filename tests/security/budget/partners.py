"""Partners of the box that send answers without an end: a mail server, a broker of events, and a hub."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from edge.audit.actors import Actor, shell
from edge.database.connection import FILE_NAME, close_database, open_database
from edge.events import destinations
from edge.events.destinations import DestinationKind, NewDestination
from edge.events.log import KINDS, Filter
from edge.outbound import Network
from edge.people import organizations, secrets
from edge.rules.channels import channels
from edge.rules.channels.channels import NewChannel, Schedule
from edge.sync import files
from edge.sync.store import hub_link, site_lifecycle, sites
from edge.sync.store.hub_link import HubAccess
from tests.security.budget.box import Box

HUGE = 300_000_000  # bytes that each partner would send
PIECE = bytes(65_536)
CONNACK = b"\x20\xff\xff\xff\x7f"  # of 256 MB
TOKEN = b'{"access_token":"x"}'


def greet(client: socket.socket, _count: int) -> None:
    """Send a greeting of SMTP that does not end."""
    _send_without_end(client, b"220-" + b"x" * 500 + b"\r\n")


def announce(client: socket.socket, _count: int) -> None:
    """Answer CONNECT with one huge packet."""
    client.recv(4096)
    client.sendall(CONNACK)
    _send_without_end(client, PIECE)


def answer_as_hub(client: socket.socket, count: int) -> None:
    """Give a token, then answer with JSON that takes 60 times its size, for as long as it is read."""
    for _ in range(4):
        asked = client.recv(65_536)
        if b"/oauth/token" in asked:
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(TOKEN), TOKEN))
        elif asked:
            size = 57_000_000 if count % 2 else 23_000_000  # beyond the largest answer, and below it
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            client.sendall(b'{"a":[' + b"[]," * (size // 3 - 3) + b"1]}")


def _send_without_end(client: socket.socket, piece: bytes) -> None:
    for _ in range(HUGE // len(piece)):
        client.sendall(piece)


@contextmanager
def hostile_partners() -> Iterator[tuple[dict[str, int], Counter[str]]]:
    """Run the servers. Yields their ports, and the number of conversations with each."""
    conversations: Counter[str] = Counter()
    ports: dict[str, int] = {}

    def serve(name: str, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                with listening.accept()[0] as client, suppress(OSError):
                    client.settimeout(20)
                    conversations[name] += 1
                    {"mail": greet, "broker": announce, "hub": answer_as_hub}[name](client, conversations[name])

    with ExitStack() as stack:
        for name in ("mail", "broker", "hub"):
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            stack.callback(listening.shutdown, socket.SHUT_RDWR)
            ports[name] = listening.getsockname()[1]
            threading.Thread(target=serve, args=(name, listening), daemon=True).start()
        yield ports, conversations


def partners(box: Box, seconds: float) -> Counter[str]:
    """Partners of the box: answers without an end, again and again. Counts the conversations."""
    open_database(box.service.data_dir / FILE_NAME)
    actor = shell(organizations.list_organizations()[0].id)
    try:
        with hostile_partners() as (ports, conversations):
            tests = _connect(box, actor, ports)
            end = time.monotonic() + 3 * seconds + 10
            while time.monotonic() < end and box.is_alive() and min(map(conversations.__getitem__, ports)) < 3:
                for request in tests:
                    request()
                time.sleep(0.5)
            return Counter(conversations)
    finally:
        close_database()


def _connect(box: Box, actor: Actor, ports: dict[str, int]) -> list[Callable[[], None]]:
    settings = {
        "host": "127.0.0.1", "port": ports["mail"], "security": "none", "user": "", "sender": "edge@example.com",
        "recipients": ["lead@example.com"],
    }  # fmt: skip
    empty = secrets.seal("")
    channel = channels.add(actor, NewChannel("email", "Lead", settings, b"", Schedule(), Network.LOOPBACK))
    url = f"mqtt://127.0.0.1:{ports['broker']}"
    new = NewDestination(
        DestinationKind.MQTT, "Plant", url, empty, Filter(frozenset(KINDS)), Network.LOOPBACK, "site/x"
    )
    destination = destinations.add(actor, new)
    for site in sites.list_sites(actor.organization_id):
        site_lifecycle.remove(actor, site.no)
    files.write(box.service.data_dir, "secret", "")
    hub_link.begin(actor, HubAccess(f"http://127.0.0.1:{ports['hub']}", "SITE", "Hub", "id"))
    return [lambda: channels.request_test(actor, channel.no), lambda: destinations.request_test(actor, destination.no)]
