"""Trial of a new release on a copy of the site, with its own broker and ports to keep both apart."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from edge.database.integrity import open_read_only
from edge.errors import SetupError
from edge.readers.ledger import NO_READER
from edge.readers.reader_messages import ReaderMessage
from edge.tracking import copies

START_SECONDS = 60.0  # a Raspberry Pi takes two
ARRIVAL_SECONDS = 20.0
LEAST_START_SECONDS = 5.0
_PAGES = ("/sign-in", "/", "/scan", "/locations", "/readers", "/people", "/keys", "/devices", "/status", "/labels.pdf")


class Synthetic(NamedTuple):
    """Records made in the copy for the trial: an asset, an API key and a signed-in person."""

    asset_key: str
    location_key: str
    client_id: str
    client_secret: str
    cookie: str


@contextmanager
def broker(folder: Path) -> Iterator[int]:
    """Run mosquitto for the trial. Yields its port on 127.0.0.1."""
    port = free_port()
    settings = folder / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n", "utf-8")
    with _running(["mosquitto", "-c", str(settings)], folder / "mosquitto.log") as process:
        _wait(lambda: _is_listening(port), process, folder / "mosquitto.log", "the broker of the trial", 10)
        yield port


@contextmanager
def service(command: Sequence[str], folder: Path, base: str) -> Iterator[float]:
    """Run `edge serve` during the block. Yields the seconds it took to answer.

    Raises SetupError with its last log line if it ends or does not answer within a minute.
    """
    log, began = folder / "serve.log", time.monotonic()
    with _running(command, log) as process:
        _wait(lambda: _is_well(base), process, log, "the new release", START_SECONDS)
        yield time.monotonic() - began


def wait_until_ready(base: str) -> None:
    """Wait until the service is ready to take reads, at most ARRIVAL_SECONDS."""
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while time.monotonic() < deadline:
        with suppress(SetupError):
            _answer(f"{base}/readyz", {})
            return
        time.sleep(0.1)


def follow_read(base: str, made: Synthetic, publish: Callable[[], None]) -> None:
    """Publish a read and wait for its position in the API. Raises SetupError if it does not appear."""
    token = _api(base, "/api/v1/oauth/token", None, grant_type="client_credentials", client_id=made.client_id,
                 client_secret=made.client_secret)["access_token"]  # fmt: skip
    path = f"/api/v1/reports/asset-locations?asset_external_key={made.asset_key}"
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while [row["location_external_key"] for row in _api(base, path, token)["data"]] != [made.location_key]:
        if time.monotonic() > deadline:
            raise SetupError(f"a published read did not update the current location within {ARRIVAL_SECONDS:.0f} s")
        publish()  # again: the service may not have subscribed yet
        time.sleep(0.5)


def replay(
    file: Path, messages: Sequence[ReaderMessage], publish: Callable[[str, bytes], None], expected: Outcome | None
) -> tuple[Outcome, str]:
    """Publish messages to the service with database `file`. Returns the outcome and its difference from `expected`.

    Ends when all messages have an outcome and it is the expected one, at most after ARRIVAL_SECONDS.
    """
    ids = {message.reader_id for message in messages}
    before = outcome(file, ids)
    for message in messages:
        publish(message.topic, message.payload)
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while True:
        present = outcome(file, ids).since(before)
        is_settled = present.messages() >= len(messages) and not present.held
        fault = difference(expected, present, reader_names(file)) if expected else ""
        if (is_settled and not fault) or time.monotonic() > deadline:
            return present, fault
        time.sleep(0.2)


def open_pages(base: str, made: Synthetic) -> None:
    """Open all pages. Raises SetupError for a page that fails, or a board without the asset."""
    for path in _PAGES:
        text = _answer(base + path, {"Cookie": f"edge_session={made.cookie}"})
        if path == "/" and made.asset_key.encode() not in text:
            raise SetupError("the Assets page does not show an asset that was just seen")


def _api(base: str, path: str, token: str | None, **body: str) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = json.dumps(body).encode() if body else None
    answer: dict[str, Any] = json.loads(_answer(base + path, headers, data))
    return answer


def _answer(url: str, headers: Mapping[str, str], data: bytes | None = None) -> bytes:
    """Return the body of an answer. Raises SetupError for any status but success."""
    request = urllib.request.Request(url, data, {"User-Agent": "edge-trial/1", **headers})  # noqa: S310  http://127.0.0.1
    path = request.selector.partition("?")[0]
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310  the trial's own address
            content: bytes = response.read()
            return content
    except urllib.error.HTTPError as error:
        raise SetupError(f"{path} answers {error.code}") from error
    except (OSError, HTTPException) as error:
        raise SetupError(f"{path} does not respond: {error}") from error


def _is_well(base: str) -> bool:
    try:
        _answer(f"{base}/healthz", {})
    except SetupError:
        return False
    return True


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603  our own programs
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(happened: Callable[[], bool], process: subprocess.Popen[bytes], log: Path, what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        if process.poll() is not None:
            raise SetupError(f"{what} stopped at startup: {_last_line(log)}")
        if time.monotonic() > deadline:
            raise SetupError(f"{what} did not respond within {seconds:.0f} s: {_last_line(log)}")
        time.sleep(0.1)


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it logged nothing"


def start_limit(started: float, migrated: float) -> int:
    """Return the start timeout in seconds at the site, from the times measured in the trial.

    The site is offline during a start, so it is short: a release that never becomes ready costs this plus the rollback.
    """
    return ceil(max(LEAST_START_SECONDS, 2 * started) + 2 * migrated)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _is_listening(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


Counts = Mapping[tuple[int, str], int]  # messages by reader and bucket


class Outcome(NamedTuple):
    """`held`: messages waiting until their reader's clock is known."""

    counts: Counts
    positions: Mapping[int, int]  # location id by asset id
    held: int

    def since(self, before: Outcome) -> Outcome:
        """Return the messages added after `before`, with the present positions."""
        counts = {key: number - before.counts.get(key, 0) for key, number in self.counts.items()}
        return self._replace(counts={key: number for key, number in counts.items() if number})

    def messages(self) -> int:
        return sum(self.counts.values())


def outcome(path: Path, reader_ids: Collection[int]) -> Outcome:
    """Read the ledger of these readers, and all positions. Repeats count as recorded: they were read correctly."""
    with closing(open_read_only(path)) as copy:
        counts: dict[tuple[int, str], int] = {}
        for reader_id, bucket, messages in copy.execute("SELECT reader_id, bucket, messages FROM ledger"):
            if reader_id in reader_ids or reader_id == NO_READER:
                key = reader_id, "recorded" if bucket == "repeat" else bucket
                counts[key] = counts.get(key, 0) + messages
        positions = copies.read_positions(copy.execute)
        held = sum(number for (_, bucket), number in counts.items() if bucket == "held")
    return Outcome(counts, positions, held)


def reader_names(path: Path) -> dict[int, str]:
    """Return the names of all readers in the copy, by id."""
    with closing(open_read_only(path)) as copy:
        return dict(copy.execute("SELECT id, name FROM reader"))


def difference(before: Outcome, after: Outcome, names: Mapping[int, str]) -> str:
    """Describe how the outcome of a release differs from the previous one's; empty if it does not."""
    for key in sorted({*before.counts, *after.counts}, key=lambda key: (key[0] == NO_READER, key)):
        reader_id, bucket = key
        was, now = before.counts.get(key, 0), after.counts.get(key, 0)
        if was != now:
            name = f"reader {names[reader_id]}" if reader_id in names else "topics without a reader"
            return f"of {name}, {now} messages are counted as {bucket.replace('_', ' ')}, in the running release {was}"
    moved = [asset for asset, location in before.positions.items() if after.positions.get(asset) != location]
    if moved:
        return f"{len(moved)} assets are at another location than in the running release"
    return ""
