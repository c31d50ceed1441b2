"""Two real services, a hub and a site: joined by the command, in sync over HTTP, also after kills."""

from __future__ import annotations

import re
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from edge.database.connection import FILE_NAME
from edge.errors import Unavailable
from edge.sync import worker
from edge.sync.client import HubClient
from edge.sync.sender import LinkError
from edge.sync.store import hub_link
from tests.mosquitto import free_port
from tests.service import ROOT, Service, wait_for

pytestmark = pytest.mark.slow

PASSWORD = "a long enough password\n"


def edge(folder: Path, *arguments: str, text: str = "") -> str:
    command = [sys.executable, "-m", "edge", f"--set=data_dir={folder}", *arguments]
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(folder: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        return connection.execute(sql).fetchall()


def start(folder: Path) -> Service:
    edge(folder, "init", "--org", "Acme", "--email", "a@example.com", text=PASSWORD)
    service = Service(folder, "embedded", mqtt__listen=f"127.0.0.1:{free_port()}", sync__interval_seconds=1)
    service.start()
    wait_for(lambda: service.has_logged("Serving pages"), 30, service.read_log)
    return service


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Service, Service]]:
    """Yield a hub and a site that has joined it."""
    with ExitStack() as stack:
        hub = stack.enter_context(start(tmp_path / "hub"))
        site = stack.enter_context(start(tmp_path / "ber"))
        output = edge(hub.data_dir, "sync", "add-site", "BER", "Berlin", "--url", hub.http)
        code = re.search(r"edge-join-\S+", output)
        assert code
        edge(site.data_dir, "sync", "join", code[0])
        yield hub, site


ASSETS = "SELECT external_key, name FROM asset WHERE deleted_at IS NULL ORDER BY 1"


def test_a_site_and_its_hub_agree_after_kills(pair: tuple[Service, Service]) -> None:
    hub, site = pair
    edge(site.data_dir, "asset", "add", "Pallet", "--key", "P-1")
    wait_for(lambda: rows(hub.data_dir, ASSETS) == [("P-1", "Pallet")], 20, site.read_log)
    edge(hub.data_dir, "asset", "add", "Forklift", "--key", "F-1")
    edge(site.data_dir, "location", "add", "Dock 1", "--key", "DOCK-1")  # the answer announces the hub's new asset
    wait_for(lambda: len(rows(site.data_dir, ASSETS)) == 2, 20, site.read_log)
    hub.kill()
    edge(site.data_dir, "asset", "add", "Crate", "--key", "P-2")
    site.kill()
    hub.start()
    site.start()
    wait_for(lambda: len(rows(hub.data_dir, ASSETS)) == 3, 30, site.read_log)
    status = edge(site.data_dir, "sync", "status")
    assert "running" in status
    assert re.search(r"Changes waiting\s+0\n", status)


def test_a_new_machine_replaces_a_lost_one(pair: tuple[Service, Service], tmp_path: Path) -> None:
    hub, site = pair
    edge(site.data_dir, "location", "add", "Dock 1", "--key", "DOCK-1")
    edge(site.data_dir, "asset", "add", "Pallet", "--key", "P-1", "--tag", "rfid:AA01")
    wait_for(lambda: rows(hub.data_dir, ASSETS) == [("P-1", "Pallet")], 20, site.read_log)
    site.kill()
    new = tmp_path / "new"
    edge(new, "init", "--org", "Acme", "--email", "a@example.com", text=PASSWORD)
    output = edge(hub.data_dir, "sync", "new-code", "BER", "--url", hub.http)
    code = re.search(r"edge-join-\S+", output)
    assert code
    assert "assets: 1" in edge(new, "sync", "recover", code[0])
    ids = "SELECT id, external_key FROM asset UNION SELECT id, external_key FROM location ORDER BY 1"
    assert rows(new, ids) == rows(site.data_dir, ids)
    with pytest.raises(AssertionError, match="Nothing to recover"):
        edge(new, "sync", "recover")


def test_a_code_works_once(pair: tuple[Service, Service], tmp_path: Path) -> None:
    hub, _ = pair
    other = tmp_path / "other"
    edge(other, "init", "--org", "Acme", "--email", "a@example.com", text=PASSWORD)
    output = edge(hub.data_dir, "sync", "add-site", "HAM", "Hamburg", "--url", hub.http)
    code = re.search(r"edge-join-\S+", output)
    assert code
    edge(other, "sync", "join", code[0])
    edge(other, "sync", "leave", "--yes")
    with pytest.raises(AssertionError, match="used or expired"):
        edge(other, "sync", "join", code[0])


def test_a_site_with_a_revoked_key_resumes_with_a_new_code(pair: tuple[Service, Service]) -> None:
    hub, site = pair
    secret = (site.data_dir / "sync-secret").read_text()
    output = edge(hub.data_dir, "sync", "add-site", "HAM", "Hamburg", "--url", hub.http)
    with pytest.raises(AssertionError, match="the code is for HAM"):
        edge(site.data_dir, "sync", "join", re.findall(r"edge-join-\S+", output)[0])
    assert (site.data_dir / "sync-secret").read_text() == secret
    output = edge(hub.data_dir, "sync", "new-code", "BER", "--url", hub.http)
    edge(site.data_dir, "sync", "join", re.findall(r"edge-join-\S+", output)[0])
    assert (site.data_dir / "sync-secret").read_text() != secret
    edge(site.data_dir, "asset", "add", "Pallet", "--key", "P-1")
    wait_for(lambda: rows(hub.data_dir, ASSETS) == [("P-1", "Pallet")], 60, site.read_log)


def test_a_failing_store_does_not_end_the_thread(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recording the fault in the store fails as well."""
    rounds = threading.Semaphore(0)

    def refuse(*_: object, **__: object) -> None:
        rounds.release()
        raise Unavailable("The disk is full")

    monkeypatch.setattr(worker, "UNEXPECTED_SECONDS", 0.01)
    monkeypatch.setattr(hub_link, "find", refuse)
    monkeypatch.setattr(hub_link, "update", refuse)
    running = worker.SyncWorker(store, worker.SyncPace(0.01, 0, 1), lambda: False)
    running.start_if_needed()
    try:
        assert all(rounds.acquire(timeout=5) for _ in range(6))
        assert running.is_running()
    finally:
        running.stop()


@pytest.mark.parametrize("asked", ["99999999999", "9" * 400, "²"])
def test_retry_after_is_limited_to_an_hour(asked: str) -> None:
    answer = b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\nRetry-After: %s\r\n\r\n{}" % asked.encode()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_answer_once, args=(listening, answer))
        thread.start()
        client = HubClient(f"http://127.0.0.1:{listening.getsockname()[1]}", "id", "secret", None)
        with closing(client), pytest.raises(LinkError) as output:
            client.join("code", "production")
        thread.join()
    assert output.value.wait_seconds <= 3600


def _answer_once(listening: socket.socket, answer: bytes) -> None:
    with listening.accept()[0] as connection:
        connection.recv(10_000)
        connection.sendall(answer)
