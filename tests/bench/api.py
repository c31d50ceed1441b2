"""Measure the API: requests a second of each kind, relative to a bare Flask + waitress application.

    python -m tests.bench.api [--assets 10000] [--seconds 4] [--rounds 3] [--search 100000]

The bare application returns the same bytes, under the same server with the same threads, to the same load generator
(wrk, 8 connections). Both run alternately, because other work on the machine slows both; the median of the rounds
counts. Authentication is on, and so is rate limiting with a raised limit. `--search 0` skips the search of many assets.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from flask import Flask, Response, request
from waitress.server import create_server

from edge import clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import execute, writing
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.people import api_keys, organizations, tokens
from edge.people.secrets import hash_secret
from edge.readers import readers
from edge.records import assets, listing, locations
from edge.records.record import RecordFilter
from edge.records.tags import NewTag
from edge.server import server
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.application import make_app

CONNECTIONS, THREADS = 8, 8
INGEST_RATE, TOPIC = 500, "bench"
NAME_WORDS = (
    "pallet",
    "forklift",
    "crate",
    "drum",
    "box",
    "roll",
    "cage",
    "trolley",
    "tote",
    "rack",
    "motor",
    "pump",
    "valve",
)
QUERIES = ("pallet", "asset", "a", "e0", "zz", "01234", "pump drum", "nothing like it")
AGENT = "bench/1"


class Target(NamedTuple):
    name: str
    method: str
    path: str
    ratio: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--assets", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--search", type=int, default=100_000)
    parser.add_argument("--serve", nargs=2, metavar=("KIND", "DIR"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        organization_id = make_site(data_dir, options.assets)
        token, first = sign_in(organization_id)
        compare(data_dir, token, first, options.seconds, options.rounds)
        time_reads_while_ingesting(data_dir, token, first, options.seconds)
    if options.search:
        with tempfile.TemporaryDirectory() as folder:
            time_search(make_site(Path(folder), options.search))


def make_site(data_dir: Path, count: int) -> int:
    """Create assets with two tags each, all of them scanned."""
    migrate.migrate(data_dir)
    organization_id = organizations.add_organization(shell(), "Bench").id
    chance = random.Random(1)
    with writing():
        places = [locations.create(shell(organization_id), name=f"Place {number}").id for number in range(25)]
        for number in range(count):
            name = f"{chance.choice(NAME_WORDS)} {chance.choice(NAME_WORDS)} {number}"
            tags = [NewTag("rfid", chance.randbytes(12).hex()), NewTag("ble", chance.randbytes(6).hex())]
            row = assets.create(shell(organization_id), name=name, tags=tags)
            now = clock.now() - number * clock.SECOND
            scan = Scan(organization_id, row.id, chance.choice(places), None, None, now, now, Quality.HANDHELD)
            record([scan], 0)
        readers.add_reader(shell(organization_id), name="bench", topic=TOPIC, format="edge", location_id=places[0])
    return organization_id


def sign_in(organization_id: int) -> tuple[str, int]:
    """Return a token and the id of an asset."""
    key = api_keys.add_key(shell(organization_id), "bench", api_keys.SCOPES, hash_secret("bench"))
    pair = tokens.exchange("production", key.id, "bench")
    assert pair
    return pair.access_token, assets.list_page(organization_id, RecordFilter(), limit=1).rows[0].id


def compare(data_dir: Path, token: str, asset_id: int, seconds: int, rounds: int) -> None:
    targets = (
        Target("one asset", "GET", f"/api/v1/assets/{asset_id}", 0.75),
        Target("page of 50 assets", "GET", "/api/v1/assets", 0.3),
        Target("page of 50 positions", "GET", "/api/v1/reports/asset-locations", 0.35),
        Target("create", "POST", "/api/v1/assets", 0.25),
    )
    with running("edge", data_dir) as edge, running("bare", data_dir) as bare:
        for target in targets:
            headers = {"Authorization": f"Bearer {token}", "User-Agent": AGENT}
            if target.method == "POST":
                headers["Content-Type"] = "application/json"
            teach(bare, fetch(edge, target, headers))
            ours, theirs = [], []
            for _ in range(rounds):
                ours.append(load(edge, target, headers, seconds))
                theirs.append(load(bare, target, headers, seconds))
            share = median(ours) / median(theirs)
            verdict = "ok" if share >= target.ratio else "TOO SLOW"
            print(
                f"{target.name:22} {median(ours):7.0f}/s of {median(theirs):7.0f}/s = {share:.2f} "
                f"(to reach {target.ratio}) {verdict}",
                flush=True,
            )


@contextmanager
def running(kind: str, data_dir: Path) -> Iterator[str]:
    """Run one of the two servers in a separate process. Yields its address."""
    command = [sys.executable, "-m", "tests.bench.api", "--serve", kind, str(data_dir)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def serve(kind: str, folder: str) -> None:
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    if kind == "bare":
        listener = create_server(bare_app(), host="127.0.0.1", port=0, threads=THREADS, ident=None)
    else:
        migrate.migrate(Path(folder))
        app = make_app(rate_per_second=10**6, rate_burst=10**6)
        listener = server.create(app, "127.0.0.1", 0, THREADS)
        if kind == "ingesting":
            threading.Thread(target=ingest, daemon=True).start()
    print(f"http://127.0.0.1:{listener.effective_port}", flush=True)
    listener.run()


def ingest() -> None:
    """Ingest INGEST_RATE messages a second, in 20 batches a second, like the ingest writer."""
    pipeline = Pipeline(300 * clock.SECOND, 7)
    values = [value for (value,) in execute("SELECT value FROM tag WHERE tag_type = 'rfid'")]
    chance = random.Random(2)
    following = time.monotonic()
    while True:
        now = clock.now()
        payloads = (b'{"reads": [{"tag": "%s"}]}' % chance.choice(values).encode() for _ in range(INGEST_RATE // 20))
        pipeline.handle([Message(TOPIC, payload, now) for payload in payloads])
        following += 0.05
        time.sleep(max(0.0, following - time.monotonic()))


def bare_app() -> Flask:
    app = Flask("bare")

    content, headers = b"", []

    @app.route("/<path:_>", methods=["GET", "POST"])
    def answer(_: str) -> Response:
        if request.method == "POST":
            request.get_json()
        return Response(content, headers=headers)

    @app.put("/")
    def learn() -> Response:
        nonlocal content, headers
        content, headers = request.get_data(), json.loads(request.headers["X-Headers"])
        return Response(status=204)

    return app


def teach(bare: str, answer: bytes) -> None:
    """Set the bare application's answer to the same headers and body."""
    head, _, content = answer.partition(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:]]
    own = json.dumps([line for line in lines if line[0] not in ("Date", "Content-Length")])
    learn = urllib.request.Request(bare, content, {"X-Headers": own}, method="PUT")
    urllib.request.urlopen(learn).close()


def fetch(address: str, target: Target, headers: dict[str, str]) -> bytes:
    command = ["curl", "-isS", "-X", target.method, address + target.path]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    if target.method == "POST":
        command += ["-d", json.dumps(BODY)]
    return subprocess.run(command, check=True, capture_output=True).stdout


BODY = {"name": "made by the benchmark"}
SCRIPT = """
wrk.method = "POST"
wrk.body = '%s'
local failed = 0
response = function(status) if status >= 300 then failed = failed + 1 end end
"""


def load(address: str, target: Target, headers: dict[str, str], seconds: int) -> float:
    """Return the requests a second."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s"]
    for name, value in headers.items():
        command += ["-H", f"{name}: {value}"]
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        if target.method == "POST":
            script.write(SCRIPT % json.dumps(BODY))
            script.flush()
            command += ["-s", script.name]
        done = subprocess.run([*command, address + target.path], check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in done, done
    match = re.search(r"Requests/sec:\s+([\d.]+)", done)
    assert match, done
    return float(match[1])


def time_reads_while_ingesting(data_dir: Path, token: str, asset_id: int, seconds: int) -> None:
    """Measure reads at a fixed rate, a hundred requests a second in all, during ingest."""
    headers = {"Authorization": f"Bearer {token}", "User-Agent": AGENT}
    paths = (f"/api/v1/assets/{asset_id}", "/api/v1/assets", "/api/v1/reports/asset-locations")
    with running("ingesting", data_dir) as address:
        took = []
        for turn in range(100 * seconds):
            asked = urllib.request.Request(address + paths[turn % len(paths)], headers=headers)
            began = time.perf_counter()
            with urllib.request.urlopen(asked) as response:
                response.read()
            took.append(time.perf_counter() - began)
            time.sleep(max(0.0, 0.01 - took[-1]))
    p99 = sorted(took)[len(took) * 99 // 100] * 1000
    verdict = "ok" if p99 < 25 else "TOO SLOW"
    print(f"reads beside {INGEST_RATE} messages/s: p99 {p99:.1f} ms (to reach 25) {verdict}", flush=True)


def time_search(organization_id: int) -> None:
    for q in QUERIES:
        times = []
        for _ in range(5):
            listing.clear_cache()
            began = time.perf_counter()
            page = assets.list_page(organization_id, RecordFilter(q=q), limit=50)
            times.append(time.perf_counter() - began)
        verdict = "ok" if median(times) < 0.05 else "TOO SLOW"
        print(
            f"q={q:18} {page.total_count:7} found in {median(times) * 1000:6.1f} ms (to reach 50) {verdict}", flush=True
        )


if __name__ == "__main__":
    main()
