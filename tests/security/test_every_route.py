"""Every route of the URL map has an access rule and protects data of other organizations.

A new route fails here until its rule and the parameters of its address are listed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from typing import Any

import pytest
from flask import Flask
from werkzeug.routing import Rule

from edge import clock
from edge.audit.actors import Actor, shell
from edge.audit.actors import person as actor_of
from edge.bulk import bulk_jobs
from edge.bulk.asset_changes import Action, BulkChange
from edge.database.connection import execute
from edge.doors import doors
from edge.events import destinations
from edge.events.destinations import DestinationKind, Filter, NewDestination
from edge.expected_lists import expected_lists
from edge.handhelds import scans, stock_takes
from edge.handhelds.scans import Submitted
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.muster import musters, plans
from edge.muster.plans import NewPlan
from edge.pages.records import csv_import_jobs
from edge.pages.records.csv_import_jobs import Job
from edge.pages.records.csv_import_rows import Reading, table_of
from edge.people import api_keys, enrollment, people
from edge.people.people import Role
from edge.readers import dead_letters, readers
from edge.readers.dead_letters import NewDeadLetter
from edge.records import asset_notes, asset_photos, assets, loans, locations
from edge.records.tags import NewTag
from edge.rules import rules as rule_store
from edge.rules import saved_filters
from edge.rules.channels import channels
from edge.rules.outputs import outputs
from edge.rules.rules import Condition, RuleFields
from edge.sync.store import sites
from edge.tracking import carriers, tracked_people
from edge.tracking.board import BoardFilter
from edge.tracking.tracked_people import PeopleSetting
from edge.walls import walls
from edge.walls.walls import NewWall, Shows
from tests.api.conftest import Api
from tests.audit.stage import CHANNEL, OUTPUT
from tests.conftest import Cast
from tests.pages.conftest import Browser

SECRET = "ACME-SECRET"  # used in the names of all records of Acme
DOORS = ("pages.", "api.", "api:", "probes.", "sync.", "events.", "feed.", "epcis.")
OF_NOBODY = {"device_use", "web_session", "version", "instance", "sqlite_sequence", "organization", "change"}
SINGLE_PURPOSE = {"pages.sign_out"}  # it would end the session of the attack


def rules(app: Flask) -> list[Rule]:
    return sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule)


@pytest.fixture
def boss(cast: Cast) -> Actor:
    row = people.add_person(shell(cast.acme), f"{SECRET} boss", Role.ADMINISTRATOR, email="boss@acme.example")
    return actor_of(cast.acme, row.id, row.name)


@pytest.fixture
def theirs(cast: Cast, boss: Actor) -> dict[str, Any]:
    """Return one record of each kind that Acme has, by the name of the URL parameter."""
    dock = locations.create(boss, name=SECRET, external_key=f"{SECRET}-DOCK", tags=[NewTag("barcode", "ACME-DOCK-TAG")])
    pallet, box = (
        assets.create(boss, name=SECRET, external_key=f"{SECRET}-{number}", tags=[NewTag("rfid", f"30AA{number}")])
        for number in range(2)
    )
    reader = readers.add_reader(boss, name=SECRET, topic="site/dock", format="edge", location_id=dock.id)
    Pipeline(0, 7).handle(
        [
            Message("site/dock", b'{"reads": [{"tag": "30AA0"}, {"tag": "ACME-SECRET-TAG"}]}', clock.now()),
            Message("nobody/1", b"ACME-SECRET", clock.now()),
        ]
    )
    door = doors.add_door(boss, SECRET, dock.id)
    passage = execute(
        "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, outer_reads, "
        "since, until, decided_at) VALUES (?, ?, ?, ?, 2, 990, 5, 5, ?, ?, ?) RETURNING no",
        (cast.acme, door, pallet.id, *[clock.now()] * 4),
    ).fetchone()[0]
    dead_letters.add([NewDeadLetter(cast.acme, reader.id, "site/dock", SECRET.encode(), 11, SECRET, clock.now())])
    stock_takes.begin(boss, f"{SECRET}-take", dock.id, with_sublocations=False, expected=[pallet.id], started_at=1)
    scans.submit(boss, [Submitted(f"{SECRET}-scan", "30AA1", dock.id, clock.now())], clock.now())
    carriers.load(boss, pallet.id, box.id, clock.now())
    site = sites.add_site(boss, "ACME", SECRET, b"code")
    new = NewDestination(DestinationKind.WEBHOOK, SECRET, "https://acme.example/ACME-SECRET", b"", Filter(frozenset()))
    job = csv_import_jobs.start(
        Job(boss, "asset", b"name\nBox\n", table_of(b"name\nBox\n"), Reading("asset", ["name"], False, UTC))
    )
    assert job.ended.wait(30)
    expected = expected_lists.create(boss, SECRET, [pallet.external_key], location_id=dock.id)
    tracked_people.save(boss, PeopleSetting(key_prefix=pallet.external_key))
    plan = plans.create(boss, NewPlan(SECRET, [dock.id]))
    rule = rule_store.add_rule(boss, RuleFields(SECRET, Condition.ENTERS, location_id=dock.id))
    alert = execute(
        "INSERT INTO alert (organization_id, rule_no, cause, subject_id, subject_name, subject_key, place_name, "
        "amount, occurred_at, made_at) VALUES (?, ?, 'x', ?, ?, ?, ?, 0, ?, ?) RETURNING no",
        (cast.acme, rule, pallet.id, SECRET, SECRET, SECRET, clock.now(), clock.now()),
    ).fetchone()[0]
    bulk_job = bulk_jobs.start(boss, BulkChange(Action.RETIRE), [box.id])
    loans.lend(boss, pallet.id, SECRET)
    asset_notes.add(boss, f"{SECRET}-note", pallet.id, SECRET, clock.now())
    asset_photos.add(boss, f"{SECRET}-photo", pallet.id, SECRET.encode(), (1, 1), clock.now())
    return {
        "list_id": expected,
        "plan_id": plan,
        "muster_id": musters.start(boss, plan, is_drill=False),
        "note_id": f"{SECRET}-note",
        "photo_id": f"{SECRET}-photo",
        "rule": rule,
        "alert": alert,
        "bulk_job": bulk_job,
        "wall_id": walls.add(boss, NewWall(SECRET, Shows.ALERTS))[0].id,
        "asset_id": pallet.id,
        "location_id": dock.id,
        "tag_id": pallet.tags[0].id,
        "reader_id": reader.id,
        "door_id": door,
        "passage": passage,
        "person_id": boss.person_id,
        "device_id": enrollment.invite(boss, SECRET)[0].id,
        "key_id": api_keys.add_key(boss, SECRET, api_keys.SCOPES, b"hash").id,
        "stock_take_id": f"{SECRET}-take",
        "external_key": pallet.external_key,
        "site_no": site.no,
        "remote_id": 7,
        "job_id": job.id,
        "letter": dead_letters.list_letters(cast.acme, 9)[0].no,
        "destination": destinations.add(boss, new).no,
        "channel": channels.add(boss, CHANNEL._replace(name=SECRET)).no,
        "filter": saved_filters.save(boss, SECRET, BoardFilter(SECRET)),
        "output": outputs.add(boss, SECRET, OUTPUT).no,
        "scan": f"{SECRET}-scan",
        "kind": "asset",
        "code": "x",
        "version": "x",
        "name": "x",  # an unassigned topic
    }


_NUMBERED = {
    "/alerts": "alert",
    "/channels": "channel",
    "/filters": "filter",
    "/outputs": "output",
    "/event-destinations": "destination",
    "/passages": "passage",
    "/rules": "rule",
}


def path_of(rule: Rule, known: dict[str, Any]) -> str:
    values = dict(known)
    values["no"] = known[next((kind for path, kind in _NUMBERED.items() if path in rule.rule), "letter")]
    if "/bulk" in rule.rule:
        values["job_id"] = known["bulk_job"]
    built = rule.build({name: values[name] for name in rule.arguments}, append_unknown=False)
    assert built
    return built[1]


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
