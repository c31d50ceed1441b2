"""A hub, a site and a connection-cutting proxy with TLS, as processes that can be killed at any moment.

They are forks of the test, so they restart within milliseconds; the tests check the data left on disk.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import waitress

from edge.audit.actors import person
from edge.database.connection import FILE_NAME, close_database, open_database
from edge.errors import EdgeError
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.records import assets
from edge.sync.client import HubClient
from edge.sync.sender import LinkError, Sender
from tests.application import make_app
from tests.sync.tls import Certificate
from tests.sync.world import EPOCH, GAP, HOUR, SECOND, SiteBox

_fork = multiprocessing.get_context("fork")


class Process:
    """A process that can be killed and restarted in the same role."""

    def __init__(self, role: Callable[[], None]) -> None:
        self._role = role
        self.start()

    def start(self) -> None:
        close_database()
        self._process = _fork.Process(target=self._run, daemon=True)
        self._process.start()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def _run(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        logging.disable()
        self._role()


def hub(folder: Path, port: int) -> None:
    """Run the hub's server on a local port."""
    open_database(folder / FILE_NAME)
    app = make_app()
    waitress.serve(app, host="127.0.0.1", port=port, threads=2, clear_untrusted_proxy_headers=True)


def proxy(port: int, to: int, certificate: Certificate, seed: int, cuts: float) -> None:
    """Terminate TLS and cut a share of the connections, before the request or before the answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    chance = random.Random(f"{seed} {os.getpid()}")
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        outside, _ = listener.accept()
        fate = chance.choice(["question", "answer"]) if chance.random() < cuts else ""
        threading.Thread(target=_carry, args=(context, outside, to, fate), daemon=True).start()


def _carry(context: ssl.SSLContext, outside: socket.socket, to: int, fate: str) -> None:
    with (
        suppress(OSError),
        context.wrap_socket(outside, server_side=True) as client,
        socket.create_connection(("127.0.0.1", to)) as server,
    ):
        if fate == "question":
            client.recv(100)
            return
        threading.Thread(target=_pump, args=(server, client, fate == "answer"), daemon=True).start()
        _pump(client, server, False)


def _pump(source: socket.socket, sink: socket.socket, is_cut: bool) -> None:
    """Copy data until one side ends; with `is_cut`, end at the first byte of the answer, after the hub's commit."""
    with suppress(OSError):
        while data := source.recv(65536):
            if is_cut:
                break
            sink.sendall(data)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def site(box: SiteBox, url: str, key: tuple[str, str], authority: Path, seed: int) -> None:
    """Record scans and changes, and send them to the hub as fast as possible."""
    open_database(box.folder / FILE_NAME)
    chance = random.Random(f"{seed} {os.getpid()}")
    threading.Thread(target=_live, args=(box, chance), daemon=True).start()
    send(url, key, authority, lambda: False)


def _live(box: SiteBox, chance: random.Random) -> None:
    open_database(box.folder / FILE_NAME)
    ids = [row[0] for row in box.rows("SELECT id FROM asset WHERE deleted_at IS NULL")]
    hand = person(box.organization_id, box.rows("SELECT id FROM person")[0][0], "Ann")
    while True:
        with suppress(EdgeError):  # refused, so nothing has changed
            at = EPOCH + chance.randrange(500) * HOUR // 10
            action = chance.random()
            if action < 0.85:
                box.scan_now(chance.choice(ids), chance.randrange(3), at)
            elif action < 0.95:
                scan = f"scan-{chance.randrange(10**9)}"
                scans.submit(hand, [Submitted(scan, "P-1", box.docks[0], at)], at + SECOND)
                if action < 0.9:
                    scans.undo(hand, scan, GAP)
            else:
                assets.patch(box.actor, chance.choice(ids), {"name": f"Pallet {chance.randrange(99)}"})
        time.sleep(0.002)


def send(url: str, key: tuple[str, str], authority: Path, is_enough: Callable[[], bool]) -> None:
    """Sync like the worker of the service, without pauses."""
    while not is_enough():
        client = HubClient(url, *key, authority)
        try:
            sender = Sender(client.call)
            sender.connect()
            while not is_enough():
                if sender.push().is_all:
                    sender.pull()
                    time.sleep(0.005)
        except LinkError:
            time.sleep(0.02)
        finally:
            client.close()
