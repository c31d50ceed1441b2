"""A second edge as the service: a process of its own on a free port of 127.0.0.1, with its own database."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import socket
from pathlib import Path
from typing import Any

import waitress

from edge.database.connection import FILE_NAME, close_database, open_database
from edge.events.checked_connection import trust
from edge.outbound import Network
from edge.people import api_keys
from edge.people.secrets import hash_secret
from edge.records import assets
from edge.upstream.client import SCOPES, Access, Client
from tests.application import make_app
from tests.sync.world import Box

_fork = multiprocessing.get_context("fork")
SECRET = "edge_" + "5" * 64


class Service(Box):
    """Start it while no database of the test is open; it can be stopped and started again on the same port."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, "service")
        self._settings = settings
        with self.in_use():
            self._client_id = api_keys.add_key(self.actor, "Box", SCOPES, hash_secret(SECRET)).id
        self._port = 0
        self._process: Any = None

    @property
    def access(self) -> Access:
        return Access(f"http://127.0.0.1:{self._port}", Network.LOOPBACK, self._client_id, SECRET)

    def client(self) -> Client:
        return Client(self.access, trust(None))

    def start(self) -> None:
        """Listen before the process exists, so that no test waits for it."""
        listener = socket.create_server(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        close_database()
        self._process = _fork.Process(target=self._run, args=(listener,), daemon=True)
        self._process.start()
        listener.close()

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.join()
            self._process = None

    def add_asset(self, key: str, name: str) -> None:
        """Add an asset by somebody else. Its database must be open."""
        assets.create(self.actor, name=name, external_key=key)

    def _run(self, listener: socket.socket) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        logging.disable()
        open_database(self.folder / FILE_NAME)
        waitress.serve(make_app(**self._settings), sockets=[listener], threads=2, clear_untrusted_proxy_headers=True)
