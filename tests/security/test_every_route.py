"""Every route of the URL map has an access rule and protects data of other organizations.

A new route fails here until its rule and the parameters of its address are listed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from werkzeug.routing import Rule

from edge import clock
from edge.database.connection import execute
from edge.people.people import Role
from tests.api.conftest import Api
from tests.conftest import Cast
from tests.every_record import SECRET, add_records, path_of
from tests.pages.conftest import Browser

DOORS = ("pages.", "api.", "api:", "probes.", "sync.", "events.", "feed.", "epcis.")
OF_NOBODY = {"device_use", "web_session", "version", "instance", "sqlite_sequence", "organization", "change"}
SINGLE_PURPOSE = {"pages.sign_out"}  # it would end the session of the attack


def rules(app: Flask) -> list[Rule]:
    return sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule)


@pytest.fixture
def theirs(cast: Cast) -> dict[str, Any]:
    """Return one record of each kind that Acme has, by the name of the URL parameter."""
    return add_records(cast.acme)


def form_of(known: dict[str, Any]) -> dict[str, Any]:
    """Return all form fields, each with a record of Acme where it can name one."""
    return {
        "name": "taken over",
        "role": "viewer",
        "email": "boss@acme.example",
        "pin": "492837",
        "next": "/",
        "tag_type": "rfid",
        "match_key": "ACMESECRETTAG",
        "value": "30AA1",
        "asset": known["external_key"],
        "topic": "nobody/1",
        "format": "edge",
        "port": "1",
        "is_enabled": "on",
        "min_rssi": "",
        "mapping": "",
        **{key: str(known[key]) for key in ("asset_id", "location_id", "reader_id", "person_id", "device_id")},
        "parent_id": str(known["location_id"]),
        "external_key": known["external_key"],
        "id": str(known["asset_id"]),
        "location": str(known["location_id"]),
        "assets": str(known["asset_id"]),
        "kind": "asset",
        "retry": "on",
    }


def batch_of(known: dict[str, Any]) -> dict[str, Any]:
    """Return actions of a handheld that name records of another organization."""
    asset, location, at = known["asset_id"], known["location_id"], clock.now() // 1000
    items: list[dict[str, Any]] = [
        {"id": known["scan"], "code": "30AA0", "location": location},
        {"id": "rival-scan-1", "code": "30AA0", "location": location, "onto": asset},
        {"id": "rival-scan-2", "code": "x", "location": location, "stock_take": known["stock_take_id"]},
        {"id": "rival-undo-1", "undo": known["scan"]},
        {"id": known["stock_take_id"], "act": "begin", "location": location, "expected": [asset]},
        *({"id": f"rival-{act}", "act": act, "stock_take": known["stock_take_id"]} for act in ("finish", "cancel")),
        *({"id": f"rival-{act}", "act": act, "asset": asset} for act in ("lost", "found", "unload_all")),
        {"id": "rival-note-1", "act": "note", "asset": asset, "text": "x"},
        {"id": "rival-start-1", "act": "start_list", "list": known["list_id"]},
    ]
    sent = [item | {"at": at, "person": known["person_id"]} for item in items]
    holds = [{"stock_take": known["stock_take_id"], "is_open": True, "unsent": 3, "since": at}]
    return {"sent_at": at, "items": sent, "device": "rival-device", "holds": holds}


def everything_but(organization_id: int) -> dict[str, list[Any]]:
    """Return the rows of all tables that are not of this organization; of tables without one, all rows.

    A refused sign-in is in the audit log of the account's organization.
    """
    rows_of = {}
    for table, sql in execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"):
        if table in OF_NOBODY or table.startswith("trigram"):
            continue
        where = f"organization_id IS NOT {organization_id}" if "organization_id" in sql else "1"
        if table == "audit":
            where += " AND action <> 'person.sign_in_refused'"
        rows_of[table] = sorted(execute(f"SELECT * FROM {table} WHERE {where}").fetchall(), key=repr)
    return rows_of


def test_every_route_is_behind_a_door(app: Flask) -> None:
    for rule in rules(app):
        assert rule.endpoint.startswith(DOORS), f"{rule}: which door checks who may ask for it?"
        if rule.endpoint.startswith("pages."):
            assert hasattr(app.view_functions[rule.endpoint], "required_role"), rule


def test_routes_neither_show_nor_change_records_of_another_organization(
    app: Flask, cast: Cast, sign_in_as: Callable[..., Browser], theirs: dict[str, Any]
) -> None:
    spy = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    before, asked = everything_but(cast.rival), 0
    for rule in rules(app):
        if rule.endpoint.startswith("api.") or rule.endpoint in SINGLE_PURPOSE:
            continue  # tests/api/test_isolation.py checks the operations of the API
        path = path_of(rule, theirs)
        for method in sorted((rule.methods or set()) & {"GET", "POST"}):
            if method == "GET":
                answer = spy.get(path, query_string=form_of(theirs), headers={"User-Agent": "Mozilla/5.0"})
            elif path.startswith("/scan/"):
                answer = spy.send(path, {**batch_of(theirs), "id": theirs["scan"], "asset": theirs["asset_id"]})
            elif path.endswith("/plan/shapes"):
                drawn = {"location_id": theirs["location_id"], "points": [[0, 0], [0, 9], [9, 9]]}
                answer = spy.send(path, {"shapes": [drawn], "updated_at": "1"})
            else:
                answer = spy.post(path, form_of(theirs))
            asked += 1
            text = answer.text.replace(
                theirs["external_key"], ""
            )  # values of the request may be repeated in the response
            assert answer.status_code < 500 or answer.status_code == 503, (method, path, text)
            assert SECRET not in text.replace(theirs["stock_take_id"], "").replace(theirs["scan"], ""), (method, path)
            if rule.arguments - {"kind", "code", "version", "name", "external_key"}:
                assert answer.status_code in (303, 400, 404, 409, 503), (method, path, answer.status_code)
    assert asked > 100
    after = everything_but(cast.rival)
    assert {table for table in before if before[table] != after[table]} == set()


def test_session_tokens_open_no_pages_and_cookies_open_no_operations(
    app: Flask, acme: Api, sign_in_as: Callable[..., Browser], theirs: dict[str, Any]
) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    bearer = {"Authorization": f"Bearer {json.loads(acme.exchange().text)['access_token']}", "User-Agent": "test/1"}
    for rule in rules(app):
        path = path_of(rule, theirs)
        if rule.endpoint.startswith("api.") and "oauth" not in path and "GET" in (rule.methods or ()):
            assert browser.get(path, headers={"User-Agent": "Mozilla/5.0"}).status_code == 401, path
        elif getattr(app.view_functions[rule.endpoint], "required_role", None) and "GET" in (rule.methods or ()):
            assert app.test_client().get(path, headers=bearer).status_code in (303, 401), path
