"""Everything that edge shows of one seeded site, as text files: two versions that behave alike write equal folders.

    python -m tests.soak.goldens make FOLDER            makes the site and records its answers
    python -m tests.soak.goldens again SITE FOLDER      records the answers of a database of an earlier version
    diff -r -x site FOLDER OTHER

`make` keeps the database as `site/`. After a change, `make` in both versions shows what the change does to a new site,
and `again` with the folder of the earlier version what an upgrade does to an old one. The time stands still but for the
steps of the site, and all random values come from the place where they are drawn, so that one value more or less in a
request does not change the others.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import time_machine
from click.testing import CliRunner
from flask import Flask
from werkzeug.test import Client, TestResponse

from edge import cli, clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.pages.cookies import SESSION
from edge.people import api_keys, organizations, people, sessions
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.people.sign_in import csrf_token
from edge.readers import readers
from edge.readers.readers import Placement
from tests.application import make_app
from tests.databases import make_database
from tests.every_record import add_records, path_of

ENDLESS = {"pages.board_events"}  # streams
START = datetime(2027, 3, 2, 8, 0, tzinfo=UTC)
SECRET = "golden-secret-of-the-api-key-0123456789abcdef"
LOCATIONS, ASSETS, MESSAGES, REQUESTS = 24, 120, 900, 3_000
PASSING = re.compile(
    r'(nonce-|nonce="|name="csrf" value="|data-csrf="|\?v=|"request_id":")[A-Za-z0-9_.:=+/-]+'  # random, of the version
    r"|(?<=\.)[0-9a-f]{8,16}(?=\.(?:js|css))|[0-9.]+ [GTM]B of [0-9.]+ [GT]B"
)
HEADERS = ("Content-Type", "Location", "ETag", "Cache-Control", "Allow", "WWW-Authenticate", "Retry-After", "Link")


@contextmanager
def drawn(name: str) -> Iterator[random.Random]:
    """Let all random values below depend on the name only. The time stands still, unlike in `chance`."""
    values = random.Random(name)
    entropy = os.urandom, random._urandom  # type: ignore[attr-defined]
    os.urandom = random._urandom = values.randbytes  # type: ignore[attr-defined]
    random.seed(name)
    try:
        yield random.Random(f"{name} chosen")
    finally:
        os.urandom, random._urandom = entropy  # type: ignore[attr-defined]


class Golden:
    """A site whose answers go to files below `folder`."""

    def __init__(self, folder: Path, app: Flask, organization_id: int, known: dict[str, Any]) -> None:
        self.folder, self.app, self.organization_id, self.known = folder, app, organization_id, known

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") else text + "\n")

    def note(self, name: str, request: str, response: TestResponse) -> None:
        """Append an answer without what is of the moment or of the version."""
        headers = "".join(f"{key}: {response.headers[key]}\n" for key in HEADERS if key in response.headers)
        text = response.get_data()
        try:
            body = PASSING.sub(r"\1-", text.decode()).replace(str(self.folder), "FOLDER")
        except UnicodeDecodeError:
            body = f"{len(text)} bytes"  # archives and documents have times of their own
        self.write(name, f"## {request}\n{response.status}\n{headers}\n{body}\n")


def make(folder: Path) -> None:
    """Make the site, record what it answers on the way and afterwards, and keep its database."""
    (folder / "site").mkdir(parents=True)
    with time_machine.travel(START, tick=False) as time:
        with drawn("database"):
            make_database(folder / "site")
            organization_id = organizations.add_organization(shell(), "Acme").id
        with drawn("records"):
            known = add_records(organization_id)
            _credentials(organization_id)
        with drawn("application"):
            golden = Golden(folder, make_app(data_dir=folder / "site"), organization_id, known)
        (folder / "site.json").write_text(json.dumps([organization_id, known], default=str, indent=1))
        _build(golden)
        _drive(golden, time)
        _ask(golden, time)
        (folder / "moment").write_text(str(clock.now()))
        _read(golden)
        close_database()


def again(site: Path, folder: Path) -> None:
    """Record what the newest version answers about the database that `make` of an earlier one has left."""
    (folder / "site").mkdir(parents=True)
    organization_id, known = json.loads((site / "site.json").read_text())
    moment = datetime.fromtimestamp(int((site / "moment").read_text()) / 1e6, UTC)
    with time_machine.travel(moment, tick=False), drawn("application"):
        files = {file.name: file.read_bytes() for file in (site / "site").iterdir() if file.is_file()}
        for name, content in files.items():
            (folder / "site" / name).write_bytes(content)
        migrate.migrate(folder / "site")
        _read(Golden(folder, make_app(data_dir=folder / "site"), organization_id, known))
        close_database()


def _credentials(organization_id: int) -> None:
    api_keys.add_key(shell(organization_id), "goldens", api_keys.KEY_SCOPES, hash_secret(SECRET))
    for role in Role:
        person = people.add_person(shell(organization_id), f"Golden {role}", role)
        sessions.add_session(
            actors.person(organization_id, person.id, person.name), hash_secret(f"golden-{role}"), clock.now() * 2
        )


def _build(golden: Golden) -> None:
    """Make locations, assets and readers through the API and the pages, as an integrator and an editor would."""
    for number in range(LOCATIONS):
        parent = f"L-{number // 4 - 1}" if number >= 8 else None
        body = {"name": f"Place {number}", "external_key": f"L-{number}"}
        _call(golden, "POST", "/locations", body | ({"parent_external_key": parent} if parent else {}))
    for number in range(ASSETS):
        tags = [{"tag_type": "rfid", "value": f"{0x3074257BF7194E4000000000 + number:X}"}]
        if number % 3 == 0:
            tags.append({"tag_type": "barcode", "value": f"BC-{number:05}"})
        body = {"name": f"Thing {number}", "external_key": f"T-{number}", "metadata": {"lot": number % 7}, "tags": tags}
        _call(golden, "POST", "/assets", body)
    found = _call(golden, "GET", "/locations?limit=200").get_json()["data"]
    ids = {row["external_key"]: row["id"] for row in found}
    for number in range(6):
        row = readers.add_reader(
            shell(golden.organization_id),
            name=f"Reader {number}",
            topic=f"golden/{number}",
            format="edge",
            location_id=ids[f"L-{number}"],
        )
        readers.set_antenna(shell(golden.organization_id), row.id, 2, Placement(ids[f"L-{number + 6}"], None, True))
    golden.known["places"] = ids


def _drive(golden: Golden, time: time_machine.Coordinates) -> None:
    """Let readers read and a handheld scan for some hours, with late, repeated and broken messages."""
    pipeline, kept = Pipeline(300, 7), []
    browser = _browser(golden, "operator")
    for number in range(MESSAGES):
        with drawn(f"message {number}") as chosen:
            time.shift(chosen.choice((1, 1, 2, 3, 30)))
            topic = f"golden/{chosen.randrange(6)}"
            late = chosen.choice((0, 0, 0, 0, 5, 400))
            reads = [
                {
                    "tag": f"{0x3074257BF7194E4000000000 + chosen.randrange(ASSETS + 4):X}",
                    "rssi": -40 - chosen.randrange(40),
                    "antenna": chosen.choice((1, 1, 2)),
                }
                for _ in range(chosen.choice((1, 1, 2, 5)))
            ]
            payload = json.dumps({"time": (clock.now() - late * clock.SECOND) // 1000, "reads": reads}).encode()
            if number % 97 == 0:
                payload = payload[:-5]
            message = Message(topic, payload, clock.now())
            kept = [message, *kept[:20]]
            pipeline.handle([message] if number % 13 else [message, chosen.choice(kept)])
            if number % 9 == 0:
                code, place = f"BC-{3 * chosen.randrange(ASSETS // 3):05}", f"L-{chosen.randrange(LOCATIONS)}"
                item = {"id": f"golden-scan-{number}", "code": code, "location": golden.known["places"][place]}
                body = {"sent_at": clock.now() // 1000, "device": "golden-device", "items": [item]}
                body["items"][0]["at"] = clock.now() // 1000 - 50
                answer = browser.post("/scan/batch", json=body, headers=_proof("operator"))
                golden.note("handheld.txt", f"scan {number}", answer)
    time.shift(120)
    pipeline.handle([])


def _ask(golden: Golden, time: time_machine.Coordinates) -> None:
    """Send valid and wrong requests of an integrator in a seeded order."""
    for number in range(REQUESTS):
        with drawn(f"request {number}") as chosen:
            time.shift(0.25)
            kind, letter, count = chosen.choice((("assets", "T", ASSETS), ("locations", "L", LOCATIONS)))
            key = f"{letter}-{chosen.randrange(count + 1)}"  # the last one does not exist
            _call(golden, *_request(chosen, kind, key, number), name=f"api/{number // 100:02}.txt")


def _request(chosen: random.Random, kind: str, key: str, number: int) -> tuple[str, str, Any]:
    """Return method, path and body of a request."""
    at = chosen.choice(("2027-03-02T08:10:00Z", "2027-03-02T09:00:00.123456Z", "yesterday", "2027-03-02"))
    query = chosen.choice(
        (
            f"limit={chosen.choice((1, 3, 50, 200, 0, 201, 'x'))}&offset={chosen.choice((0, 2, 10_000, -1))}",
            f"sort={chosen.choice(('name', '-created_at', 'external_key,-name', 'nothing', ''))}",
            f"q={chosen.choice(('Thing', 'place', 'T-1', '', '%25', 'ä'))}",
            f"is_active={chosen.choice(('true', 'false', 'maybe'))}",
            f"external_key={key}&external_key=T-1",
            f"location_external_key={key}",
            f"parent_external_key={key}",
            f"from={at}&to={at}",
            f"unknown={key}",
        )
    )
    field = chosen.choice(
        (
            {"name": chosen.choice((f"Name {number}", "", " x ", "x" * 300, None, 7))},
            {"external_key": chosen.choice((f"K-{number}", key, "", None, "a b"))},
            {"description": chosen.choice(("text", "", None, "x" * 1100))},
            {"is_active": chosen.choice((True, False, None, "yes"))},
            {"metadata": chosen.choice(({"a": 1}, {}, None, [], {"deep": {"er": [1.5, "x"]}}))},
            {"valid_to": chosen.choice((at, None, "2030-01-01T00:00:00Z"))},
            {"parent_external_key": chosen.choice((key, None))},
            {"location_external_key": key},
            {"id": 7, "oops": True},
        )
    )
    one = f"/{kind}/{chosen.choice((number, 2**53 - 1, 2**60, 'x', 0))}"
    tag = {
        "tag_type": chosen.choice(("rfid", "ble", "barcode", "nfc")),
        "value": chosen.choice((f"TAG{number}", "", key)),
    }
    return chosen.choice(
        (
            ("GET", f"/{kind}?{query}", None),
            ("GET", f"/{kind}?{query}", None),
            ("GET", one, None),
            ("GET", f"/{kind}/@{key}", None),
            ("POST", f"/{kind}", {"name": f"New {number}"} | field),
            ("PATCH", f"/{kind}/@{key}", field),
            ("PATCH", f"/{kind}/@{key}", field),
            ("DELETE", f"/{kind}/@none", None),
            ("DELETE", f"/{kind}/@{key if number % 5 == 0 else 'none'}", None),
            ("POST", f"/{kind}/@{key}/tags", tag),
            ("GET", f"/assets/@{key}/history?{query}", None),
            ("GET", f"/locations/@{key}/{chosen.choice(('ancestors', 'children', 'descendants'))}?{query}", None),
            ("GET", f"/reports/asset-locations?{query}", None),
            ("GET", "/orgs/me", None),
            ("PUT", f"/{kind}", {}),
        )
    )


def _call(golden: Golden, method: str, path: str, body: Any = None, name: str = "api/build.txt") -> TestResponse:
    """Send a request of the API. `@KEY` in a path stands for the id of the live record with this external key."""
    client, head = Client(golden.app), {"User-Agent": "golden/1"}
    if clock.now() > golden.known.get("token_ends", 0):
        golden.known["token_ends"] = clock.now() + 600 * clock.SECOND
        keys = api_keys.list_keys(golden.organization_id)
        pair = {"client_id": next(key.id for key in keys if key.name == "goldens"), "client_secret": SECRET}
        sent = {"grant_type": "client_credentials"} | pair
        golden.known["token"] = client.post("/api/v1/oauth/token", json=sent, headers=head).get_json()["access_token"]
    head["Authorization"] = f"Bearer {golden.known['token']}"
    kind = path.split("/")[1].split("?")[0]
    if "/@" in path:
        key = re.split(r"[/?]", path.split("/@")[1])[0]
        rows = client.get(f"/api/v1/{kind}?external_key={key}", headers=head).get_json()["data"]
        path = path.replace(f"/@{key}", f"/{rows[0]['id'] if rows else 999}")
    if method == "PATCH":
        head["Content-Type"] = "application/merge-patch+json"
    data = None if body is None else json.dumps(body)
    if method in ("POST", "PUT"):
        head["Content-Type"] = "application/json"
    response = client.open(
        path if name == "documents.txt" else f"/api/v1{path}", method=method, data=data, headers=head
    )
    golden.note(name, f"{method} {path} {data or ''}", response)
    return response


def _browser(golden: Golden, role: str) -> Client:
    client = Client(golden.app)
    client.set_cookie(SESSION, f"golden-{role}")
    return client


def _proof(role: str) -> dict[str, str]:
    return {"X-CSRF-Token": csrf_token(f"golden-{role}")}


def _read(golden: Golden) -> None:
    """Record all pages for each role, the programs' documents, and what the commands print."""
    rules = sorted(golden.app.url_map.iter_rules(), key=lambda rule: rule.rule)
    for rule in rules:
        if "GET" not in (rule.methods or ()) or rule.endpoint.startswith(("static", "api.")):
            continue
        path = path_of(rule, golden.known)
        if rule.endpoint in ENDLESS:
            continue
        name = re.sub(r"[^a-z0-9_.-]+", "_", rule.rule.lower()).strip("_") or "home"
        for role in (*Role, "nobody"):
            with drawn(f"page {rule.rule} {role}"):
                response = _browser(golden, str(role)).get(path, buffered=True)
            golden.note(f"pages/{role}/{name}.txt", f"GET {path}", response)
    for path in DOCUMENTS:
        with drawn(path):
            _call(golden, "GET", path, name="documents.txt")
    for command in COMMANDS:
        with drawn(" ".join(command)):
            result = CliRunner().invoke(cli.cli, ["--set", f"data_dir={golden.folder / 'site'}", *command])
        text = result.output.replace(str(golden.folder), "FOLDER")
        golden.write("commands.txt", f"## edge {' '.join(command)}\n{result.exit_code}\n{text}\n")


DOCUMENTS = ("/api/openapi.json", "/api/v1/reports/asset-locations?limit=200", "/feed/changes", "/epcis/events")
COMMANDS = [
    ("user", "list"),
    ("org", "list"),
    ("reader", "list"),
    ("asset", "list"),
    ("location", "list"),
    ("audit",),
    ("config",),
    ("door", "list"),
    ("channel", "list"),
    ("output", "list"),
    ("events", "list"),
    ("sync", "status"),
    ("rules", "list"),
    ("upstream", "show"),
    ("hub", "list"),
    *((name, "--help") for name in sorted(cli.COMMANDS)),
]

if __name__ == "__main__":
    {"make": make, "again": again}[sys.argv[1]](*(Path(name) for name in sys.argv[2:]))
