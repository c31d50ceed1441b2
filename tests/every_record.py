"""One record of each kind, for tests that visit every route."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from werkzeug.routing import AnyConverter, Rule

from edge import clock
from edge.audit.actors import person, shell
from edge.bulk import bulk_jobs
from edge.bulk.asset_changes import Action, BulkChange
from edge.bulk.import_rows import Reading
from edge.database.connection import execute
from edge.doors import doors
from edge.events import destinations
from edge.events.destinations import DestinationKind, Filter, NewDestination
from edge.expected_lists import expected_lists
from edge.handhelds import scans, stock_takes
from edge.handhelds.scans import Submitted
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.labels.label_content import Code, Label
from edge.labels.papers import DEFAULT_PAPER, PAPERS
from edge.muster import musters, plans
from edge.muster.plans import NewPlan
from edge.pages import label_documents
from edge.pages.records import csv_import_jobs
from edge.pages.records.csv_import_jobs import Job
from edge.pages.spilled import Spilled
from edge.people import api_keys, devices, people
from edge.people.people import Role
from edge.readers import dead_letters, readers
from edge.readers.dead_letters import NewDeadLetter
from edge.records import asset_notes, asset_photos, assets, loans, locations
from edge.records.tags import NewTag
from edge.rules import rules as rule_store
from edge.rules import saved_filters
from edge.rules.channels import channels
from edge.rules.conditions import Condition
from edge.rules.outputs import outputs
from edge.rules.rules import RuleFields
from edge.sync.store import sites
from edge.tracking import carriers, tracked_people
from edge.tracking.board import BoardFilter
from edge.tracking.tracked_people import PeopleSetting
from edge.validation.table_files import read_csv
from edge.walls import walls
from edge.walls.walls import NewWall, Shows
from tests.audit.stage import CHANNEL, OUTPUT

SECRET = "ACME-SECRET"  # used in the names of all records


def add_records(organization_id: int) -> dict[str, Any]:
    """Add a record of each kind, made by an administrator. Returns the parameters of their addresses, by name."""
    row = people.add_person(shell(organization_id), f"{SECRET} boss", Role.ADMINISTRATOR, email="boss@acme.example")
    boss = person(organization_id, row.id, row.name)
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
        (organization_id, door, pallet.id, *[clock.now()] * 4),
    ).fetchone()[0]
    dead_letters.add([NewDeadLetter(organization_id, reader.id, "site/dock", SECRET.encode(), 11, SECRET, clock.now())])
    stock_takes.begin(boss, f"{SECRET}-take", dock.id, with_sublocations=False, expected=[pallet.id], started_at=1)
    scans.submit(boss, [Submitted(f"{SECRET}-scan", "30AA1", dock.id, clock.now())], clock.now())
    carriers.load(boss, pallet.id, box.id, clock.now())
    site = sites.add_site(boss, "ACME", SECRET, b"code")
    new = NewDestination(DestinationKind.WEBHOOK, SECRET, "https://acme.example/ACME-SECRET", b"", Filter(frozenset()))
    job = csv_import_jobs.start(
        Job(
            boss,
            "asset",
            Spilled([b"name\nBOX\n"]),
            read_csv(b"name\nBOX\n"),
            Reading("asset", ["name"], False, UTC),
        )
    )
    assert job.ended.wait(60)
    expected = expected_lists.create(boss, SECRET, [pallet.external_key], location_id=dock.id)
    tracked_people.save(boss, PeopleSetting(key_prefix=pallet.external_key))
    plan = plans.create(boss, NewPlan(SECRET, [dock.id]))
    rule = rule_store.add_rule(boss, RuleFields(SECRET, Condition.ENTERS, location_id=dock.id))
    alert = execute(
        "INSERT INTO alert (organization_id, rule_no, cause, subject_id, subject_name, subject_key, place_name, "
        "amount, occurred_at, made_at) VALUES (?, ?, 'x', ?, ?, ?, ?, 0, ?, ?) RETURNING no",
        (organization_id, rule, pallet.id, SECRET, SECRET, SECRET, clock.now(), clock.now()),
    ).fetchone()[0]
    bulk_job = bulk_jobs.start(boss, BulkChange(Action.RETIRE), [box.id])
    document = label_documents.start(
        organization_id, [Label(SECRET, SECRET, SECRET)], PAPERS[DEFAULT_PAPER], Code.QR, skip=0
    )
    assert document.ended.wait(60)
    loans.lend(boss, pallet.id, SECRET)
    asset_notes.add(boss, f"{SECRET}-note", pallet.id, SECRET, clock.now())
    asset_photos.add(boss, f"{SECRET}-photo", pallet.id, SECRET.encode(), (1, 1), clock.now())
    return {
        "list_id": expected,
        "plan_id": plan,
        "muster_id": musters.start(boss, plan, is_drill=False),
        "document_id": document.id,
        "note_id": f"{SECRET}-note",
        "photo_id": f"{SECRET}-photo",
        "rule": rule,
        "alert": alert,
        "bulk_job": bulk_job,
        "wall_id": walls.add(boss, NewWall(SECRET, Shows.ALERTS))[0].id,
        "asset_id": pallet.id,
        "record_id": pallet.id,
        "location_id": dock.id,
        "tag_id": pallet.tags[0].id,
        "reader_id": reader.id,
        "door_id": door,
        "passage": passage,
        "person_id": boss.person_id,
        "device_id": devices.invite(boss, SECRET)[0].id,
        "key_id": api_keys.add_key(boss, SECRET, api_keys.SCOPES, b"hash").id,
        "stock_take_id": f"{SECRET}-take",
        "external_key": pallet.external_key,
        "site_no": site.no,
        "remote_id": 7,
        "job_id": job.id,
        "letter": dead_letters.list_letters(organization_id, 9)[0].no,
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
    values |= {name: min(one.items) for name, one in rule._converters.items() if isinstance(one, AnyConverter)}
    built = rule.build({name: values[name] for name in rule.arguments}, append_unknown=False)
    assert built
    return built[1]
