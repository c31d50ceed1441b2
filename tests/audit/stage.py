"""A site with one record of each kind, for acts that change it."""

from __future__ import annotations

import json
from typing import NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor, shell
from edge.database.change_log import Kind
from edge.database.connection import execute, writing
from edge.events import destinations
from edge.events.destinations import DestinationKind, NewDestination
from edge.events.log import KINDS, Filter
from edge.expected_lists import expected_lists
from edge.handhelds import scans, stock_takes
from edge.handhelds.scans import Submitted
from edge.muster import musters, plans
from edge.muster.plans import NewPlan
from edge.outbound import Network
from edge.people import api_keys, devices, people, refresh_tokens, second_factors
from edge.people.people import Role
from edge.readers import dead_letters, readers, sled_scans, sleds, unassigned_topics, unknown_tags
from edge.readers.dead_letters import NewDeadLetter
from edge.readers.sled_owners import Owner
from edge.readers.sled_scans import SledRead
from edge.readers.unknown_tags import Sighting
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.rules.channels import channels
from edge.rules.channels.channels import NewChannel, Schedule
from edge.rules.outputs import outputs
from edge.rules.outputs.forms import checked
from edge.sync.store import sites
from edge.tracking import floor_plans, tracked_people
from edge.tracking.tracked_people import PeopleSetting
from edge.upstream import counterparts, decisions, upstreams
from edge.upstream.client import Client
from edge.upstream.counterparts import Counterpart, Trouble, TroubleKind
from edge.upstream.upstreams import NewUpstream
from edge.walls import walls
from edge.walls.walls import NewWall, Shows


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
        devices.invite(ada, "Gun 1")[0],
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


CHANNEL = NewChannel("email", "Shift lead", {"host": "mail.example.com"}, b"sealed", Schedule())


OUTPUT = checked({"form": "tasmota", "device": "horn", "seconds": "10"})


def add_channel(on: Stage) -> int:
    return channels.add(on.ada, CHANNEL).no


def add_output(on: Stage) -> int:
    return outputs.add(on.ada, "Horn", OUTPUT).no


def add_list(on: Stage) -> int:
    return expected_lists.create(on.ada, "Truck 12", [on.asset.external_key], location_id=on.location.id)


def sign_list(on: Stage) -> None:
    list_id = add_list(on)
    expected_lists.start(on.ada, list_id)
    expected_lists.sign_off(on.ada, list_id, expected_lists.find_state(on.ada.organization_id, list_id).version)


def add_muster_plan(on: Stage) -> int:
    tracked_people.save(on.ada, PeopleSetting(key_prefix=on.asset.external_key))
    return plans.create(on.ada, NewPlan("Hall", [on.location.id]))


def start_muster(on: Stage) -> int:
    return musters.start(on.ada, add_muster_plan(on), is_drill=False)


def tick_in_muster(on: Stage) -> int:
    muster_id = start_muster(on)
    musters.tick(on.ada, muster_id, on.asset.id)
    return muster_id


def end_muster(on: Stage) -> None:
    muster_id = start_muster(on)
    musters.end(on.ada, muster_id, musters.find_state(on.ada.organization_id, muster_id).version, "")


def add_wall(on: Stage) -> int:
    return walls.add(on.ada, NewWall("Dispatch", Shows.ALERTS))[0].id


def scan_with_sled(on: Stage) -> int:
    """Make the reader a sled of Olga, and scan the asset with it."""
    organization_id, now = on.ada.organization_id, clock.now()
    sleds.assign(on.ada, on.reader.id, person_id=on.olga.id)
    olga = actors.person(organization_id, on.olga.id, on.olga.name)
    sleds.choose_location(olga, "choice-1", on.location.id, now, now)
    with writing():
        read = SledRead(organization_id, on.reader.id, on.asset.id, "E280", now, now, None)
        sled_scans.record(read, Owner(0, on.olga.id, None), 0)
    return on.reader.id


def add_upstream(on: Stage) -> None:
    upstreams.add(on.ada, NewUpstream("https://assets.example", Network.INTERNET, "id", b"sealed"))


class NothingThere(Client):
    """A service from which others have deleted everything."""

    def __init__(self) -> None:
        """Connect to nothing."""

    def by_id(self, kind: Kind, record_id: int) -> None:
        return None


def keep_theirs(on: Stage) -> None:
    """Delete the asset here, because others have deleted it at the service."""
    add_upstream(on)
    trouble = Trouble(TroubleKind.CHANGED, "others deleted it")
    with writing():
        counterparts.keep(1, [Counterpart(on.asset.id, Kind.ASSET, 7, trouble=trouble)], 0)
    decisions.keep_theirs(on.ada, NothingThere(), on.asset.id)
