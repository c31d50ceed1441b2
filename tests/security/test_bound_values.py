"""Values from requests and messages are bound to SQL statements and never part of their text.

SQL is built from constants of this package only, which is why S608 is off in pyproject.toml.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec
import peewee
import pytest
from flask import Flask

from edge import clock
from edge.api.operations import OPERATIONS
from edge.audit.actors import shell
from edge.formats.registry import FORMATS
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.people.people import Role
from edge.readers import readers
from tests.api.conftest import Api
from tests.conftest import Cast
from tests.every_record import SECRET, path_of
from tests.formats.reader_samples import EPC, MAC
from tests.pages.conftest import Browser
from tests.security.mutations import messages_of
from tests.security.test_every_route import batch_of, form_of, rules, theirs

__all__ = ["theirs"]

SENT = "QZ7CANARY"


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Collect the text of every statement on connections opened from now on."""
    statements: set[str] = set()

    class Cursor(sqlite3.Cursor):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            statements.add(sql)
            return super().execute(sql, *values)

        def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
            statements.add(sql)
            return super().executemany(sql, *values)

    class Connection(sqlite3.Connection):
        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            statements.add(sql)
            return super().execute(sql, *values)

    connect = sqlite3.connect
    monkeypatch.setattr(peewee.sqlite3, "connect", lambda *args, **more: connect(*args, **more, factory=Connection))
    return statements


def telling(statements: set[str], *texts: str) -> list[str]:
    return [sql for sql in statements if any(text.lower() in sql.lower() for text in texts)]


def test_forms_and_addresses_of_pages_and_handhelds(
    statements: set[str], app: Flask, cast: Cast, sign_in_as: Callable[..., Browser], theirs: dict[str, Any]
) -> None:
    browser, form = sign_in_as(Role.ADMINISTRATOR), form_of(theirs) | {"q": SENT, "name": f"{SENT}'"}
    statements.clear()
    for rule in rules(app):
        if not rule.endpoint.startswith("pages.") or rule.endpoint == "pages.sign_out":
            continue
        path = path_of(rule, theirs)
        if "GET" in (rule.methods or ()):
            asked = form | {"sort": SENT, "kind": SENT}
            with browser.get(path, query_string=asked, headers={"User-Agent": "Mozilla/5.0"}):
                pass  # closes the response, which may hold one of the download slots
        elif path.startswith("/scan/"):
            browser.send(path, {**batch_of(theirs), "id": theirs["scan"], "asset": theirs["asset_id"]})
        else:
            browser.post(path, form)
    assert len(statements) > 150
    assert telling(statements, SENT, SECRET, "ACMESECRETTAG", "30AA") == []


def test_bodies_and_queries_of_the_api(statements: set[str], store: object, cast: Cast, acme: Api) -> None:
    statements.clear()
    parent = acme.make("/locations", name=SENT, external_key=SENT, tags=[{"tag_type": "barcode", "value": f"{SENT}'"}])
    values = {"name": f"{SENT}'", "description": SENT, "tags": [{"tag_type": "rfid", "value": SENT}]}
    made = acme.make("/assets", **values, external_key=SENT, metadata={SENT: SENT})
    acme.make("/locations", external_key=f"{SENT}-2", parent_external_key=SENT)
    acme.post(f"/assets/{made['id']}/rename", {"external_key": f"{SENT}-3"})
    acme.patch(f"/locations/{parent['id']}", {"name": f"{SENT};--"})
    for operation in OPERATIONS:
        if operation.method == "GET":
            for name in operation.query.parameters:
                for value in (SENT, f"{SENT}' OR 1", f"-{SENT}"):
                    path = operation.path.replace("{asset_id}", str(made["id"]))
                    acme.get(path.replace("{location_id}", str(parent["id"])), **{name: value})
    assert len(statements) > 30
    assert telling(statements, SENT) == []


def test_messages_in_every_format(statements: set[str], store: object, cast: Cast) -> None:
    for name in FORMATS:
        readers.add_reader(shell(cast.acme), name=f"{SENT} {name}", topic=f"{SENT}/{name}/#", format=name)
    pipeline = Pipeline(0, 7)
    statements.clear()
    for name in FORMATS:
        for payload in messages_of(name):
            content = msgspec.json.encode(payload, enc_hook=lambda _: SENT)
            pipeline.handle([Message(f"{SENT}/{name}/{SENT}'", content, clock.now())])
    pipeline.handle([Message(f"nobody/{SENT}", SENT.encode(), clock.now())])
    assert len(statements) > 10
    assert telling(statements, SENT, EPC, MAC) == []
