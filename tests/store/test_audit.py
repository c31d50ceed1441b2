"""Every write says who acts and leaves its line in the audit; what does not is listed here, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from edge import clock
from edge.errors import Conflict
from edge.store import (
    actors,
    antenna_kinds,
    assets,
    audit_trail,
    broker_accounts,
    conflicts,
    dead_letters,
    devices,
    dismissals,
    downloads,
    event_destinations,
    floor_plans,
    handheld,
    imports,
    keys,
    label_printers,
    locations,
    organizations,
    people,
    reader_setup,
    readers,
    regained,
    retention,
    retired,
    scanned_codes,
    sessions,
    sites,
    stock_takes,
    target,
    token_families,
    topic_owners,
    unassigned_topics,
    unknown_tags,
)
from edge.store.actors import Actor, ActorKind, shell
from edge.store.audit import acting
from edge.store.database import execute, writing
from edge.store.dead_letters import NewDeadLetter
from edge.store.event_destinations import DestinationKind, NewDestination
from edge.store.events import KINDS, Filter
from edge.store.handheld import Submitted
from edge.store.label_printers import LabelPrinter
from edge.store.parents import UNSET, Parent
from edge.store.people import Role
from edge.store.readers import Placement
from edge.store.tags import NewTag
from edge.store.target import HubAccess
from edge.store.unknown_tags import Sighting
from tests.conftest import Cast
from tests.store.writers import writing_functions

NOT_AUDITED = {
    "scans, and what ingest counts and sets aside: the history and the ledger are their record": {
        "carriers.follow", "carriers.load", "carriers.take_back", "carriers.unload", "carriers.unload_all",
        "antenna_names.port_from", "antenna_names.port_of", "dead_letters.add", "dead_letters.discard",
        "handheld.submit", "held_messages.discard", "held_messages.keep",
        "ignored_messages.record", "ledger.add",
        "ledger.strike", "raw_messages.Window", "raw_messages.done", "reader_status.record_antennas",
        "reader_status.record_offsets", "reader_status.record_readers",
        "receipts.keep", "recent_reads.RecentReads", "scans.reconsider",
        "scans.record", "scans.record_by_person", "sources.number_of", "stay_changes.insert_late",
        "stay_changes.replace_rows", "stay_changes.take_back",
        "stays.write_positions", "stock_takes.begin", "stock_takes.scan", "stock_takes.take_back",
        "unassigned_topics.record", "unknown_tags.record",
    },
    "when something was last seen or used": {"devices.seen", "token_families.start_family"},
    "retention, which tells with record_dropped": {
        "retention.drop_audit", "retention.drop_audit_over", "retention.drop_dead_letters",
        "retention.drop_expired", "retention.drop_history", "retention.drop_old_records",
        "retention.drop_unassigned_topics", "retention.drop_unknown_tags",
    },
    "parts of an act, within the transaction of the function that notes it": {
        "audit.Act", "audit.act_in_group", "audit.acting", "handheld.take_over_waiting", "ids.new_id",
        "ids.new_ids", "raw_messages.order_for_reader", "raw_messages.order_for_tags", "records.update",
        "search.remember", "tagging.attach", "tagging.attach_all", "tagging.detach", "tags.add_all",
        "tags.remove", "tags.remove_all", "topic_owners.sort_anew", "unassigned_topics.forget", "unknown_tags.forget",
        "dismissals.forget_tags",
    },
    "what boxes tell each other: copies of records that are audited at their home, and how far the exchange is": {
        "changes.add_everything", "changes.add_names", "changes.add_range", "changes.claim", "changes.stop",
        "changes.trim", "incoming.take", "mirrors.adopt", "mirrors.apply", "mirrors.retry_conflicts",
        "record_copies.write", "regained.join", "regained.reserve_tracks", "regained.take",
        "mirrors.set_aside", "sites.begin_epoch", "sites.note_contact", "target.acknowledge", "target.count_bytes",
        "sites.note_refusal", "target.drop_pending", "target.go_on_from", "target.keep_pending",
        "target.renew_epoch", "target.skip", "target.trim", "target.update",
    },
    "outbound events: what happened, and how far each destination was told": {
        "event_progress.note_progress", "event_progress.note_test", "event_making.make",
        "event_making.make_readers", "event_making.make_unseen", "event_making.start", "event_making.stop",
        "events.add", "events.drop_old",
    },
    "the file as a whole, while nobody works on it": {
        "migrate.create_schema", "migrate.known_schema", "migrate.migrate", "recovery.recover",
        "snapshots.inspect_copy", "snapshots.move_ids_forward",
    },
}  # fmt: skip
WITH_AN_ACTOR_OF_THEIR_OWN = {
    "devices.enrol": "the device, which has the link",
    "retention.record_dropped": "the service",
    "sites.join": "the site, which has the code",
    "sessions.refuse": "whoever tried is not known",
    "token_families.rotate": "the key whose token was used twice",
}


HUB = HubAccess("https://hub", "N", "Hub", "id")
PRINTER = LabelPrinter("10.0.0.7:9100", "100x50", 8)


class Stage(NamedTuple):
    """Ada acts on a site with one of each."""

    ada: Actor
    asset: assets.AssetRow
    location: locations.LocationRow
    reader: readers.ReaderRow
    key: keys.KeyRow
    device: devices.DeviceRow
    olga: people.PersonRow


@pytest.fixture
def stage(cast: Cast) -> Stage:
    row = people.add_person(shell(cast.acme), "Ada", Role.ADMINISTRATOR)
    ada = actors.person(cast.acme, row.id, row.name)
    return Stage(
        ada,
        assets.create(ada, name="Pallet", external_key="A-1", tags=[NewTag("rfid", "E280")]),
        locations.create(ada, name="Dock", external_key="D-1", tags=[NewTag("barcode", "D")]),
        readers.add_reader(ada, name="Portal", topic="portal/1", format="edge"),
        keys.add_key(ada, "WMS", ["assets:read"], b"secret"),
        devices.add_device(ada, "Gun 1", b"code", clock.now() + clock.HOUR),
        people.add_person(ada, "Olga", Role.OPERATOR),
    )


def scan(on: Stage, code: str) -> None:
    handheld.submit(on.ada, [Submitted("scan-1", code, on.location.id, clock.now())], clock.now())


def park(on: Stage) -> None:
    scan(on, "NEW-CODE")


def refresh_twice(on: Stage) -> None:
    token_families.start_family(on.key.id, b"secret", b"first")
    token_families.rotate(b"first", b"second")
    token_families.rotate(b"first", b"third")


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


def clash(on: Stage) -> int:
    """A site has an asset with the key of ours, under the id 7; the number of the site."""
    site = add_site(on)
    record = json.dumps([7, "A-1", "Pallet", None, 1, "{}", 1, None, 1, 1, None, [], ""])
    with writing():
        execute("INSERT INTO link (peer, remote_id, local_id) VALUES (?, 7, ?)", (site.no, on.asset.id))
        execute("INSERT INTO conflict VALUES (?, 7, 2, ?, 'key', ?, 1)", (site.no, on.asset.id, record))
    return site.no


def begin_stock_take(on: Stage) -> None:
    stock_takes.begin(on.ada, "take-1", on.location.id, with_sublocations=False, expected=[on.asset.id], started_at=1)


def add_webhook(on: Stage) -> int:
    url, wanted = "https://erp.example/hook", Filter(frozenset(KINDS))
    new = NewDestination(DestinationKind.WEBHOOK, "ERP", url, b"sealed", wanted)
    return event_destinations.add(on.ada, new).no


def undo(on: Stage) -> None:
    scan(on, "E280")
    handheld.undo(on.ada, "scan-1", 0)


# function: (an act, the action it is noted as, whose name the line carries)
EXAMPLES: dict[str, tuple[Callable[[Stage], Any], str, str]] = {
    "assets.create": (lambda on: assets.create(on.ada, name="Cage", external_key="C"), "asset.created", "Cage (C)"),
    "assets.patch": (lambda on: assets.patch(on.ada, on.asset.id, {"name": "Box"}), "asset.changed", "Box (A-1)"),
    "assets.rename": (lambda on: assets.rename(on.ada, on.asset.id, "A-2"), "asset.renamed", "Pallet (A-2)"),
    "assets.edit": (lambda on: assets.edit(on.ada, on.asset.id, {"name": "Box"}, "A-1"), "asset.changed", "Box (A-1)"),
    "assets.delete": (lambda on: assets.delete(on.ada, on.asset.id), "asset.deleted", "Pallet (A-1)"),
    "assets.attach_tag": (
        lambda on: assets.attach_tag(on.ada, on.asset.id, NewTag("ble", "AA")), "tag.attached", "Pallet (A-1)",
    ),
    "assets.detach_tag": (
        lambda on: assets.detach_tag(on.ada, on.asset.id, on.asset.tags[0].id), "tag.detached", "Pallet (A-1)",
    ),
    "locations.create": (
        lambda on: locations.create(on.ada, name="Rack", external_key="R"), "location.created", "Rack (R)",
    ),
    "locations.patch": (
        lambda on: locations.patch(on.ada, on.location.id, {"name": "Bay"}), "location.changed", "Bay (D-1)",
    ),
    "locations.rename": (lambda on: locations.rename(on.ada, on.location.id, "D-2"), "location.renamed", "Dock (D-2)"),
    "locations.edit": (
        lambda on: locations.edit(on.ada, on.location.id, {"name": "Bay"}, "D-1"), "location.changed", "Bay (D-1)",
    ),
    "locations.delete": (lambda on: locations.delete(on.ada, on.location.id), "location.deleted", "Dock (D-1)"),
    "locations.attach_tag": (
        lambda on: locations.attach_tag(on.ada, on.location.id, NewTag("ble", "AA")), "tag.attached", "Dock (D-1)",
    ),
    "locations.detach_tag": (
        lambda on: locations.detach_tag(on.ada, on.location.id, on.location.tags[0].id), "tag.detached", "Dock (D-1)",
    ),
    "scanned_codes.attach": (
        lambda on: (park(on), scanned_codes.attach(on.ada, "scan-1", on.asset.id)), "tag.attached", "Pallet (A-1)",
    ),
    "scanned_codes.attach_to_new_asset": (
        lambda on: (park(on), scanned_codes.attach_to_new_asset(on.ada, "scan-1", "Cage")), "tag.attached",
        "Cage (ASSET-0001)",
    ),
    "handheld.undo": (undo, "scan.undone", "Pallet (A-1)"),
    "readers.add_reader": (
        lambda on: readers.add_reader(on.ada, name="P2", topic="p/2", format="csl"), "reader.created", "P2",
    ),
    "readers.change_reader": (
        lambda on: readers.change_reader(on.ada, on.reader.id, {"name": "Gate"}), "reader.changed", "Gate",
    ),
    "readers.remove_reader": (lambda on: readers.remove_reader(on.ada, on.reader.id), "reader.deleted", "Portal"),
    "readers.set_antenna": (
        lambda on: readers.set_antenna(on.ada, on.reader.id, 1, Placement(on.location.id, None, True)),
        "antenna.changed", "Portal",
    ),
    "readers.remove_antenna": (lambda on: readers.remove_antenna(on.ada, on.reader.id, 1), "antenna.reset", "Portal"),
    "broker_accounts.set_account": (
        lambda on: broker_accounts.set_account(on.ada, on.reader.id, "hash"), "broker_account.created", "Portal",
    ),
    "people.add_person": (lambda on: people.add_person(on.ada, "Eve", Role.VIEWER), "person.created", "Eve"),
    "people.update_person": (
        lambda on: people.update_person(on.ada, on.olga.id, name="Olga B"), "person.changed", "Olga B",
    ),
    "people.disable_person": (lambda on: people.disable_person(on.ada, on.olga.id), "person.disabled", "Olga"),
    "people.enable_person": (lambda on: people.enable_person(on.ada, on.olga.id), "person.enabled", "Olga"),
    "sessions.add_session": (lambda on: sessions.add_session(on.ada, b"t", 2**60), "person.signed_in", "Ada"),
    "sessions.end_session": (
        lambda on: (sessions.add_session(on.ada, b"t", 2**60), sessions.end_session(on.ada, b"t")),
        "person.signed_out", "Ada",
    ),
    "sessions.refuse": (lambda on: sessions.refuse(on.olga, None, "10.0.0.9"), "person.sign_in_refused", "Olga"),
    "keys.add_key": (lambda on: keys.add_key(on.ada, "ERP", ["assets:read"], b"h"), "key.created", "ERP"),
    "keys.revoke_key": (lambda on: keys.revoke_key(on.ada, on.key.id), "key.revoked", "WMS"),
    "token_families.rotate": (refresh_twice, "key.tokens_revoked", "WMS"),
    "devices.add_device": (lambda on: devices.add_device(on.ada, "Gun 2", b"c2", 2**60), "device.created", "Gun 2"),
    "devices.renew_enrolment": (
        lambda on: devices.renew_enrolment(on.ada, on.device.id, b"c2", 2**60), "device.invited", "Gun 1",
    ),
    "devices.enrol": (lambda _: devices.enrol(b"code", b"token"), "device.enrolled", "Gun 1"),
    "devices.revoke_device": (lambda on: devices.revoke_device(on.ada, on.device.id), "device.revoked", "Gun 1"),
    "dead_letters.drop": (lambda on: dead_letters.drop(on.ada, set_a_letter_aside(on)), "dead_letter.dismissed", "t"),
    "dead_letters.retry": (lambda on: dead_letters.retry(on.ada, set_a_letter_aside(on)), "dead_letter.retried", "t"),
    "reader_setup.add_reader_with_location": (
        lambda on: reader_setup.add_reader_with_location(on.ada, "Bay", name="P2", topic="p/2", format="edge"),
        "reader.created", "P2",
    ),
    "floor_plans.set_image": (
        lambda on: draw_plan(on), "floor_plan.changed", "Dock (D-1)",
    ),
    "floor_plans.save_shapes": (
        lambda on: floor_plans.save_shapes(
            on.ada, on.location.id, {on.location.id: [(0, 0), (9, 0), (9, 9)]}, draw_plan(on)
        ),
        "floor_plan.changed", "Dock (D-1)",
    ),
    "floor_plans.remove_plan": (
        lambda on: (draw_plan(on), floor_plans.remove_plan(on.ada, on.location.id)), "floor_plan.deleted",
        "Dock (D-1)",
    ),
    "downloads.note_backup": (
        lambda on: downloads.note_backup(on.ada, "edge-1.db.gz"), "backup.downloaded", "edge-1.db.gz",
    ),
    "dismissals.dismiss_tag": (
        lambda on: (see_an_unknown_tag(on), dismissals.dismiss_tag(on.ada, "rfid", "E2")),
        "unknown_tag.dismissed", "rfid:E2",
    ),
    "dismissals.dismiss_topic": (
        lambda on: (hear_a_topic(), dismissals.dismiss_topic(on.ada, "t/#")), "topic.dismissed", "t/#",
    ),
    "dismissals.bring_back": (
        lambda on: (hear_a_topic(), dismissals.dismiss_topic(on.ada, "t/#"),
                    dismissals.bring_back(on.ada, "topic", "t/#")),
        "topic.brought_back", "t/#",
    ),
    "organizations.add_organization": (
        lambda _: organizations.add_organization(actors.shell(user="root"), "New"), "organization.created", "New",
    ),
    "topic_owners.set_prefix": (
        lambda on: (readers.remove_reader(on.ada, on.reader.id), topic_owners.set_prefix(on.ada, "acme")),
        "organization.changed", "Acme",
    ),
    "retired.restore": (
        lambda on: (assets.delete(on.ada, on.asset.id), retired.restore(on.ada, on.asset.id)), "asset.restored",
        "Pallet (A-1)",
    ),
    "label_printers.set_printer": (
        lambda on: label_printers.set_printer(on.ada, PRINTER), "label_printer.changed", "10.0.0.7:9100",
    ),
    "label_printers.remove_printer": (
        lambda on: (label_printers.set_printer(on.ada, PRINTER), label_printers.remove_printer(on.ada)),
        "label_printer.deleted", "10.0.0.7:9100",
    ),
    "conflicts.same_thing": (
        lambda on: conflicts.same_thing(on.ada, clash(on), 7), "asset.merged", "Pallet (A-1)",
    ),
    "conflicts.rename": (
        lambda on: conflicts.rename(on.ada, clash(on), 7, "A-9"), "asset.renamed", "Pallet (A-9)",
    ),
    "stock_takes.finish": (
        lambda on: (begin_stock_take(on), stock_takes.finish(on.ada, "take-1", 2)), "stock_take.signed_off", "Dock",
    ),
    "stock_takes.cancel": (
        lambda on: (begin_stock_take(on), stock_takes.cancel(on.ada, "take-1", 2)), "stock_take.cancelled", "Dock",
    ),
    "stock_takes.mark_lost": (
        lambda on: stock_takes.mark_lost(on.ada, on.asset.id, is_lost=True), "asset.marked_lost", "Pallet (A-1)",
    ),
    "antenna_kinds.set_reader_kind": (
        lambda on: antenna_kinds.set_reader_kind(on.ada, on.reader.id, "Portal", None), "reader.changed", "Portal",
    ),
    "antenna_kinds.set_location_kind": (
        lambda on: antenna_kinds.set_location_kind(on.ada, on.location.id, "Dock", None), "location.changed", "Dock",
    ),
    "imports.import_records": (
        lambda on: imports.import_records(on.ada, "asset", [], lambda _: None), "asset.imported", "0 rows",
    ),
    "event_destinations.add": (lambda on: add_webhook(on), "event_destination.created", "ERP"),
    "event_destinations.open_stream": (
        lambda on: event_destinations.open_stream(on.ada), "event_destination.created", "Live stream",
    ),
    "event_destinations.remove": (
        lambda on: event_destinations.remove(on.ada, add_webhook(on)), "event_destination.deleted", "ERP",
    ),
    "event_destinations.enable": (
        lambda on: event_destinations.enable(on.ada, add_webhook(on)), "event_destination.enabled", "ERP",
    ),
    "event_destinations.disable": (
        lambda on: event_destinations.disable(on.ada, add_webhook(on)), "event_destination.disabled", "ERP",
    ),
    "event_destinations.change_secret": (
        lambda on: event_destinations.change_secret(on.ada, add_webhook(on), b"new"),
        "event_destination.secret_changed", "ERP",
    ),
    "event_destinations.ask_for_test": (
        lambda on: event_destinations.ask_for_test(on.ada, add_webhook(on)), "event_destination.tested", "ERP",
    ),
    "target.steer": (
        lambda on: (target.begin(on.ada, HUB),
                    target.steer(on.ada, "hub.paused", paused_at=1)),
        "hub.paused", "Hub",
    ),
    "sites.add_site": (lambda on: add_site(on), "site.created", "North"),
    "sites.offer_again": (lambda on: sites.offer_again(on.ada, add_site(on).no, b"new"), "site.code_made", "North"),
    "sites.join": (lambda on: (add_site(on), sites.join(b"code", b"hash")), "site.joined", "North"),
    "sites.remove_site": (lambda on: sites.remove_site(on.ada, add_site(on).no), "site.removed", "North"),
    "regained.begin": (lambda on: (target.begin(on.ada, HUB), regained.begin(on.ada)), "hub.recovery_begun", "Hub"),
    "regained.finish": (lambda on: (target.begin(on.ada, HUB), regained.finish(on.ada)), "hub.recovered", "Hub"),
    "target.renew_key": (
        lambda on: (target.begin(on.ada, HUB), target.renew_key(on.ada, HUB._replace(client_id="2"))),
        "hub.key_renewed", "Hub",
    ),
    "target.begin": (lambda on: target.begin(on.ada, HUB), "hub.joined", "Hub"),
    "target.end": (
        lambda on: (target.begin(on.ada, HUB), target.end(on.ada)), "hub.left", "Hub",
    ),
    "retention.record_dropped": (
        lambda _: retention.record_dropped("too old", {"history": 3}), "data.dropped", "this box",
    ),
}  # fmt: skip


def test_whatever_writes_is_audited_or_listed_with_the_reason() -> None:
    listed = {name for names in NOT_AUDITED.values() for name in names}
    assert set(writing_functions()) - listed == set(EXAMPLES)
    assert listed <= set(writing_functions())


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - set(WITH_AN_ACTOR_OF_THEIR_OWN)))
def test_who_acts_is_the_first_argument(name: str) -> None:
    assert writing_functions()[name].first_type == "Actor"


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_write_leaves_its_line(stage: Stage, name: str) -> None:
    act, action, called = EXAMPLES[name]
    last = execute("SELECT max(no) FROM audit").fetchone()[0]
    act(stage)
    found = execute("SELECT action, subject_name, actor_kind, actor_name FROM audit WHERE no > ? ORDER BY no", (last,))
    *_, (noted, subject, kind, who) = found.fetchall()
    assert (noted, subject) == (action, called)
    if name not in WITH_AN_ACTOR_OF_THEIR_OWN and not name.startswith("organizations"):
        assert (kind, who) == (ActorKind.PERSON, "Ada")


def test_a_write_without_a_line_is_refused_and_undone(stage: Stage) -> None:
    with pytest.raises(RuntimeError, match="no line in the audit"), acting(stage.ada):
        execute("UPDATE asset SET name = 'silent'")
    assert assets.get(stage.ada.organization_id, stage.asset.id).name == "Pallet"


def test_an_act_that_changes_nothing_leaves_no_line(stage: Stage) -> None:
    before = audit_trail.recent(stage.ada.organization_id)
    assets.rename(stage.ada, stage.asset.id, "A-1")
    assets.patch(stage.ada, stage.asset.id, {"name": "Pallet"})
    locations.patch(stage.ada, stage.location.id, {})
    people.disable_person(stage.ada, stage.olga.id)
    people.disable_person(stage.ada, stage.olga.id)
    sessions.end_session(stage.ada, b"nobody's")
    after = audit_trail.recent(stage.ada.organization_id)
    assert [line.action for line in after[: -len(before)]] == ["person.disabled"]


def test_a_refused_act_leaves_no_line(stage: Stage) -> None:
    before = audit_trail.recent(stage.ada.organization_id)
    with pytest.raises(Conflict):
        assets.create(stage.ada, name="Again", external_key="A-1")
    assert audit_trail.recent(stage.ada.organization_id) == before


def test_the_line_tells_what_changed_from_what_to_what(stage: Stage) -> None:
    hall = locations.create(stage.ada, name="Hall", external_key="H-1")
    locations.patch(stage.ada, stage.location.id, {"name": "Dock 1"}, parent=Parent(hall.id, UNSET))
    readers.change_reader(stage.ada, stage.reader.id, {"location_id": hall.id, "min_rssi": -60.0})
    reader, location = audit_trail.recent(stage.ada.organization_id, 2)
    assert location.detail == {"name": {"old": "Dock", "new": "Dock 1"}, "parent": {"old": None, "new": "H-1"}}
    assert reader.detail == {"min_rssi": {"old": None, "new": -60.0}, "location": {"old": None, "new": "Hall (H-1)"}}


def test_secrets_and_their_hashes_are_not_kept(stage: Stage) -> None:
    people.update_person(stage.ada, stage.olga.id, password_hash="scrypt:x$HASHED", pin_hash="scrypt:y$HASHED")
    keys.add_key(stage.ada, "ERP", ["assets:read"], b"HASHED")
    broker_accounts.set_account(stage.ada, stage.reader.id, "$7$HASHED")
    lines = audit_trail.recent(stage.ada.organization_id, 3)
    assert lines[2].detail == {"password": "changed", "pin": "changed"}
    assert "HASHED" not in str(execute("SELECT * FROM audit").fetchall())


def test_a_long_text_is_cut_and_says_so(stage: Stage) -> None:
    assets.patch(stage.ada, stage.asset.id, {"description": "x" * 5000})
    told = audit_trail.recent(stage.ada.organization_id, 1)[0].detail["description"]["new"]
    assert told.endswith("… (5000 characters)")
    assert len(told) < 1100


def test_wrong_passwords_of_one_hour_are_one_line(stage: Stage, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        sessions.refuse(stage.olga, None, f"10.0.0.{number}")
        sessions.refuse(None, None, f"10.0.1.{number}")
    mine = audit_trail.recent(stage.ada.organization_id, 1)[0]
    assert (mine.subject_name, mine.detail) == ("Olga", {"address": "10.0.0.29", "attempts": 30})
    of_nobody = audit_trail.list_page(cast.acme, audit_trail.AuditFilter(subject_kind=audit_trail.BOX), limit=9).rows
    assert [line.detail["attempts"] for line in of_nobody if line.action == "person.sign_in_refused"] == [30]
    later = clock.now() + clock.HOUR + 1
    monkeypatch.setattr(clock, "now", lambda: later)
    sessions.refuse(stage.olga, None, "10.0.0.1")
    assert audit_trail.recent(stage.ada.organization_id, 1)[0].detail["attempts"] == 1


def test_filters_and_pages_of_the_audit(stage: Stage, cast: Cast) -> None:
    assets.patch(shell(cast.acme, "root"), stage.asset.id, {"name": "Box"})
    assets.create(shell(cast.rival), name="Theirs")

    def actions(**wanted: Any) -> list[str]:
        found = audit_trail.list_page(cast.acme, audit_trail.AuditFilter(**wanted), limit=50)
        assert found.total_count == len(found.rows)
        return [line.action for line in found.rows]

    assert actions(subject_id=str(stage.asset.id)) == ["asset.changed", "asset.created"]
    assert actions(actor_kind="shell", subject_kind="asset") == ["asset.changed"]
    assert actions(actor_kind="person", actor_id=stage.ada.id, subject_kind="asset") == ["asset.created"]
    assert actions(subject="pallet") == ["asset.created"]
    assert "asset.created" not in actions(since=clock.now() + clock.SECOND)
    assert actions(until=1) == []
    whole = audit_trail.recent(cast.acme)
    page = audit_trail.list_page(cast.acme, audit_trail.AuditFilter(), limit=3, offset=2)
    assert (page.rows, page.total_count) == (whole[2:5], len(whole))


def test_old_lines_are_dropped_in_steps_through_the_index(stage: Stage, cast: Cast) -> None:
    with writing():
        execute("UPDATE audit SET at = 1000 + no")
    count = execute("SELECT count(*) FROM audit").fetchone()[0]
    newest = execute("SELECT max(no) FROM audit").fetchone()[0]
    steps = iter(lambda: retention.drop_audit(1000 + newest, limit=2), 0)
    assert sum(steps) == count - 1
    assert retention.drop_audit_over(keep=1) == 0
    assert retention.drop_audit_over(keep=0) == 1
    plan = execute(f"EXPLAIN QUERY PLAN {retention._DROP_AUDIT}", (cast.acme, 1, 1)).fetchall()
    assert "audit_recent" in str(plan)
