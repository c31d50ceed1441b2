"""Drill: a hub with 40 live sites, 50 open streams, a webhook that takes 12 s an answer, and one that is quick.

python -m tests.soak.crowd [SECONDS] [REAL_SITES]

The hub is a real service. Some sites are processes with a database of their own; the others speak the protocol over the
same HTTP interface. It fails if a stream ends, a site falls behind, or the quick webhook misses an event.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import FILE_NAME, close_database, open_database
from edge.events import destinations
from edge.events.destinations import DestinationKind, NewDestination
from edge.events.log import KINDS, Filter
from edge.outbound import Network
from edge.people import api_keys, secrets
from edge.people.secrets import hash_secret, new_client_secret, new_webhook_secret
from edge.sync import batch_format
from edge.sync.client import HubClient
from edge.sync.sender import LinkError, Sender
from edge.sync.store.exchange import AssetRecord, Batch, Cursor, LocationRecord, Origin, Patch, Stay, TrackState
from tests.bench.events import Listener
from tests.events.receiver import Received, receiving
from tests.service import Service, free_port, wait_for
from tests.sync.processes import Process
from tests.sync.world import Hub, SiteBox

SITES, STREAMS, STREAMS_OF_KEY = 40, 50, 17
MOVE_EVERY = 2.0


class Events:
    """The ids of the received events."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def take(self, event: dict[str, Any]) -> None:
        self.ids.add(event["id"])


class SimulatedSite:
    """Reports the moves of one asset, like a site, without a database."""

    def __init__(self, url: str, key: tuple[str, str], name: str, stopping: threading.Event) -> None:
        self.moves, self.faults, self.longest = 0, [""] * 0, 0.0
        self._client, self._name, self._stopping = HubClient(url, *key, None), name, stopping
        self._cursor = Cursor(f"epoch-{name}", 0, b"")
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        greeting = {"versions": [1], "instance": self._name, "former": [], "report": {}, "box": f"box-{self._name}"}
        has_greeted = False
        while not self._stopping.wait(MOVE_EVERY):
            began = time.monotonic()
            try:
                if not has_greeted:
                    cursor = [self._cursor.epoch, 0, ""]
                    self._client.call("hello", batch_format.pack({**greeting, "cursor": cursor}))
                    has_greeted = True
                self._report()
            except LinkError as error:
                self.faults.append(str(error))
            self.longest = max(self.longest, time.monotonic() - began)

    def _report(self) -> None:
        at, place = clock.now(), 1 + self.moves % 2
        first = self.moves == 0
        record = (f"{self._name}-A", "Pallet", None, 1, "{}", at, None, at, at, None, ())
        places = [
            LocationRecord(n, None, f"DOCK-{n}", f"Dock {n}", None, 1, at, None, at, at, None, ()) for n in (1, 2)
        ]
        batch = Batch(
            self._cursor.acked_seq + 1, 0, [AssetRecord(3, *record)] if first else [], places if first else [],
            {7: "Gate"}, {}, [TrackState(1, 3, place, at, at, at, 0, 0)], [], [Origin(place, 7, 1, None)],
            [Patch(1, at, at, [Stay(at, 0, 0, 0, 0, 0, 0, None)])],
        )  # fmt: skip
        body = batch_format.encode(self._cursor, batch)
        answer = self._client.call("changes", body)
        if not answer["applied"]:
            self.faults.append(f"not applied: {answer}")
            return
        self._cursor = Cursor(self._cursor.epoch, batch.until_seq, batch_format.next_chain(self._cursor.chain, body))
        self.moves += 1


def real_site(box: SiteBox, url: str, key: tuple[str, str]) -> None:
    """Move an asset and sync like the service, in a process of its own."""
    open_database(box.folder / FILE_NAME)
    step = 0
    while True:
        client = HubClient(url, *key, None)
        try:
            sender = Sender(client.call)
            sender.connect()
            while True:
                step += 1
                box.scan_now(box.pallet, step % 3, clock.now())
                while not sender.push().is_all:
                    pass
                time.sleep(MOVE_EVERY)
        except LinkError:
            time.sleep(1)


def _answers(url: str) -> bool:
    address = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((address.hostname, address.port)) == 0


def main() -> None:
    seconds, real_count = (int(word) for word in [*sys.argv[1:], *["300", "10"][len(sys.argv) - 1 :]])
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        hub = Hub(folder / "hub", "hub")
        boxes = [SiteBox(folder / f"R{n}", f"R{n}", hub) for n in range(real_count)]
        for box in boxes:
            box.pallet = box.add_asset(f"{box.name}-A")
            box.join()
        codes = [f"V{n}" for n in range(SITES - real_count)]
        for code in codes:
            hub.add_site(code)
        quick, slow = stack.enter_context(receiving()), stack.enter_context(receiving())
        slow.answer = lambda _: time.sleep(12) or 204  # type: ignore[func-returns-value]  None is falsy
        with hub.in_use():
            for number, url in enumerate((slow.url, quick.url)):
                secret = secrets.seal(new_webhook_secret())
                events = Filter(frozenset(KINDS), None)
                new = NewDestination(DestinationKind.WEBHOOK, f"W{number}", url, secret, events, Network.LOOPBACK)
                destinations.add(hub.actor, new)
            keys = []
            for number in range(3):
                secret_text = new_client_secret()
                scopes = ("assets:read", "tracking:read")
                key = api_keys.add_key(shell(hub.organization_id), f"S{number}", scopes, hash_secret(secret_text))
                keys.append((key.id, secret_text))
        site_keys = dict(hub.rows("SELECT code, api_key_id FROM site"))
        service = stack.enter_context(Service(hub.folder, f"mqtt://127.0.0.1:{free_port()}"))
        service.start()
        wait_for(lambda: service.has_logged("event logging started"), 60, service.read_log)
        wait_for(lambda: _answers(service.http), 60, service.read_log)
        taken, streams = Events(), [Events() for _ in range(STREAMS)]

        def take(one: Received) -> int:
            taken.take(one.event)
            return 204

        quick.answer = take
        url, stopping = service.http, threading.Event()
        listeners = [
            Listener(service.http, keys[n // STREAMS_OF_KEY], events)  # type: ignore[arg-type]  it only calls `take`
            for n, events in enumerate(streams)
        ]
        close_database()
        processes = [
            Process(lambda box=box: real_site(box, url, (site_keys[box.name], f"secret {box.name}")))  # type: ignore[misc]
            for box in boxes
        ]
        simulated = [SimulatedSite(url, (site_keys[code], f"secret {code}"), code, stopping) for code in codes]
        cpu, began = service.cpu_seconds(), time.monotonic()
        while time.monotonic() - began < seconds:
            time.sleep(10)
            sizes = sorted(len(events.ids) for events in streams)
            print(f"{time.monotonic() - began:.0f} s: streams have {sizes[0]} to {sizes[-1]} events, the quick webhook "
                  f"{len(taken.ids)}, the slow one got {len(slow.received)}", flush=True)  # fmt: skip
        stopping.set()
        for process in processes:
            process.kill()
        for site in simulated:
            site.thread.join(30)
        time.sleep(5)
        spent = (service.cpu_seconds() - cpu) / (time.monotonic() - began)
        hub_rows = hub.rows("SELECT count(*) FROM history h JOIN track t ON t.no = h.position_no "
                            "JOIN site s ON s.no = t.site_no WHERE s.code LIKE 'V%'")[0][0]  # fmt: skip
        moves, faults = sum(site.moves for site in simulated), [fault for site in simulated for fault in site.faults]
        # The webhook also has the events from before the streams were opened.
        missing = [len(streams[0].ids ^ events.ids) + len(events.ids - taken.ids) for events in streams]
        print(f"{moves} moves of simulated sites, {hub_rows} rows at the hub, faults: {faults[:3]} ({len(faults)}), "
              f"longest report {max(site.longest for site in simulated):.1f} s; hub {spent:.1%} of a core; streams "
              f"that differ: {sum(map(bool, missing))}, by at most {max(missing)}")  # fmt: skip
        for box in boxes:
            rows = box.rows("SELECT count(*) FROM history")[0][0]
            print(f"{box.name}: {rows} rows, acknowledged {box.rows('SELECT acked_seq FROM target')[0][0]}", flush=True)
        sys.exit(hub_rows != moves or bool(faults) or any(missing) or len(listeners) != STREAMS)


if __name__ == "__main__":
    main()
