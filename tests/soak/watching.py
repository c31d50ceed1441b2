"""Outside view of a site: a reader with numbered reads, an API client that counts them, and an availability monitor."""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import re
import ssl
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion


class Reader:
    """Publishes numbered reads, each at its own millisecond, and records the unacknowledged ones."""

    def __init__(self, port: int, topic: str, tag: str, name: str, password: str) -> None:
        self._topic, self._tag = topic, tag
        self._last = 0
        # Two threads append without a lock, because the client holds its own lock during callbacks.
        self._published: deque[tuple[int, int]] = deque()
        self._confirmed: deque[tuple[int, int]] = deque()  # message id, milliseconds
        self._waiting: dict[int, int] = {}
        self.acknowledged_at: dict[int, int] = {}  # by the millisecond of the read
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        self._client.username_pw_set(name, password)
        self._client.reconnect_delay_set(0.2, 1)
        self._client.on_publish = lambda *given: self._confirmed.append((given[2], time.time_ns() // 1_000_000))
        self._client.connect_async("127.0.0.1", port)
        self._client.loop_start()

    def publish(self) -> None:
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        read = {"tag": self._tag, "antenna": 1, "time": self._last}
        message = self._client.publish(self._topic, json.dumps({"reads": [read]}), qos=1)
        self._published.append((message.mid, self._last))

    @contextmanager
    def publishing(self, rate: float) -> Iterator[None]:
        """Publish while the block runs."""
        stopping = threading.Event()

        def run() -> None:
            while not stopping.wait(1 / rate):
                self.publish()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join()

    def acknowledged(self) -> set[int]:
        """Return all reads that the broker has acknowledged. None of them may be lost."""
        unknown = []
        while self._confirmed:
            mid, at = self._confirmed.popleft()
            while mid not in self._waiting and self._published:
                self._waiting.update([self._published.popleft()])
            if mid in self._waiting:
                self.acknowledged_at[self._waiting.pop(mid)] = at
            else:
                unknown.append((mid, at))  # acknowledged before the publishing call returned
        self._confirmed.extend(unknown)
        return set(self.acknowledged_at)

    def wait_until_acknowledged(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.acknowledged()
            if not self._waiting and not self._published:
                return
            time.sleep(0.05)

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class Api:
    """A client with an API key that was created on the pages."""

    def __init__(self, base: str, context: ssl.SSLContext | None = None) -> None:
        self.base = base
        self._context = context
        self._token = ""
        self._key: dict[str, str] = {}

    def mint_key(self, email: str, password: str) -> None:
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        browser = urllib.request.build_opener(jar)

        def post(path: str, **form: str) -> str:
            page = browser.open(self.base + path).read().decode()
            form["csrf"] = re.findall(r'name="csrf" value="([^"]+)"', page)[-1]
            return str(browser.open(self.base + path, urllib.parse.urlencode(form).encode()).read().decode())

        post("/sign-in", email=email, password=password)
        page = post("/keys/new", name="soak", assets="write", locations="read", tracking="read")
        self._key = {
            name: re.findall(rf'id="{name}"[^>]*>([^<]+)<', page)[0] for name in ("client_id", "client_secret")
        }

    def use_key_of(self, other: Api) -> None:
        self._key = other._key

    def use_credentials(self, client_id: str, client_secret: str) -> None:
        self._key = {"client_id": client_id, "client_secret": client_secret}

    def try_once(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Like `ask`, for clients that run while the service is away: an exception means no answer."""
        return self.ask(method, path, body)

    def rows(self, asset_id: int) -> list[tuple[int, str, int | None]]:
        """Return the whole history, oldest first: milliseconds, location, seconds at the previous location."""
        rows: list[tuple[int, str, int | None]] = []
        while True:
            page = self.get(f"/api/v1/assets/{asset_id}/history?sort=event_observed_at&limit=200&offset={len(rows)}")
            rows += [
                (_milliseconds(row["event_observed_at"]), row["location_external_key"], row["duration_seconds"])
                for row in page["data"]
            ]
            if len(page["data"]) < 200:
                return rows

    def has_asset(self, asset_id: int) -> bool:
        """Look the asset up by id: lists hide records created with a clock ahead until that time."""
        return self.ask("GET", f"/api/v1/assets/{asset_id}")[0] == 200

    def get(self, path: str) -> Any:
        return self.ask("GET", path)[1]

    def ask(self, method: str, path: str, body: Any = None, retry: bool = True) -> tuple[int, Any]:
        if not self._token:
            self._sign_in()
        status, answer = self._send(method, path, body, {"Authorization": f"Bearer {self._token}"})
        if status == 401 and retry:
            self._token = ""
            return self.ask(method, path, body, retry=False)
        return status, answer

    def history(self, asset_id: int, since: int, until: int) -> Counter[int]:
        """Count the history rows in a range, by millisecond."""
        counts: Counter[int] = Counter()
        while True:
            between = urllib.parse.urlencode({"from": _wire(since), "to": _wire(until)})
            page = self.get(f"/api/v1/assets/{asset_id}/history?{between}&limit=200&offset={counts.total()}")["data"]
            counts.update(_milliseconds(row["event_observed_at"]) for row in page)
            if len(page) < 200:
                return counts

    def _sign_in(self) -> None:
        status, answer = self._send(
            "POST", "/api/v1/oauth/token", {"grant_type": "client_credentials", **self._key}, {}
        )
        if status != 200:
            raise RuntimeError(f"{status} {answer}")
        self._token = answer["access_token"]

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> tuple[int, Any]:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"User-Agent": "edge-soak/1", "Content-Type": "application/json", **headers}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        for _ in range(100):
            try:
                with urllib.request.urlopen(request, timeout=20, context=self._context) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code != 429:
                    return error.code, json.loads(error.read() or b"null")
                time.sleep(float(error.headers["Retry-After"]))
        raise RuntimeError("rate limited for ever")


class Watch:
    """Polls /healthz and records the longest time without status 200."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._down_since: float | None = None
        self._longest = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def begin(self) -> None:
        self._longest = 0.0

    def downtime(self) -> float:
        return self._longest

    def is_up(self) -> bool:
        return self._down_since is None

    def wait_until_up(self, seconds: float = 120) -> None:
        """Wait until the service is up after an outage; call it after causing one."""
        deadline = time.monotonic() + seconds
        while not self.is_up():
            if time.monotonic() > deadline:
                raise TimeoutError("the service does not come back")
            time.sleep(0.05)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            asked = time.monotonic()
            if self._answers():
                if self._down_since is not None:
                    self._longest = max(self._longest, time.monotonic() - self._down_since)
                self._down_since = None
            elif self._down_since is None:
                self._down_since = asked

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=1)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        except http.client.HTTPException:
            return False
        finally:
            connection.close()


def _wire(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
