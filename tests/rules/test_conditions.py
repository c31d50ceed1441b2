"""Doors, readers, channels, previews, and the thread that evaluates rules."""

from __future__ import annotations

import time

import pytest

from edge import clock
from edge.clock import SECOND
from edge.database.connection import execute
from edge.doors import doors
from edge.events import detection
from edge.events.worker import EventsPace, EventsWorker
from edge.readers import readers, status
from edge.records import assets
from edge.rules import rule_preview, rules
from edge.rules.channels import channels
from edge.rules.conditions import Condition
from edge.rules.engine import Engine
from edge.rules.rule_preview import Kept, preview
from edge.rules.rules import RuleFields
from tests.audit.stage import CHANNEL
from tests.conftest import Cast
from tests.doors.site import Gate, passing
from tests.events.conftest import SILENCE
from tests.rules.conftest import UTC, Site


def test_a_passage_in_the_direction_of_the_rule(cast: Cast) -> None:
    gate = Gate(cast.acme)
    site = Site(cast.acme)
    detection.start(SILENCE)
    for direction in ("out", "any"):
        no = rules.add_rule(site.actor, RuleFields(direction, Condition.PASSES, door_id=gate.door, direction=direction))
        execute("UPDATE rule SET changed_at = 0 WHERE no = ?", (no,))
    site.evaluate()
    gate.receive(passing(100, asset=0) + passing(200, asset=1, is_out=False))
    site.evaluate()
    site.evaluate()
    assert sorted(f"{one.rule_name}: {one.sentence}" for one in site.alerts()) == [
        *("any: Pallet 0 passed Gate", "any: Pallet 1 passed Gate", "out: Pallet 0 passed Gate")
    ]
    shown = preview(rules.list_rules(cast.acme)[0], UTC)
    assert shown
    assert [one.name for one in shown.newest] == ["Pallet 0"]


def test_an_alert_about_a_passage_that_late_reads_disprove_is_over(cast: Cast) -> None:
    gate = Gate(cast.acme)
    site = Site(cast.acme)
    detection.start(SILENCE)
    no = rules.add_rule(site.actor, RuleFields("Out", Condition.PASSES, door_id=gate.door, direction="out"))
    execute("UPDATE rule SET changed_at = 0 WHERE no = ?", (no,))
    site.evaluate()
    gate.receive(passing(100))
    site.evaluate()
    execute("UPDATE passage SET direction = 4, revision = 1")
    site.evaluate()
    execute("UPDATE passage SET direction = 2, revision = 2")
    site.evaluate()
    (alert,) = site.alerts()
    assert alert.over_at


def test_a_reader_that_is_offline(site: Site) -> None:
    site.add_rule(Condition.OFFLINE)

    def heard(ago: int) -> None:
        at = clock.now() - ago
        status.record_readers([status.ReaderStatus(site.reader, at, at, None, 0, "", False)])
        execute("UPDATE reader_state SET last_heard_at = ?", (at,))
        detection.log_readers(SILENCE)
        site.evaluate()

    for ago in (0, clock.HOUR, clock.HOUR, 0):
        heard(ago)
    (alert,) = site.alerts()
    assert alert.sentence == "Reader Portal is offline"
    assert alert.over_at


def test_channels_get_a_message_with_the_alert_and_one_when_it_is_over(site: Site) -> None:
    row = channels.add(site.actor, CHANNEL)
    site.add_rule(Condition.MORE, "north", number=0, channels=str(row.no))
    pallet = site.add_asset("P1")
    site.seen(pallet, "north", 0)
    site.evaluate()
    site.seen(pallet, "south", 3550)
    site.evaluate()
    waiting = execute("SELECT subject, alert_no, asset_id, is_over, is_late FROM message ORDER BY no")
    (alert,) = site.alerts()
    subject = "Rule more: North holds too many assets: 1"
    assert waiting.fetchall() == [(subject, alert.no, None, 0, 1), (subject, alert.no, None, 1, 0)]


def test_previews_agree_with_the_alerts(site: Site) -> None:
    first, second = site.add_asset("P1"), site.add_asset("P2")
    for kind in (Condition.ENTERS, Condition.LEAVES, Condition.STAYS, Condition.MORE, Condition.FEWER):
        site.add_rule(kind, "north", span=600 * SECOND if kind is Condition.STAYS else 0, number=1)
    moves = [(first, "north", 0), (second, "north dock", 5), (first, "south", 900), (second, "south", 1000)]
    for pallet, place, second_of in moves:
        site.seen(pallet, place, second_of)
        site.evaluate()
    for rule in rules.list_rules(site.organization_id):
        shown = preview(rule, UTC)
        assert shown
        assert sorted(one.at for one in shown.newest) == sorted(
            one.occurred_at for one in site.alerts() if one.rule_no == rule.no
        ), rule.kind


def test_a_preview_shows_who_was_unseen(site: Site) -> None:
    pallet = site.add_asset("P1")
    site.record([(pallet, "north", 0), (pallet, "south", 1200)])
    no = site.add_rule(Condition.UNSEEN, span=900 * SECOND)
    shown = preview(rules.get(site.organization_id, no), UTC)
    assert shown
    assert sorted(one.at - site.began for one in shown.newest) == [900 * SECOND, 2100 * SECOND]
    offline = site.add_rule(Condition.OFFLINE)
    assert preview(rules.get(site.organization_id, offline), UTC).kept is Kept.EVENTS


def test_a_preview_reads_assets_and_passages_in_parts_and_until_there_are_too_many(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: it kept the names of all assets, and all passages of a week, in memory."""
    pallets = [site.add_asset(f"P{number}") for number in range(5)]
    site.record([(pallet, "north", second) for second, pallet in enumerate(pallets)])
    door = doors.add_door(site.actor, "Gate")
    for pallet in pallets:
        execute(
            "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
            "outer_reads, since, until, decided_at) VALUES (?1, ?2, ?3, ?4, 2, 990, 9, 9, ?4, ?4, ?4)",
            (site.organization_id, door, pallet, site.began),
        )
    names = {assets.get(site.organization_id, pallet).name for pallet in pallets}
    monkeypatch.setattr(rule_preview, "_TOGETHER", 2)
    for kind in (Condition.ENTERS, Condition.PASSES):
        fields = {"door_id": door, "direction": "any"} if kind is Condition.PASSES else {}
        no = site.add_rule(kind, "north" if kind is Condition.ENTERS else None, **fields)
        rule = rules.get(site.organization_id, no)
        for most, total in ((100, 5), (4, 4)):
            monkeypatch.setattr(rule_preview, "MOST_STAYS", most)
            shown = preview(rule, UTC)
            assert (shown.total, shown.is_complete) == (total, most == 100), kind
            assert {one.name for one in shown.newest} <= names


def test_previews_without_history_say_what_they_are_made_from(site: Site) -> None:
    pallet = site.add_asset("P1")
    values = {"organization_id": site.organization_id, "asset_id": pallet, "battery": 8, "at": site.began}
    execute(
        "INSERT INTO asset_value (asset_id, organization_id, battery, battery_at) "
        "VALUES (:asset_id, :organization_id, :battery, :at)",
        values,
    )
    low = preview(rules.get(site.organization_id, site.add_rule(Condition.BATTERY, number=10)), UTC)
    assert (low.kept, low.total, [(one.asset_id, one.amount) for one in low.newest]) == (Kept.NOW, 1, [(pallet, 8)])
    assert preview(rules.get(site.organization_id, site.add_rule(Condition.BATTERY, number=5)), UTC).total == 0
    fault = rules.get(site.organization_id, site.add_rule(Condition.UNHEALTHY, span=60 * SECOND))
    assert (preview(fault, UTC).kept, preview(fault, UTC).total) == (Kept.NOW, 0)
    reader = readers.add_reader(site.actor, name="Gate", topic="gate", format="edge")
    at = clock.now() - clock.HOUR
    execute(
        "INSERT INTO event (nonce, organization_id, kind, subject_id, at, made_at, within, within_before, data) "
        "VALUES ('n', ?, 'reader.offline', ?, ?, ?, '[]', '[]', '{}')",
        (site.organization_id, reader.id, at, at),
    )
    offline = preview(rules.get(site.organization_id, site.add_rule(Condition.OFFLINE, reader_id=reader.id)), UTC)
    assert (offline.total, offline.newest[0].name, offline.newest[0].at) == (1, "Gate", at)
    assert offline.kept_since is not None


def test_the_thread_of_events_runs_for_rules_alone(cast: Cast) -> None:
    site = Site(cast.acme)
    worker = EventsWorker(EventsPace(SILENCE, clock.DAY), follower=Engine(UTC))
    worker._look()
    assert not detection.is_running(), "nothing is logged without rules and destinations"
    no = rules.add_rule(site.actor, RuleFields("In", Condition.ENTERS, location_id=site.places["north"]))
    worker._look()
    execute("UPDATE rule SET changed_at = 0")
    site.seen(site.add_asset("P1"), "north", 0)
    worker._look()
    assert site.sentences() == ["Pallet P1 entered North"]
    rules.disable_rule(site.actor, no)
    worker._look()
    assert not detection.is_running()
    assert execute("SELECT count(*) FROM rule_asset").fetchone()[0] == 0


def test_a_fault_of_the_rules_does_not_stop_events(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    no = site.add_rule(Condition.ENTERS, "north")

    def fail() -> None:
        raise ValueError("broken")

    monkeypatch.setattr(site.engine, "follow", fail)
    worker = EventsWorker(EventsPace(SILENCE, clock.DAY), follower=site.engine)
    worker._look()
    assert "broken" in worker._follower_fault
    site.seen(site.add_asset("P1"), "north", 0)
    worker._look()
    assert execute("SELECT count(*) FROM event WHERE kind = 'asset.arrived'").fetchone()[0] == 1
    assert worker._due["follower"] > time.monotonic()
    rules.disable_rule(site.actor, no)
    worker._look()
    assert worker._follower_fault == ""
