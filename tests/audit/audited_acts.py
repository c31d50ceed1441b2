"""Every writing function of the store: an example with its audit entry, or the reason why it leaves none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

from edge import clock
from edge.audit import actors
from edge.bulk import bulk_jobs, imports
from edge.bulk.asset_changes import Action, BulkChange
from edge.config import changed_settings
from edge.doors import doors
from edge.doors.doors import DoorAntenna
from edge.doors.passage_rule import Side
from edge.epcis import places
from edge.epcis.places import Place
from edge.events import destinations
from edge.expected_lists import expected_lists
from edge.handhelds import scans, stock_takes
from edge.labels import printers
from edge.labels.printers import LabelPrinter
from edge.muster import musters, plans
from edge.muster.plans import NewPlan
from edge.operations import downloads
from edge.people import api_keys, devices, organizations, people, second_factors, sessions, topic_owners
from edge.people.people import Role
from edge.readers import (
    antenna_kinds,
    broker_accounts,
    dead_letters,
    dismissals,
    location_corrections,
    reader_import,
    readers,
    sled_scans,
    sleds,
)
from edge.readers.readers import Placement
from edge.records import asset_notes, asset_photos, assets, csv_import, csv_import_tags, keys_in_bulk, loans, locations
from edge.records.csv_import import NewRecord
from edge.records.csv_import_tags import line_of
from edge.records.loans import LoanFilter
from edge.records.tags import NewTag
from edge.rules import alerts, rules, saved_filters, states
from edge.rules.channels import channels
from edge.rules.conditions import Condition
from edge.rules.outputs import outputs
from edge.rules.rules import RuleFields
from edge.rules.states import Occurrence
from edge.sync.store import conflicts, hub_link, recovered_history, remote_batches, site_lifecycle, sites
from edge.sync.store.hub_link import HubAccess
from edge.tracking import (
    deletion,
    floor_plans,
    lost_assets,
    rssi_offsets,
    tracked_people,
)
from edge.tracking.board import BoardFilter
from edge.tracking.postgres import moving
from edge.tracking.tracked_people import PeopleSetting
from edge.upstream import bridges, upstreams
from edge.walls import walls
from tests.audit.stage import (
    CHANNEL,
    OUTPUT,
    Stage,
    add_agreeing_conflict,
    add_channel,
    add_conflict,
    add_list,
    add_muster_plan,
    add_output,
    add_second_factor,
    add_site,
    add_upstream,
    add_wall,
    add_webhook,
    begin_stock_take,
    draw_plan,
    end_muster,
    hear_a_topic,
    keep_theirs,
    park,
    refresh_twice,
    scan_with_sled,
    see_an_unknown_tag,
    set_a_letter_aside,
    sign_list,
    start_muster,
    tick_in_muster,
    undo,
)

LATE = BoardFilter(loan=LoanFilter.OVERDUE)
RULE = RuleFields("Too long", Condition.UNSEEN, span=clock.HOUR)


def raise_alert(on: Stage) -> int:
    rule = rules.get(on.ada.organization_id, rules.add_rule(on.ada, RULE))
    alert_no = states.fire(rule, Occurrence("1:1", on.asset.id, on.asset.name, on.asset.external_key, clock.now()))
    assert alert_no is not None
    return alert_no


PART_OF_AN_ACT = "within the transaction of the function of the store that notes it"
NOT_AUDITED = {
    "scans, and what ingest counts and sets aside: the history and the ledger are their record": {
        "carriers.follow", "carriers.load", "carriers.take_back", "carriers.unload", "carriers.unload_all",
        "antenna_names.port_from", "antenna_names.port_of", "dead_letters.add", "dead_letters.discard",
        "counted_reads.CountedReads", "scans.record_accepted", "scans.submit",
        "accepted_scans.record_of_stock_take", "accepted_scans.record_rest",
        "held_back.HeldBack", "held_back.store", "held_messages.discard", "held_messages.keep",
        "mapped_fields.record", "reader_messages.Keeper",
        "ignored_messages.record", "ledger.add", "loads.undo_load", "loads.undo_unload", "loads.unload",
        "ledger.note_dropped", "loads.resume",
        "ledger.subtract", "kept_messages.Window", "kept_messages.close_requests", "status.record_antennas",
        "status.record_offsets", "status.record_readers",
        "routing.Line", "routing.Router",
        "receipts.Receipts", "recent_reads.RecentReads", "recent_reads.insert_batch", "positions.reconsider",
        "positions.record", "positions.record_by_person", "positions.settle", "replay.Replays", "replay.packs_of",
        "stays.number_of", "stays.add_track",
        "late_reads.insert_late",
        "passages.DoorReads", "late_reads.relocate", "late_reads.replace_rows", "late_reads.take_back",
        "stays.write_positions", "stock_takes.begin", "device_reports.forget", "device_reports.record",
        "stock_takes.scan",
        "stock_takes.undo_scan",
        "unassigned_topics.record", "unknown_tags.record",
        "sled_scans.record", "sled_scans.recount_some", "sleds.choose_location", "sleds.end_choice",
    },
    "alerts that rules raise, and their state: the list of alerts is their record": {
        "engine.Engine", "states.fire", "states.hold", "states.mark_fired", "states.release", "states.seed",
        "states.withdraw",
    },
    "which session at the broker gets a reader's messages: nobody sees a difference": {
        "broker_accounts.assign_sessions", "broker_accounts.end_sessions",
    },
    "when something was last seen or used": {
        "devices.record_seen", "walls.record_seen",
        "people.set_badge_mark", "second_factors.accept_step", "sessions.note_use", "refresh_tokens.start_family",
        "tokens.exchange", "tokens.refresh",
    },
    "slices of a bulk job: each asset is audited by the function for a single asset, moves are scans": {
        "asset_changes.apply", "slices.run_jobs", "slices.write_slice",
    },
    "answers that are kept to be given again; the create that they are of is audited": {
        "idempotency.store", "idempotency.once",
    },
    "the stays of a hub, which are the same in PostgreSQL and here": {
        "labels.make_equal", "labels.refresh", "lent_rows.lent", "moving.bring_back", "moving.finish_there",
        "copies.count_after_deletion",
        "copies.add_to_row_counts", "copies.drop_remote_rows", "copies.forget_remote_stays",
    },
    "the index of past positions, which repeats the history": {
        "past.add_ended_stays", "past.renew_ended_stays", "past_board.board_at", "past_index.add_tracks",
        "past_index.catch_up", "past_index.maintain",
    },
    "retention, which tells with record_dropped": {
        "alerts.drop_old", "alerts.drop_over",
        "deletion.drop_audit", "deletion.drop_audit_over", "deletion.drop_dead_letters",
        "deletion.drop_expired", "deletion.drop_history", "deletion.drop_old_records",
        "deletion.drop_raw_messages", "deletion.drop_these_stock_takes",
        "deletion.drop_crowded", "deletion.drop_whole", "copies.delete_rows_before",
        "copies.drop_remote_rows", "copies.count_after_deletion",
        "deletion.drop_history_of_people",
        "deletes.delete_some", "deletes.delete_whole",
        "musters.drop_old",
    },
    "declares assets and locations; each of its methods is audited": {"record.Kind"},
    "declares destinations; each of its methods is audited": {"family.Family", "family.declare"},
    PART_OF_AN_ACT: {
        "asset_notes.remove_row", "bulk_jobs.add", "bulk_jobs.begin", "bulk_jobs.finish", "imports.write_some",
        "audit.Act", "audit.act_in_group", "audit.acting", "accepted_scans.record_waiting_scans", "ids.new_id",
        "kinds.Kind", "connection.insert", "connection.update",
        "ids.new_ids", "ids.skip_numbers", "kept_messages.request_for_reader", "kept_messages.request_for_tags",
        "import_drafts.prepare", "import_drafts.write", "dismissals.forget_tags",
        "search.index_records", "search.index_stored", "tagging.attach_all",
        "tagging.attach_prepared", "tags.add_prepared", "tags.prepare_all",
        "tags.remove", "tags.remove_all", "topic_owners.reassign_topics", "unassigned_topics.forget",
        "unknown_tags.drop", "unknown_tags.forget", "pin_lockout.count_wrong_pin", "sites.end_key",
    },
    "what boxes tell each other: copies of records that are audited at their home, and how far the exchange is": {
        "change_feed.add", "change_feed.add_everything", "change_feed.add_names",
        "copies.keep_hub_positions", "copies.skip_track_numbers", "epochs.renew_epochs",
        "passage_copies.keep_doors", "passage_copies.keep_passages", "passage_copies.queue_all",
        "change_feed.claim",
        "change_log.add_positions", "change_log.begin", "change_log.catch_up",
        "change_log.leave", "change_log.take", "change_log.trim",
        "stays.move_to_asset",
        "copies.add_site_track", "copies.count_rows", "copies.delete_track",
        "copies.recount", "returned_copies.recover_position",
        "returned_copies.recover_rows", "returned_copies.recover_track",
        "copies.release_number", "copies.release_numbers",
        "copies.remove_track", "copies.set_row_counts", "remote_batches.settle", "remote_batches.settle_all",
        "remote_batches.writing_stays", "sites.move_cursor",
        "copies.replace_rows", "copies.reserve_tracks", "copies.update_last_seen", "copies.update_tracks",
        "change_feed.leave_sync", "incoming.take", "mirrors.adopt", "mirrors.apply_in_steps",
        "mirrors.retry_conflicts", "mirrors.retry_in_steps", "site_quotas.charge", "site_quotas.charging",
        "site_quotas.check", "mirrors.begin_validity",
        "mirrors.keep_lost", "mirrors.take_back",
        "change_feed.add_homes",
        "record_copies.write", "record_copies.retire", "record_copies.drop_tag", "mirrors.absorb",
        "passage_copies.recover",
        "sites.admit", "epochs.check_not_behind", "epochs.hub_state", "epochs.skip_ids", "recovered_history.join",
        "recovered_history.reserve_tracks", "recovered_history.take",
        "refused_data.set_aside", "refused_data.set_all_aside",
        "sites.begin_epoch", "sites.note_contact", "hub_link.acknowledge", "hub_link.count_bytes",
        "site_health.forget", "site_health.keep",
        "sites.note_refusal", "hub_link.drop_pending", "hub_link.continue_from", "hub_link.keep_pending",
        "epochs.renew_epoch", "epochs.retire", "hub_link.skip", "hub_link.trim", "hub_link.update",
    },
    "what a service with the v1 API has, and how far the exchange is: the records are audited here": {
        "counterparts.force", "counterparts.forget", "counterparts.keep", "counterparts.retry",
        "counterparts.retry_kind", "upstreams.begin_walk", "upstreams.end_walk",
        "upstreams.move", "upstreams.add_written", "upstreams.note_failure",
    },
    "digests of days, computed from the history": {
        "digests.catch_up", "digests.check", "digests.forget", "digests.kept_by_day",
    },
    "outbound events: what happened, and how far each destination was told": {
        "progress.record_progress", "progress.record_test", "detection.log_changes",
        "detection.log_readers", "detection.log_unseen", "detection.start", "detection.stop",
        "changes.take", "log.add", "log.drop_old", "subscriptions.log_changes",
    },
    "messages of alerts, which are audited themselves, and how far each channel is": {
        "outbox.enqueue", "outbox.postpone",
        "outbox.lose", "outbox.remove", "saved_filters.enqueue_due",
    },
    "what the broker has acknowledged; the alerts that switch outputs are audited themselves": {
        "outputs.drop_last_command", "outputs.drop_old_commands", "outputs.record",
        "outputs.record_failure",
    },
    "readings of tags, and faults that the box found": {
        "asset_values.record", "box_faults.record", "alerts.close_excess",
    },
    "programs that read the open feed, and the feed itself: reading changes nothing": {
        "replaced.note_events", "change_feed.add_stays", "change_feed.add_whole_tracks",
        "change_feed.close_for_readers", "change_feed.end_cursors",
        "change_feed.open_for_readers", "change_feed.skip", "cursors.advance",
        "cursors.begin", "cursors.forget_silent", "pages.first_page", "pages.next_page",
    },
    "reads only, but names triggers that write": {"triggers.Logged", "triggers.optional", "triggers.tables_of"},
    "a copy of the site, on which a release is tried": {"upgrade.try_release"},
    "the file as a whole, while nobody works on it": {
        "change_log.install",
        "migrate.create_schema", "migrate.known_schema", "migrate.migrate", "repair.recover", "downgrade.downgrade",
        "portable_records.add", "portable_records.set_id_sequence", "portable_records.finish",
        "snapshots.inspect_copy", "snapshots.move_ids_forward", "snapshots.note_origin",
    },
}  # fmt: skip
WITH_AN_ACTOR_OF_THEIR_OWN = {
    "devices.enrol": "the device, which has the link",
    "deletion.record_dropped": "the service",
    "sites.join": "the site, which has the code",
    "sessions.refuse": "whoever tried is not known",
    "refresh_tokens.rotate": "the key whose token was used twice",
    "musters.start_by_rule": "the service, by the rule's name",
}


HUB = HubAccess("https://hub", "N", "Hub", "id")
PRINTER = LabelPrinter("10.0.0.7:9100", "100x50", 8)

# function: (an act, its action, the subject's name in the entry)
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
    "bulk_jobs.start": (
        lambda on: bulk_jobs.start(on.ada, BulkChange(Action.RETIRE), [on.asset.id]),
        "bulk_change.started", "Bulk change",
    ),
    "bulk_jobs.stop": (
        lambda on: bulk_jobs.stop(on.ada, bulk_jobs.start(on.ada, BulkChange(Action.RETIRE), [on.asset.id])),
        "bulk_change.ended", "Bulk change",
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
    "scans.attach": (
        lambda on: (park(on), scans.attach(on.ada, "scan-1", on.asset.id)), "tag.attached", "Pallet (A-1)",
    ),
    "scans.attach_to_new_asset": (
        lambda on: (park(on), scans.attach_to_new_asset(on.ada, "scan-1", "Cage")), "tag.attached",
        "Cage (ASSET-0001)",
    ),
    "scans.undo": (undo, "scan.undone", "Pallet (A-1)"),
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
    "people.enable_person": (
        lambda on: (people.disable_person(on.ada, on.olga.id), people.enable_person(on.ada, on.olga.id)),
        "person.enabled", "Olga",
    ),
    "sessions.end_sessions": (
        lambda on: (sessions.add_session(on.ada, b"t", 2**60), sessions.end_sessions(on.ada, b"")),
        "person.signed_out", "Ada",
    ),
    "sessions.add_session": (lambda on: sessions.add_session(on.ada, b"t", 2**60), "person.signed_in", "Ada"),
    "sessions.end_session": (
        lambda on: (sessions.add_session(on.ada, b"t", 2**60), sessions.end_session(on.ada, b"t")),
        "person.signed_out", "Ada",
    ),
    "sessions.refuse": (lambda on: sessions.refuse(on.olga, None, "10.0.0.9"), "person.sign_in_refused", "Olga"),
    "second_factors.begin": (
        lambda on: second_factors.begin(on.ada, b"sealed"), "person.second_factor_begun", "Ada",
    ),
    "second_factors.confirm": (
        lambda on: add_second_factor(on), "person.second_factor_added", "Ada",
    ),
    "second_factors.spend_recovery_code": (
        lambda on: (add_second_factor(on), second_factors.spend_recovery_code(on.ada, b"code")),
        "person.recovery_code_used", "Ada",
    ),
    "second_factors.remove": (
        lambda on: (add_second_factor(on), second_factors.remove(on.ada, int(on.ada.id))),
        "person.second_factor_removed", "Ada",
    ),
    "api_keys.add_key": (lambda on: api_keys.add_key(on.ada, "ERP", ["assets:read"], b"h"), "key.created", "ERP"),
    "api_keys.revoke_key": (lambda on: api_keys.revoke_key(on.ada, on.key.id), "key.revoked", "WMS"),
    "refresh_tokens.rotate": (refresh_twice, "key.tokens_revoked", "WMS"),
    "devices.invite": (lambda on: devices.invite(on.ada, "Gun 2"), "device.created", "Gun 2"),
    "devices.renew_invitation": (
        lambda on: devices.renew_invitation(on.ada, on.device.id), "device.invited", "Gun 1",
    ),
    "devices.enrol": (
        lambda on: devices.enrol(devices.renew_invitation(on.ada, on.device.id)), "device.enrolled", "Gun 1"
    ),
    "devices.revoke_device": (lambda on: devices.revoke_device(on.ada, on.device.id), "device.revoked", "Gun 1"),
    "dead_letters.dismiss": (
        lambda on: dead_letters.dismiss(on.ada, set_a_letter_aside(on)), "dead_letter.dismissed", "t"
    ),
    "dead_letters.requeue": (
        lambda on: dead_letters.requeue(on.ada, set_a_letter_aside(on)), "dead_letter.requeued", "t"
    ),
    "readers.add_reader_with_location": (
        lambda on: readers.add_reader_with_location(on.ada, "Bay", name="P2", topic="p/2", format="edge"),
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
    "remote_batches.note_takeover": (
        lambda on: remote_batches.note_takeover(on.ada), "history.taken_over", "hub.history",
    ),
    "moving.record_move": (
        lambda on: moving.record_move(on.ada, "moved_back", 3), "history.moved_back",
        "hub.history",
    ),
    "downloads.record_download": (
        lambda on: downloads.record_download(on.ada, "edge-1.db.gz"), "backup.downloaded", "edge-1.db.gz",
    ),
    "dismissals.dismiss_tag": (
        lambda on: (see_an_unknown_tag(on), dismissals.dismiss_tag(on.ada, "rfid", "E2")),
        "unknown_tag.dismissed", "rfid:E2",
    ),
    "dismissals.dismiss_topic": (
        lambda on: (hear_a_topic(), dismissals.dismiss_topic(on.ada, "t/#")), "topic.dismissed", "t/#",
    ),
    "dismissals.restore": (
        lambda on: (hear_a_topic(), dismissals.dismiss_topic(on.ada, "t/#"),
                    dismissals.restore(on.ada, "topic", "t/#")),
        "topic.brought_back", "t/#",
    ),
    "organizations.add_organization": (
        lambda _: organizations.add_organization(actors.shell(user="root"), "New"), "organization.created", "New",
    ),
    "topic_owners.set_prefix": (
        lambda on: (readers.remove_reader(on.ada, on.reader.id), topic_owners.set_prefix(on.ada, "acme")),
        "organization.changed", "Acme",
    ),
    "assets.restore": (
        lambda on: (assets.delete(on.ada, on.asset.id), assets.restore(on.ada, on.asset.id)), "asset.restored",
        "Pallet (A-1)",
    ),
    "sleds.assign": (
        lambda on: sleds.assign(on.ada, on.reader.id, person_id=on.olga.id), "sled.assigned", "Portal",
    ),
    "sled_scans.undo": (
        lambda on: sled_scans.undo(on.ada, scan_with_sled(on), 0, 0), "sled.undone", "Portal",
    ),
    "asset_notes.add": (
        lambda on: asset_notes.add(on.ada, "note-1", on.asset.id, "Dented", clock.now()),
        "asset.note_added", "Pallet (A-1)",
    ),
    "asset_notes.remove": (
        lambda on: (
            asset_notes.add(on.ada, "note-1", on.asset.id, "Dented", clock.now()),
            asset_notes.remove(on.ada, on.asset.id, "note-1"),
        ),
        "asset.note_deleted", "Pallet (A-1)",
    ),
    "loans.lend": (
        lambda on: loans.lend(on.ada, on.asset.id, "Workshop"),
        "asset.lent", "Pallet (A-1)",
    ),
    "loans.take_back": (
        lambda on: (loans.lend(on.ada, on.asset.id, "Workshop"), loans.take_back(on.ada, on.asset.id)),
        "asset.returned", "Pallet (A-1)",
    ),
    "asset_photos.add": (
        lambda on: asset_photos.add(on.ada, "photo-1", on.asset.id, b"JPEG", (1, 1), clock.now()),
        "asset.photo_added", "Pallet (A-1)",
    ),
    "asset_photos.remove": (
        lambda on: (
            asset_photos.add(on.ada, "photo-1", on.asset.id, b"JPEG", (1, 1), clock.now()),
            asset_photos.remove(on.ada, on.asset.id, "photo-1"),
        ),
        "asset.photo_deleted", "Pallet (A-1)",
    ),
    "printers.set_printer": (
        lambda on: printers.set_printer(on.ada, PRINTER), "label_printer.changed", "10.0.0.7:9100",
    ),
    "printers.remove_printer": (
        lambda on: (
            printers.set_printer(on.ada, PRINTER, on.location.id), printers.remove_printer(on.ada, on.location.id)
        ),
        "label_printer.deleted", "10.0.0.7:9100",
    ),
    "changed_settings.change_setting": (
        lambda on: changed_settings.change_setting(on.ada, "pages.session_hours", "8", "12"),
        "setting.changed", "pages.session_hours",
    ),
    "changed_settings.reset_setting": (
        lambda on: (changed_settings.change_setting(on.ada, "pages.session_hours", "8", "12"),
                    changed_settings.reset_setting(on.ada, "pages.session_hours", "12")),
        "setting.reset", "pages.session_hours",
    ),
    "conflicts.merge": (
        lambda on: conflicts.merge(on.ada, add_conflict(on), 7), "asset.merged", "Pallet (A-1)",
    ),
    "conflicts.merge_agreeing": (
        lambda on: conflicts.merge_agreeing(on.ada, add_agreeing_conflict(on)), "asset.merged", "Pallet (A-1)",
    ),
    "conflicts.rename": (
        lambda on: conflicts.rename(on.ada, add_conflict(on), 7, "A-9"), "asset.renamed", "Pallet (A-9)",
    ),
    "stock_takes.finish": (
        lambda on: (begin_stock_take(on), stock_takes.finish(on.ada, "take-1", 2)), "stock_take.signed_off", "Dock",
    ),
    "stock_takes.cancel": (
        lambda on: (begin_stock_take(on), stock_takes.cancel(on.ada, "take-1", 2)), "stock_take.cancelled", "Dock",
    ),
    "lost_assets.mark_lost": (
        lambda on: lost_assets.mark_lost(on.ada, on.asset.id, 1, is_lost=True), "asset.marked_lost", "Pallet (A-1)",
    ),
    "antenna_kinds.set_reader_kind": (
        lambda on: antenna_kinds.set_reader_kind(on.ada, on.reader.id, "Portal", None), "reader.changed", "Portal",
    ),
    "location_corrections.correct": (
        lambda on: location_corrections.correct(
            on.ada,
            location_corrections.Correction(
                on.reader.id, None, on.location.id, locations.create(on.ada, name="Bay").id, 0, 1
            ),
            0,
        ),
        "reader.history_corrected", "Portal",
    ),
    "saved_filters.save": (lambda on: saved_filters.save(on.ada, "Late", LATE), "saved_filter.created", "Late"),
    "saved_filters.remove": (
        lambda on: saved_filters.remove(on.ada, saved_filters.save(on.ada, "Late", LATE)),
        "saved_filter.deleted", "Late",
    ),
    "saved_filters.send_by_mail": (
        lambda on: saved_filters.send_by_mail(
            on.ada, saved_filters.save(on.ada, "Late", LATE), add_channel(on), 360, None, UTC
        ),
        "saved_filter.changed", "Late",
    ),
    "rules.add_rule": (lambda on: rules.add_rule(on.ada, RULE), "rule.created", "Too long"),
    "rules.change_rule": (
        lambda on: rules.change_rule(on.ada, rules.add_rule(on.ada, RULE), RULE._replace(name="Gone")),
        "rule.changed", "Gone",
    ),
    "rules.enable_rule": (
        lambda on: rules.enable_rule(on.ada, rules.add_rule(on.ada, RULE)), "rule.enabled", "Too long",
    ),
    "rules.disable_rule": (
        lambda on: rules.disable_rule(on.ada, rules.add_rule(on.ada, RULE)), "rule.disabled", "Too long",
    ),
    "rules.remove_rule": (
        lambda on: rules.remove_rule(on.ada, rules.add_rule(on.ada, RULE)), "rule.deleted", "Too long",
    ),
    "alerts.acknowledge": (
        lambda on: alerts.acknowledge(on.ada, raise_alert(on), "Seen"),
        "alert.acknowledged", "Pallet has not been seen",
    ),
    "alerts.acknowledge_all": (
        lambda on: alerts.acknowledge_all(on.ada, alerts.AlertFilter(), raise_alert(on), "Seen"),
        "alert.acknowledged_all", "1 alerts",
    ),
    "doors.add_door": (lambda on: doors.add_door(on.ada, "Dock 4"), "door.created", "Dock 4"),
    "tracked_people.save": (
        lambda on: tracked_people.save(on.ada, PeopleSetting(key_prefix="PERSON-")), "people_setting.changed", "people",
    ),
    "plans.create": (lambda on: add_muster_plan(on), "muster_plan.created", "Hall"),
    "plans.change": (
        lambda on: plans.change(on.ada, add_muster_plan(on), NewPlan("Office", [on.location.id])),
        "muster_plan.changed", "Office",
    ),
    "plans.remove": (lambda on: plans.remove(on.ada, add_muster_plan(on)), "muster_plan.deleted", "Hall"),
    "musters.start": (lambda on: start_muster(on), "muster.started", "Hall"),
    "musters.start_by_rule": (
        lambda on: musters.start_by_rule(on.ada.organization_id, add_muster_plan(on), "Smoke"),
        "muster.started", "Hall",
    ),
    "musters.tick": (lambda on: tick_in_muster(on), "muster.ticked", "Hall"),
    "musters.untick": (
        lambda on: musters.untick(on.ada, tick_in_muster(on), on.asset.id), "muster.unticked", "Hall",
    ),
    "musters.end": (lambda on: end_muster(on), "muster.ended", "Hall"),
    "expected_lists.create": (lambda on: add_list(on), "expected_list.created", "Truck 12"),
    "expected_lists.start": (
        lambda on: expected_lists.start(on.ada, add_list(on)), "expected_list.started", "Truck 12",
    ),
    "expected_lists.sign_off": (lambda on: sign_list(on), "expected_list.signed_off", "Truck 12"),
    "expected_lists.remove": (
        lambda on: expected_lists.remove(on.ada, add_list(on)), "expected_list.deleted", "Truck 12",
    ),
    "doors.change_door": (
        lambda on: doors.change_door(on.ada, doors.add_door(on.ada, "Dock 4"), "Dock 5", None),
        "door.changed", "Dock 5",
    ),
    "doors.set_antennas": (
        lambda on: doors.set_antennas(
            on.ada, doors.add_door(on.ada, "Dock 4"), [DoorAntenna(Side.INNER, on.reader.id, None)]
        ),
        "door.changed",
        "Dock 4",
    ),
    "doors.remove_door": (
        lambda on: doors.remove_door(on.ada, doors.add_door(on.ada, "Dock 4")), "door.deleted", "Dock 4",
    ),
    "walls.add": (lambda on: add_wall(on), "wall.created", "Dispatch"),
    "walls.renew": (lambda on: walls.renew(on.ada, add_wall(on)), "wall.renewed", "Dispatch"),
    "walls.revoke": (lambda on: walls.revoke(on.ada, add_wall(on)), "wall.revoked", "Dispatch"),
    "outputs.add": (lambda on: add_output(on), "output.created", "Horn"),
    "outputs.change": (
        lambda on: outputs.change(on.ada, add_output(on), "Siren", OUTPUT), "output.changed", "Siren",
    ),
    "outputs.remove": (lambda on: outputs.remove(on.ada, add_output(on)), "output.deleted", "Horn"),
    "outputs.enable": (lambda on: outputs.enable(on.ada, add_output(on)), "output.enabled", "Horn"),
    "outputs.disable": (lambda on: outputs.disable(on.ada, add_output(on)), "output.disabled", "Horn"),
    "outputs.request_test": (lambda on: outputs.request_test(on.ada, add_output(on)), "output.tested", "Horn"),
    "outputs.issue_account": (
        lambda on: outputs.issue_account(on.ada, add_output(on), "mqtt://localhost"), "output.changed", "Horn",
    ),
    "channels.add": (lambda on: add_channel(on), "channel.created", "Shift lead"),
    "channels.change": (
        lambda on: channels.change(on.ada, add_channel(on), CHANNEL._replace(name="Night shift")),
        "channel.changed", "Night shift",
    ),
    "channels.remove": (lambda on: channels.remove(on.ada, add_channel(on)), "channel.deleted", "Shift lead"),
    "channels.enable": (lambda on: channels.enable(on.ada, add_channel(on)), "channel.enabled", "Shift lead"),
    "channels.disable": (lambda on: channels.disable(on.ada, add_channel(on)), "channel.disabled", "Shift lead"),
    "channels.request_test": (
        lambda on: channels.request_test(on.ada, add_channel(on)), "channel.tested", "Shift lead",
    ),
    "rssi_offsets.set_offset": (
        lambda on: rssi_offsets.set_offset(on.ada, on.reader.id, "Portal", 5.0), "reader.changed", "Portal",
    ),
    "places.save": (
        lambda on: places.save(on.ada, "location", on.location.id, Place("shipping")), "location.changed", "Dock",
    ),
    "antenna_kinds.set_location_kind": (
        lambda on: antenna_kinds.set_location_kind(on.ada, on.location.id, "Dock", None), "location.changed", "Dock",
    ),
    "imports.start": (lambda on: imports.start(on.ada, "asset", [], 0), "bulk_change.started", "Bulk change"),
    "csv_import.write_records": (
        lambda on: csv_import.write_records(on.ada, "asset", [NewRecord(2, "K", {"name": "New"})]),
        "asset.created", "New (K)",
    ),
    "reader_import.write_readers": (
        lambda on: reader_import.write_readers(
            on.ada, [NewRecord(2, "Gate", {"topic": "site/gate", "format": "edge"})]
        ),
        "reader.created", "Gate",
    ),
    "csv_import_tags.write_tags": (
        lambda on: csv_import_tags.write_tags(
            on.ada, [line_of(NewRecord(2, on.asset.external_key, {}, [NewTag("rfid", "AF01")]), "asset", None)]
        ),
        "tag.attached", "Pallet (A-1)",
    ),
    "destinations.add": (lambda on: add_webhook(on), "event_destination.created", "ERP"),
    "destinations.open_stream": (
        lambda on: destinations.open_stream(on.ada), "event_destination.created", "Live stream",
    ),
    "upstreams.add": (
        lambda on: add_upstream(on), "upstream.added", "https://assets.example",
    ),
    "upstreams.remove": (
        lambda on: (add_upstream(on), upstreams.remove(on.ada)), "upstream.removed", "https://assets.example",
    ),
    "upstreams.pause": (
        lambda on: (add_upstream(on), upstreams.pause(on.ada)), "upstream.paused", "https://assets.example",
    ),
    "upstreams.resume": (
        lambda on: (add_upstream(on), upstreams.resume(on.ada)), "upstream.resumed", "https://assets.example",
    ),
    "upstreams.change_secret": (
        lambda on: (add_upstream(on), upstreams.change_secret(on.ada, "id", b"other")), "upstream.secret_changed", "https://assets.example",
    ),
    "upstreams.change_authority": (
        lambda on: (add_upstream(on), upstreams.change_authority(on.ada, "PEM")), "upstream.authority_changed", "https://assets.example",
    ),
    "decisions.keep_theirs": (
        keep_theirs, "upstream.theirs_kept", "https://assets.example",
    ),
    "upstreams.retry": (
        lambda on: (add_upstream(on), upstreams.retry(on.ada)), "upstream.compared", "https://assets.example",
    ),
    "upstreams.overwrite": (
        lambda on: (add_upstream(on), upstreams.overwrite(on.ada, [1])), "upstream.overwritten", "https://assets.example",
    ),
    "bridges.write": (
        lambda on: bridges.write(on.ada, "mqtts://b.example"), "upstream_bridge.written", "mqtts://b.example",
    ),
    "bridges.remove": (
        lambda on: (bridges.write(on.ada, "mqtts://b.example"), bridges.remove(on.ada)),
        "upstream_bridge.removed", "mqtts://b.example",
    ),
    "destinations.remove": (
        lambda on: destinations.remove(on.ada, add_webhook(on)), "event_destination.deleted", "ERP",
    ),
    "destinations.enable": (
        lambda on: destinations.enable(on.ada, add_webhook(on)), "event_destination.enabled", "ERP",
    ),
    "destinations.disable": (
        lambda on: destinations.disable(on.ada, add_webhook(on)), "event_destination.disabled", "ERP",
    ),
    "destinations.change_secret": (
        lambda on: destinations.change_secret(on.ada, add_webhook(on), b"new"),
        "event_destination.secret_changed", "ERP",
    ),
    "destinations.request_test": (
        lambda on: destinations.request_test(on.ada, add_webhook(on)), "event_destination.tested", "ERP",
    ),
    "hub_link.steer": (
        lambda on: (hub_link.begin(on.ada, HUB),
                    hub_link.steer(on.ada, "hub.paused", paused_at=1)),
        "hub.paused", "Hub",
    ),
    "sites.add_site": (lambda on: add_site(on), "site.created", "North"),
    "sites.renew_code": (lambda on: sites.renew_code(on.ada, add_site(on).no, b"new"), "site.code_made", "North"),
    "sites.join": (lambda on: (add_site(on), sites.join(b"code", b"hash")), "site.joined", "North"),
    "sites.make_hub": (lambda on: sites.make_hub(on.ada), "box.made_hub", "this box"),
    "keys_in_bulk.prefix_keys": (
        lambda on: keys_in_bulk.prefix_keys(on.ada, [(2, on.asset.id)], "N-"), "asset.renamed", "Pallet (N-A-1)",
    ),
    "site_lifecycle.remove": (lambda on: site_lifecycle.remove(on.ada, add_site(on).no), "site.removed", "North"),
    "site_lifecycle.retire": (lambda on: site_lifecycle.retire(on.ada, add_site(on).no), "site.retired", "North"),
    "site_lifecycle.rename": (
        lambda on: site_lifecycle.rename(on.ada, add_site(on).no, code="SOUTH", name="South"), "site.renamed", "South",
    ),
    "recovered_history.begin": (
        lambda on: (hub_link.begin(on.ada, HUB), recovered_history.begin(on.ada)), "hub.recovery_begun", "Hub",
    ),
    "recovered_history.finish": (
        lambda on: (hub_link.begin(on.ada, HUB), recovered_history.finish(on.ada)), "hub.recovered", "Hub",
    ),
    "hub_link.renew_key": (
        lambda on: (hub_link.begin(on.ada, HUB), hub_link.renew_key(on.ada, HUB._replace(client_id="2"))),
        "hub.key_renewed", "Hub",
    ),
    "hub_link.begin": (lambda on: hub_link.begin(on.ada, HUB), "hub.joined", "Hub"),
    "hub_link.end": (
        lambda on: (hub_link.begin(on.ada, HUB), hub_link.end(on.ada)), "hub.left", "Hub",
    ),
    "deletion.record_dropped": (
        lambda _: deletion.record_dropped("too old", {"history": 3}), "data.dropped", "this box",
    ),
}  # fmt: skip
