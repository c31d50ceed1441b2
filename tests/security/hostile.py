"""Send hostile HTTP over raw sockets as a signed-in user: `python -m tests.security.hostile --requests 1500000`.

The requests have odd values everywhere or corrupted bytes. None may get a 500 or hang, and memory must not grow.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from flask import Flask

from edge import clock
from edge.audit.actors import person, shell
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, open_database
from edge.people import organizations, people, sessions, tokens
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.people.sign_in import csrf_token
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.server import server
from tests.application import make_app
from tests.security.fuzz import resident_kib

COOKIE = "a-session-of-an-administrator"
HANGS_AFTER = 60.0  # seconds: far more than any answer takes, also on a machine that is busy
LEAVES_ALONE = {
    "/sign-out",
    "/account",
    "/people/<int:person_id>/disable",
    "/people/<int:person_id>/edit",
}  # posts only
VALUES = (
    *("", " ", "0", "-1", "1", "x", "true", "2026-03-02", "0001-01-01", "9999-12-31T23:59", "0000-00-00", "24:00"),
    *("9" * 30, "0" * 5_000, "1e999", "NaN", "٣", "%00", "\x00", "\x1b[2J", "\u202e", "ß" * 300, "<script>", "../.."),
    *("-name,name", "2026-03-02T08:15:30.412Z", "{}", "[]", "\xed\xa0\x80"),
)
NAMES = (
    *("q", "limit", "offset", "sort", "from", "to", "at", "since", "until", "hours", "days", "location", "asset", "id"),
    *("kind", "actor", "reader", "topic", "next", "name", "role", "email", "pin", "separator", "include_deleted"),
    *("parent_id", "external_key", "location_id", "asset_id", "port", "min_rssi", "mapping", "format", "message"),
    *("tag_type", "value", "match_key", "is_active", "metadata", "valid_from", "lang", "size", "branch", "columns"),
)


class Site(NamedTuple):
    app: Flask
    port: int
    bearer: str
    ids: tuple[int, ...]


class Result(NamedTuple):
    statuses: Counter[str]
    slowest: float
    grown_kib: int


@contextmanager
def serving() -> Iterator[Site]:
    """Run in the open database of an empty site."""
    organization_id = organizations.add_organization(shell(), "Hostile").id
    row = people.add_person(shell(organization_id), "Eve", Role.ADMINISTRATOR)
    actor = person(organization_id, row.id, row.name)
    sessions.add_session(actor, hash_secret(COOKIE), clock.now() + 100 * clock.HOUR)
    dock = locations.create(actor, name="Dock")
    records = [assets.create(actor, name=f"Asset {n}", tags=[NewTag("rfid", f"30AA{n:04}")]) for n in range(20)]
    app = make_app(rate_per_second=10**6, rate_burst=10**6)
    listener = server.create(app, "127.0.0.1", 0, 4)
    thread = threading.Thread(target=listener.run)
    thread.start()
    try:
        session = sessions.find_session(hash_secret(COOKIE))
        assert session
        bearer = tokens.session_token("production", session, COOKIE)
        ids = (dock.id, *(asset.id for asset in records[:3]), records[0].tags[0].id, row.id)
        yield Site(app, listener.effective_port, bearer, ids)  # type: ignore[union-attr]
    finally:
        server.stop(listener, 1)
        thread.join()


def run(site: Site, requests: int, seed: int) -> Result:
    """Send requests one by one. Raise AssertionError with the request if the response is not acceptable."""
    choose = random.Random(seed)
    statuses: Counter[str] = Counter()
    slowest, early = 0.0, 0
    assert {rule.rule for rule in site.app.url_map.iter_rules()} >= LEAVES_ALONE
    rules = [rule for rule in site.app.url_map.iter_rules() if not _ends_the_session(rule)]
    for number in range(requests):
        if number == requests // 5:
            early = resident_kib()
        now = time.monotonic()
        request = _made(choose, site, choose.choice(rules))
        answer = ask(site.port, request)
        took = time.monotonic() - now
        slowest = max(slowest, took)
        status = answer[9:12].decode("ascii", "replace")
        statuses[status] += 1
        assert took < HANGS_AFTER or b"/labels.pdf" in request, f"seed {seed}: {took:.1f} s for {request[:2_000]!r}"
        assert status != "500", f"seed {seed}: {request[:2_000]!r}"
    return Result(statuses, slowest, resident_kib() - early)


def _ends_the_session(rule: Any) -> bool:
    return rule.rule in LEAVES_ALONE and "POST" in rule.methods


def _made(choose: random.Random, site: Site, rule: Any) -> bytes:
    values = {}
    for name, kind in rule._converters.items():
        is_number = "Integer" in type(kind).__name__
        odd = quote(choose.choice(VALUES) or "x", safe="")
        values[name] = str(choose.choice((*site.ids, 1, 2**62))) if is_number else odd
    path = re.sub(r"<(?:\w+:)?(\w+)>", lambda match: values[match[1]], rule.rule)
    if choose.random() < 0.7:
        asked = [(choose.choice(NAMES), _value(choose, site)) for _ in range(choose.choice((1, 1, 2, 8)))]
        path += "?" + urlencode(asked)
    methods = sorted(rule.methods or {"GET"}) if choose.random() < 0.95 else ["TRACE", "PUT", "get", "X" * 99]
    method = choose.choice(methods)
    headers = {"X-CSRF-Token": csrf_token(COOKIE), "Authorization": f"Bearer {site.bearer}"}
    if choose.random() < 0.2:
        name = choose.choice(("Content-Type", "If-None-Match", "X-Request-ID", "Accept", "Range"))
        headers[name] = choose.choice(VALUES)
    body = b""
    if method not in ("GET", "HEAD"):
        fields = {choose.choice(NAMES): _value(choose, site) for _ in range(choose.choice((0, 1, 5)))}
        as_json = choose.random() < 0.5
        headers.setdefault("Content-Type", _media_type(method, as_json=as_json))
        body = json.dumps(_json(choose, fields)).encode() if as_json else urlencode(fields).encode()
    request = _request(method, path, body, headers)
    for _ in range(choose.choice((0, 0, 0, 0, 1, 3))):
        at = choose.randrange(len(request))
        request = request[:at] + bytes([choose.randrange(256)]) + request[at + choose.randrange(2) :]
    return request


def _media_type(method: str, *, as_json: bool) -> str:
    if method == "PATCH":
        return "application/merge-patch+json"
    return "application/json" if as_json else "application/x-www-form-urlencoded"


def _value(choose: random.Random, site: Site) -> str:
    return str(choose.choice(site.ids)) if choose.random() < 0.3 else choose.choice(VALUES)


def _json(choose: random.Random, fields: dict[str, Any]) -> Any:
    lists: tuple[Any, ...] = ([fields], {"items": [fields]}, {**fields, "tags": [fields]})
    odd: Any = choose.choice((None, 5, "x", [], {}, fields, fields, *lists))
    return [odd] * 50 if choose.random() < 0.05 else odd


def _request(method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: box", "Connection: close", "User-Agent: hostile/1"]
    lines += [f"Cookie: edge_session={COOKIE}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


def ask(port: int, request: bytes) -> bytes:
    """Return the bytes received until the connection is closed. Unfinished requests are closed by the client."""
    chunks = []
    with socket.create_connection(("127.0.0.1", port), HANGS_AFTER + 5) as client:
        try:
            client.sendall(request)
            with suppress(OSError):  # the server has already closed it; its response can still be read
                client.shutdown(socket.SHUT_WR)
            while chunk := client.recv(65_536):
                chunks.append(chunk)
        except ConnectionError:
            pass
    return b"".join(chunks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_500_000, help="an hour or more")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    with TemporaryDirectory() as folder:
        open_database(Path(folder) / FILE_NAME)
        migrate.migrate(Path(folder))
        with serving() as site:
            result = run(site, arguments.requests, arguments.seed)
        close_database()
    print(f"seed {arguments.seed}: {sum(result.statuses.values()):,} requests, {dict(result.statuses.most_common())}")
    print(f"slowest {result.slowest:.2f} s; memory since the first fifth {result.grown_kib:+,} KiB")
    sys.exit(result.grown_kib > 32 * 1024)


if __name__ == "__main__":
    main()
