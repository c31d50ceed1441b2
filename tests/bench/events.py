"""Measure the latency of events after a move, and their throughput when many assets move at once.

    python -m tests.bench.events

A real service with a webhook to a receiver in this process, and a client of `GET /events`. Latency is the time from the
commit of a scan until the receiver has the event.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database
from edge.people import api_keys, organizations
from edge.people.secrets import hash_secret, new_client_secret
from tests.bench.ingest import verdict
from tests.bench.sync_line import processor_seconds
from tests.events.conftest import Warehouse
from tests.events.receiver import Received, receiving
from tests.mosquitto import free_port
from tests.service import Service, wait_for

ASSETS = 2000
ROUNDS = 5  # moves of all assets at once
SINGLE_MOVES = 200
PAUSE_SECONDS = 0.07
KINDS = ("asset.arrived", "asset.moved")


class Arrivals:
    """Arrival times of events, by asset and time of the scan."""

    def __init__(self) -> None:
        self.at: dict[tuple[int, str], float] = {}

    def take(self, event: dict[str, object]) -> None:
        data: dict[str, dict[str, int]] = event["data"]  # type: ignore[assignment]
        self.at[data["asset"]["id"], str(event["timestamp"])] = time.perf_counter()


class Listener:
    """A client of `GET /events`."""

    def __init__(self, url: str, client: tuple[str, str], arrivals: Arrivals) -> None:
        self._address = urlsplit(url).netloc
        token = self._token(*client)
        self._connection = http.client.HTTPConnection(self._address, timeout=120)
        self._connection.request(
            "GET", "/events?" + "&".join(f"kind={kind}" for kind in KINDS), headers={"Authorization": token}
        )
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        self._arrivals = arrivals
        threading.Thread(target=self._listen, daemon=True).start()

    def _token(self, client_id: str, secret: str) -> str:
        body = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
        connection = http.client.HTTPConnection(self._address)
        headers = {"Content-Type": "application/json", "User-Agent": "events-bench/1"}
        connection.request("POST", "/api/v1/oauth/token", json.dumps(body), headers)
        return f"Bearer {json.loads(connection.getresponse().read())['access_token']}"

    def _listen(self) -> None:
        for line in self._answer:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if "data" in event:
                    self._arrivals.take(event)


class Bench:
    def __init__(self, folder: Path, warehouse: Warehouse, service: Service) -> None:
        self._warehouse = warehouse
        self._service = service
        self._folder = folder
        self._second = 0
        self.webhook, self.stream = Arrivals(), Arrivals()

    def move(self, ids: list[int], place: str) -> None:
        """Move the assets in one commit."""
        self._second += 1
        self._warehouse.record([(asset_id, place, self._second) for asset_id in ids])

    def all_have(self, number: int) -> Callable[[], bool]:
        return lambda: len(self.webhook.at) >= number <= len(self.stream.at)

    def at_once(self, ids: list[int]) -> None:
        self.move(ids, "north dock")
        wait_for(self.all_have(len(ids)), 120)  # until all arrived
        spent, began = processor_seconds(self._service), time.perf_counter()
        for number in range(ROUNDS):
            self.move(ids, ("south dock", "north dock")[number % 2])
        number = len(ids) * ROUNDS
        wait_for(self.all_have(len(ids) + number), 300)
        spent = processor_seconds(self._service) - spent
        for name, arrivals in (("webhook", self.webhook), ("GET /events", self.stream)):
            seconds = max(arrivals.at.values()) - began
            print(f"{name}: {number / seconds:,.0f} events a second, of {number:,} that happen at once")
        print(f"processor time of an event, told to both: {spent / number * 1e6:.0f} us")

    def one_by_one(self, ids: list[int]) -> None:
        moved: list[float] = []
        before = len(self.webhook.at)
        for asset_id in ids[:SINGLE_MOVES]:
            self.move([asset_id], "north dock")
            moved.append(time.perf_counter())
            time.sleep(PAUSE_SECONDS)
        wait_for(self.all_have(before + SINGLE_MOVES), 60)
        for name, arrivals in (("webhook", self.webhook), ("GET /events", self.stream)):
            newest = sorted(arrivals.at.values())[-SINGLE_MOVES:]
            took = sorted((at - then) * 1000 for then, at in zip(moved, newest, strict=True))
            p99 = took[len(took) * 99 // 100]
            event = f"{name}: a move is told after {statistics.median(took):.0f} ms, 99 of 100 within {p99:.0f} ms"
            print(f"{event}, target 1 s: {verdict(p99 < 1000)}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, receiving() as receiver:
        folder = Path(name)
        migrate.migrate(folder)
        organization_id = organizations.add_organization(shell(), "Acme").id
        warehouse = Warehouse(organization_id)
        warehouse.add_webhook(receiver.url, kinds=KINDS)
        secret = new_client_secret()
        scopes = ("assets:read", "tracking:read")
        key = api_keys.add_key(shell(organization_id), "Screen", scopes, hash_secret(secret))
        ids = [warehouse.add_asset(f"P-{number}") for number in range(ASSETS)]
        with Service(folder, f"mqtt://127.0.0.1:{free_port()}") as service:
            service.start()
            wait_for(lambda: service.has_logged("event logging started"), 60, service.read_log)
            bench = Bench(folder, warehouse, service)

            def take(one: Received) -> int:
                bench.webhook.take(one.event)
                return 204

            receiver.answer = take
            Listener(service.http, (key.id, secret), bench.stream)
            bench.at_once(ids)
            bench.one_by_one(ids)
        close_database()


if __name__ == "__main__":
    main()
