"""A site with one record of each kind, for acts that change it."""

from __future__ import annotations

import json
from typing import NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor, shell
from edge.database.connection import execute, writing
from edge.events import destinations
from edge.events.destinations import DestinationKind, NewDestination
from edge.events.log import KINDS, Filter
from edge.handhelds import scans, stock_takes
from edge.handhelds.scans import Submitted
from edge.people import api_keys, devices, people, refresh_tokens, second_factors
from edge.people.people import Role
from edge.readers import dead_letters, readers, unassigned_topics, unknown_tags
from edge.readers.dead_letters import NewDeadLetter
from edge.readers.unknown_tags import Sighting
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.sync.store import sites
from edge.tracking import floor_plans


class Stage(NamedTuple):
    """A site with one record of each kind; Ada is the actor."""

    ada: Actor
    asset: assets.AssetRow
    location: locations.LocationRow
    reader: readers.ReaderRow
    key: api_keys.KeyRow
    device: devices.DeviceRow
    olga: people.PersonRow


def set_stage(organization_id: int) -> Stage:
    row = people.add_person(shell(organization_id), "Ada", Role.ADMINISTRATOR)
    ada = actors.person(organization_id, row.id, row.name)
    return Stage(
        ada,
        assets.create(ada, name="Pallet", external_key="A-1", tags=[NewTag("rfid", "E280")]),
        locations.create(ada, name="Dock", external_key="D-1", tags=[NewTag("barcode", "D")]),
        readers.add_reader(ada, name="Portal", topic="portal/1", format="edge"),
        api_keys.add_key(ada, "WMS", ["assets:read"], b"secret"),
        devices.add_device(ada, "Gun 1", b"code", clock.now() + clock.HOUR),
        people.add_person(ada, "Olga", Role.OPERATOR),
    )


def add_second_factor(on: Stage) -> None:
    second_factors.begin(on.ada, b"sealed")
    second_factors.confirm(on.ada, 1, [b"code"])


def scan(on: Stage, code: str) -> None:
    scans.submit(on.ada, [Submitted("scan-1", code, on.location.id, clock.now())], clock.now())


def park(on: Stage) -> None:
    scan(on, "NEW-CODE")


def refresh_twice(on: Stage) -> None:
    refresh_tokens.start_family(on.key.id, b"secret", b"first")
    refresh_tokens.rotate(b"first", b"second")
    refresh_tokens.rotate(b"first", b"third")


def set_a_letter_aside(on: Stage) -> int:
    dead_letters.add([NewDeadLetter(on.ada.organization_id, on.reader.id, "t", b"?", 1, "why", 1)])
    return dead_letters.list_letters(on.ada.organization_id, 9)[0].no


def draw_plan(on: Stage) -> int:
    floor_plans.set_image(on.ada, on.location.id, b"png", "image/png", (10, 10))
    plan = floor_plans.find_plan(on.ada.organization_id, on.location.id)
    assert plan
    return plan.updated_at


def hear_a_topic() -> None:
    unassigned_topics.record([unassigned_topics.Unassigned("t/1", 1, b"{}")])


def see_an_unknown_tag(on: Stage) -> None:
    unknown_tags.record([Sighting(on.ada.organization_id, "rfid", "E2", on.reader.id, "E2", "unmatched", 1, None)])


def add_site(on: Stage) -> sites.Site:
    return sites.add_site(on.ada, "NORTH", "North", b"code")


def add_conflict(on: Stage) -> int:
    """Add a conflict with a site's asset 7 that has the same key. Returns the site number."""
    site = add_site(on)
    record = json.dumps([7, "A-1", "Pallet", None, 1, "{}", 1, None, 1, 1, None, [], ""])
    with writing():
        execute("INSERT INTO link (peer, remote_id, local_id) VALUES (?, 7, ?)", (site.no, on.asset.id))
        execute("INSERT INTO conflict VALUES (?, 7, 2, ?, 'key', ?, 1)", (site.no, on.asset.id, record))
    return site.no


def add_agreeing_conflict(on: Stage) -> int:
    """Add a conflict with an asset that also has the same name and tag."""
    tag = NewTag("rfid", "AGREED")
    assets.attach_tag(on.ada, on.asset.id, tag)
    site_no = add_conflict(on)
    with writing():
        execute("UPDATE conflict SET record = json_set(record, '$[11]', json(?))", (json.dumps([tag]),))
    return site_no


def begin_stock_take(on: Stage) -> None:
    stock_takes.begin(on.ada, "take-1", on.location.id, with_sublocations=False, expected=[on.asset.id], started_at=1)


def add_webhook(on: Stage) -> int:
    url, event_filter = "https://erp.example/hook", Filter(frozenset(KINDS))
    new = NewDestination(DestinationKind.WEBHOOK, "ERP", url, b"sealed", event_filter)
    return destinations.add(on.ada, new).no


def undo(on: Stage) -> None:
    scan(on, "E280")
    scans.undo(on.ada, "scan-1", 0)
