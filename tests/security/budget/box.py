"""The whole service in a cgroup of the unit's size, with accounts of all roles, a site and a reader."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database, execute, execute_many, writing
from edge.people import api_keys, organizations, people, sessions
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_client_secret
from edge.people.sign_in import csrf_token
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.sync.store import sites
from tests.mosquitto import mosquitto
from tests.security.budget.cgroup import Group, limited, memory_max
from tests.service import LedgerReader, Service, wait_for
from tests.soak.crash import TOPIC, epc_of, numbered

TAGS = 100
LARGE_ASSETS = 400
TAGGED_ASSETS = 120
LARGE_METADATA = json.dumps({"a": "x" * 64_000})
HISTORY = 150_000  # rows in the files
PROMPT_SECONDS = 1.0  # limit for /healthz
PATIENCE = 60.0
SETTLE_SECONDS = 300.0  # limit for recording all queued messages
LARGE_FILE = "/static/x/vendor/zxing-wasm/zxing_reader.wasm"


class Accounts(NamedTuple):
    cookies: dict[Role, str]
    key: tuple[str, str]  # of the attacker
    other_key: tuple[str, str]  # of somebody else, whose rate limit the attacker cannot use up
    site: tuple[str, str]


def make_site(data_dir: Path, history: int = HISTORY) -> Accounts:
    migrate.migrate(data_dir)
    known = organizations.list_organizations()
    who = shell((known or [organizations.add_organization(shell(), "Budget")])[0].id)
    with writing():
        dock = locations.create(who, name="Dock", external_key="DOCK").id
        readers.add_reader(who, name="dock", topic=TOPIC, format="csl", location_id=dock)
        tagged = [assets.create(who, name=f"Pallet {n:03}", tags=[NewTag("rfid", epc_of(n))]).id for n in range(TAGS)]
        for number in range(LARGE_ASSETS):
            assets.create(who, name=f"Large {number}", metadata=LARGE_METADATA)
        for number in range(TAGGED_ASSETS):
            many = [NewTag("barcode", f"{number}-{one}") for one in range(400)]
            assets.create(who, name=f"Tagged {number}", tags=many)
        _add_history(who.organization_id, dock, tagged, history)
        cookies = {}
        for role in Role:
            row, cookies[role] = people.add_person(who, f"A {role}", role), f"cookie-of-{role}"
            until = clock.now() + 10 * clock.HOUR
            sessions.add_session(
                actors.person(who.organization_id, row.id, row.name), hash_secret(cookies[role]), until
            )
        secret, code = new_client_secret(), "code"
        key, other = (
            api_keys.add_key(who, name, api_keys.SCOPES, hash_secret(secret)).id for name in ("Attacker", "Watch")
        )
        sites.add_site(who, "SITE", "A site", hash_secret(code))
        site = sites.join(hash_secret(code), hash_secret(secret))
        assert site
        assert site.api_key_id
    close_database()
    return Accounts(cookies, (key, secret), (other, secret), (site.api_key_id, secret))


def _add_history(organization_id: int, dock: int, asset_ids: list[int], rows: int) -> None:
    """Create stays of one minute each, the newest of them today."""
    sql = "INSERT INTO source (organization_id, location_id) VALUES (?, ?) RETURNING no"
    source = execute(sql, (organization_id, dock)).fetchone()[0]
    each, now = rows // len(asset_ids), clock.now()
    for asset_id in asset_ids:
        moments = [now - (each - n) * 60 * clock.SECOND for n in range(each)]
        track = execute(
            "INSERT INTO track (asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, "
            "row_seq, history_rows) VALUES (?, ?, ?, ?, ?, ?, 0, ?) RETURNING no",
            (asset_id, organization_id, dock, moments[-1], moments[-1], moments[-1], each),
        ).fetchone()[0]
        execute_many(
            "INSERT INTO history (position_no, observed_at, seq, seen_for, source_no, delay, quality) "
            "VALUES (?, ?, 0, 1000000, ?, 0, 1)",
            [(track, moment, source) for moment in moments],
        )


class Broker(Protocol):
    def publish(self, topic: str, payloads: Iterable[bytes]) -> None: ...


class Box:
    """The running service and its clients' credentials."""

    def __init__(self, service: Service, accounts: Accounts, broker: Broker, group: Group) -> None:
        self.service = service
        self.accounts = accounts
        self.broker = broker
        self.group = group
        self.address = ("127.0.0.1", int(service.http.rpartition(":")[2]))
        self.published = 0
        self._recorded_before = 0

    def bearer(self, key: tuple[str, str]) -> dict[str, str]:
        body = {"grant_type": "client_credentials", "client_id": key[0], "client_secret": key[1]}
        asked = urllib.request.Request(
            self.service.http + "/api/v1/oauth/token",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "User-Agent": "budget/1"},
        )
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return {"Authorization": f"Bearer {json.load(answer)['access_token']}", "User-Agent": "budget/1"}

    def browser(self, role: Role) -> dict[str, str]:
        cookie = self.accounts.cookies[role]
        return {"Cookie": f"edge_session={cookie}", "X-CSRF-Token": csrf_token(cookie)}

    def is_alive(self) -> bool:
        assert self.service.process
        return self.service.process.poll() is None and not self.group.kills()

    def peak_megabytes(self) -> int:
        """Return the peak of resident memory since the start."""
        assert self.service.process
        status = Path(f"/proc/{self.service.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) >> 10

    def health_seconds(self) -> float:
        """Return the time of /healthz from another address in seconds; infinite if it failed."""
        began = time.monotonic()
        try:
            with socket.create_connection(self.address, PATIENCE, source_address=("127.0.0.77", 0)) as client:
                client.sendall(b"GET /healthz HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
                answer = b"".join(iter(lambda: client.recv(4096), b""))
        except OSError:
            return float("inf")
        return time.monotonic() - began if answer.startswith(b"HTTP/1.1 200") else float("inf")

    def create_seconds(self, bearer: dict[str, str]) -> float:
        """Return the time of creating an asset from another address in seconds; infinite if it failed."""
        began, body = time.monotonic(), b'{"name":"Watched"}'
        lines = [f"{name}: {value}" for name, value in bearer.items()]
        lines += ["Host: box", "Connection: close", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        try:
            with socket.create_connection(self.address, PATIENCE, source_address=("127.0.0.78", 0)) as client:
                client.sendall("\r\n".join(["POST /api/v1/assets HTTP/1.1", *lines, "", ""]).encode() + body)
                answer = b"".join(iter(lambda: client.recv(4096), b""))
        except OSError:
            return float("inf")
        return time.monotonic() - began if answer.startswith(b"HTTP/1.1 201") else float("inf")

    def reads_recorded(self) -> int:
        reader = LedgerReader(self.service.data_dir)
        try:
            return reader.ledger().get("recorded", (0, 0))[1] - self._recorded_before
        finally:
            reader.close()

    def publish(self, reads: int) -> None:
        self.broker.publish(TOPIC, numbered(reads))
        self.published += reads


@contextmanager
def box(folder: Path, *, history: int = HISTORY, **settings: object) -> Iterator[Box]:
    data_dir = folder / "data"
    data_dir.mkdir()
    accounts = make_site(data_dir, history)
    with ExitStack() as stack:
        broker = stack.enter_context(mosquitto(folder))
        group = stack.enter_context(limited(memory_max()))
        service = stack.enter_context(Service(data_dir, broker.url, ingest__sighting_gap_seconds=0, **settings))
        service.enter_group = group.enter
        service.start()
        service.wait_until_connected()
        started = Box(service, accounts, broker, group)
        wait_for(lambda: started.health_seconds() < PROMPT_SECONDS, PATIENCE, service.read_log)
        yield started


class Watch:
    """Polls /healthz, publishes reads and creates assets all the time. `waits` and `creates` are in seconds."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._stopping = threading.Event()
        self._bearer = box.bearer(box.accounts.other_key)
        self._threads = [threading.Thread(target=run) for run in (self._ask, self._read, self._create)]
        self.waits: list[float] = []
        self.creates: list[float] = []

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        while not self._stopping.wait(0.1):
            self.waits.append(self._box.health_seconds())

    def _read(self) -> None:
        while not self._stopping.wait(0.5):
            self._box.publish(20)

    def _create(self) -> None:
        while not self._stopping.wait(0.1):
            self.creates.append(self._box.create_seconds(self._bearer))

    def check(self, prompt: float = PROMPT_SECONDS) -> None:
        """Raise AssertionError unless the service survived, responded in time and recorded every read."""
        assert self._box.is_alive(), "the service was killed"
        wait_for(lambda: self._box.reads_recorded() == self._box.published, SETTLE_SECONDS)
        longest = max(self.waits, default=float("inf"))
        assert longest < prompt, f"/healthz took {longest:.1f} s"
        assert self._box.peak_megabytes() << 20 < memory_max()
