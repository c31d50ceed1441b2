"""Clients that use a site during the faults. Each keeps a record of its acknowledged data."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
import urllib.request
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any, NamedTuple

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

BROKEN_OF_LOST = 0.2  # share of lost packets that break the connection in the middle of a message


class Seen(NamedTuple):
    """A tag at a location, at a time in milliseconds."""

    tag: str
    location: str
    at: int


def _rfc3339(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _impinj(tag: str, at: int) -> Any:
    event = {"epc": urlsafe_b64encode(bytes.fromhex(tag)).decode(), "antennaPort": 1, "peakRssiCdbm": -5500}
    return {"timestamp": _rfc3339(at), "hostname": "r", "eventType": "tagInventory", "tagInventoryEvent": event}


def _zebra(tag: str, at: int) -> Any:
    data = {"antenna": 1, "eventNum": at, "format": "epc", "idHex": tag.lower(), "peakRssi": -55, "reads": 1}
    return {"data": data, "timestamp": _rfc3339(at).replace("Z", "+0000"), "type": "INVENTORY"}


MAKES: dict[str, Callable[[str, int], Any]] = {
    "csl": lambda tag, at: {"tags": [{"epc": tag, "antennaPort": 1, "rssi": -55, "timeStampOfRead": at * 1000}]},
    "zebra": _zebra,
    "impinj": _impinj,
    "edge": lambda tag, at: {"reads": [{"tag": tag, "antenna": 1, "time": at}]},
}


ROUNDING = len(MAKES)  # milliseconds by which a read may be dated ahead, to give each reader its own ones


class Publisher:
    """A reader of one make. Each message has one read, at a millisecond that no other reader uses."""

    def __init__(self, make: str, number: int, port: int, tags: list[str], seed: int) -> None:
        self.location = f"DOCK-{number}"
        self.topic = f"site/{make}/reads"
        self._make, self._number, self._tags = MAKES[make], number, tags
        self._chance = random.Random(seed)
        self._last = 0
        self._published: deque[tuple[int, Seen]] = deque()
        self._confirmed: deque[tuple[int, float]] = deque()
        self._waiting: dict[int, Seen] = {}
        self.acknowledged: dict[Seen, float] = {}  # with the monotonic time
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"reader-{make}", clean_session=False)
        self._client.reconnect_delay_set(0.2, 1)
        self._client.on_publish = lambda *given: self._confirmed.append((given[2], time.monotonic()))
        self._client.connect_async("127.0.0.1", port, keepalive=5)
        self._client.loop_start()

    def step(self) -> None:
        now = time.time_ns() // 1_000_000
        self._last = max(self._last + len(MAKES), now - now % len(MAKES) + self._number)
        seen = Seen(self._chance.choice(self._tags), self.location, self._last)
        message = self._client.publish(self.topic, json.dumps(self._make(seen.tag, seen.at)), qos=1)
        self._published.append((message.mid, seen))

    def settle(self) -> int:
        """Update the record. Returns the number of unacknowledged messages."""
        early = []
        while self._confirmed:
            mid, at = self._confirmed.popleft()
            while mid not in self._waiting and self._published:
                self._waiting.update([self._published.popleft()])
            if mid in self._waiting:
                self.acknowledged[self._waiting.pop(mid)] = at
            else:
                early.append((mid, at))
        self._confirmed.extend(early)
        return len(self._waiting) + len(self._published)

    def acknowledged_since(self, at: int) -> Iterator[tuple[Seen, float]]:
        """Yield the reads since that millisecond, newest first."""
        for seen in reversed(self.acknowledged):
            if seen.at <= at:
                return
            yield seen, self.acknowledged[seen]

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Creator:
    """An API client that creates assets with its own keys. It does not retry unanswered requests."""

    def __init__(self, ask: Callable[..., tuple[int, Any]]) -> None:
        self._ask = ask
        self._count = 0
        self.acknowledged: set[int] = set()

    def step(self) -> None:
        self._count += 1
        key = f"MADE-{self._count}"
        try:
            status, answer = self._ask("POST", "/api/v1/assets", {"name": key, "external_key": key})
        except (OSError, HTTPException, RuntimeError, ValueError):
            return
        if status == 201:
            self.acknowledged.add(answer["data"]["id"])


class Handheld:
    """A handheld that keeps each scan until it is acknowledged, as the scan page does, and sends it again."""

    def __init__(self, base: str, cookie: str, csrf: str, code: str, locations: dict[str, int], seed: int) -> None:
        self._base, self._code, self._locations = base, code, locations
        self._headers = {"Cookie": f"edge_session={cookie}", "X-CSRF-Token": csrf, "User-Agent": "soak/1"}
        self._chance = random.Random(seed)
        self._count = self._last = 0
        self._queue: list[tuple[dict[str, Any], Seen]] = []
        self._at_work = threading.Lock()
        self.acknowledged: set[Seen] = set()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Neither scan nor send while the block runs."""
        with self._at_work:
            yield

    def step(self) -> None:
        with self._at_work:
            self._scan()

    def _scan(self) -> None:
        name = self._chance.choice(list(self._locations))
        self._count += 1
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        scan = {
            "id": f"chaos-scan-{self._count}",
            "code": self._code,
            "location": self._locations[name],
            "at": self._last,
        }
        self._queue.append((scan, Seen(self._code, name, self._last)))
        self.send()

    def send(self) -> int:
        """Send the queue. Returns the number of scans still in it."""
        batch = self._queue[:50]
        body = json.dumps({"sent_at": time.time_ns() // 1_000_000, "items": [scan for scan, _ in batch]}).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._base}/scan/batch", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                results = json.load(answer)["results"]
        except (OSError, HTTPException, ValueError):  # includes all HTTP errors: the scan stays in the queue
            return len(self._queue)
        for (_, seen), result in zip(batch, results, strict=True):
            if result["result"] not in ("recorded", "again"):
                raise AssertionError(f"a scan was answered {result}")
            self.acknowledged.add(seen)
        self._queue = self._queue[len(batch) :]
        return len(self._queue)


class Link:
    """The network between readers and broker. It can be cut, delay packets and lose them."""

    def __init__(self, port: int, seed: int) -> None:
        self._target = port
        self._chance = random.Random(seed)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._sockets: set[socket.socket] = set()
        self.is_cut = False
        self.delay = 0.0  # seconds
        self.loss = 0.0  # share of packets
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.is_cut = True
        for one in list(self._sockets):
            _close(one)

    def close(self) -> None:
        self.cut()
        _close(self._server)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            try:
                if self.is_cut:
                    raise ConnectionError
                far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                _close(near)
                continue
            far.settimeout(None)
            self._sockets |= {near, far}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):  # cut: both ends are closed below
            while data := source.recv(4096):
                time.sleep(self.delay)
                if self._chance.random() < self.loss:
                    time.sleep(0.2)  # time of a retransmission
                    if self._chance.random() < BROKEN_OF_LOST:
                        sink.sendall(data[: len(data) // 2])
                        break
                sink.sendall(data)
        self._sockets -= {source, sink}
        _close(source)
        _close(sink)


def _close(one: socket.socket) -> None:
    with suppress(OSError):  # the other side closed it first
        one.shutdown(socket.SHUT_RDWR)
    one.close()
