"""Each condition raises its alerts once, also across restarts, kills and replays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database import connection
from edge.database.connection import execute
from edge.events import detection
from edge.events import log as events
from edge.records import assets
from edge.rules import alerts, engine, rules, states
from edge.rules.alerts import AlertFilter, list_alerts
from edge.rules.conditions import AssetKind, Condition
from edge.rules.engine import Engine
from edge.rules.rule_preview import preview
from edge.rules.rules import Rule, RuleFields
from edge.rules.states import Occurrence
from tests.conftest import Cast
from tests.events.conftest import SILENCE, Warehouse, make_events
from tests.rules.conftest import UTC, Site


def test_entering_and_leaving_include_sub_locations(site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north")
    site.add_rule(Condition.LEAVES, "north")
    pallet = site.add_asset("P1")
    for second, place in enumerate(["south", "north dock", "north", "south dock"]):
        site.seen(pallet, place, second)
        site.evaluate()
    assert site.sentences() == ["Pallet P1 entered North", "Pallet P1 left North"]


def test_assets_already_inside_raise_no_alert_after_a_restart(site: Site) -> None:
    pallet = site.add_asset("P1")
    site.seen(pallet, "north", 0)
    site.add_rule(Condition.ENTERS, "north")
    site.add_rule(Condition.STAYS, "north", span=60 * SECOND)
    site.add_rule(Condition.MORE, "north", number=0)
    site.engine = Engine(UTC)
    site.seen(pallet, "north dock", 10)
    site.evaluate()
    assert site.sentences() == []


def test_each_new_rule_begins_in_a_transaction_of_its_own(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others wait for each of them: it takes up to a second with 200,000 assets, and 50 rules can be new at once."""
    site.add_rule(Condition.ENTERS, "north")
    of_each: list[list[str]] = []
    write, seed = engine.writing, states.seed

    @contextmanager
    def counted() -> Iterator[None]:
        of_each.append([])
        with write():
            yield

    def noted(rule: Rule, now: int) -> None:
        of_each[-1].append(rule.fields.name)
        seed(rule, now)

    monkeypatch.setattr(engine, "writing", counted)
    monkeypatch.setattr(states, "seed", noted)
    for name in ("first", "second", "third"):
        place = site.places["north"]
        rules.add_rule(site.actor, RuleFields(name, Condition.MORE, location_id=place, number=0))
    site.evaluate()
    assert [names for names in of_each if names] == [["first"], ["second"], ["third"]]


def test_a_rule_about_unseen_assets_begins_without_a_statement_for_each(site: Site) -> None:
    for number in range(100):
        site.seen(site.add_asset(f"P{number}"), "north", 0)
    site.evaluate()
    statements: list[str] = []
    connection.database.connection().set_trace_callback(statements.append)
    no = site.add_rule(Condition.UNSEEN, span=60 * SECOND)
    connection.database.connection().set_trace_callback(None)
    assert sum("INSERT INTO rule_state" in one for one in statements) < 10
    assert execute("SELECT count(*), sum(is_due) FROM rule_state WHERE rule_no = ?", (no,)).fetchone() == (100, 0)


def test_an_asset_that_was_unseen_has_not_entered_again(site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north")
    pallet = site.add_asset("P1")
    site.seen(pallet, "north", 0)
    site.evaluate()
    unseen = SILENCE._replace(asset=1)
    detection.log_unseen(unseen)
    site.evaluate()
    site.seen(pallet, "north", 3000)
    detection.log_unseen(SILENCE)
    site.evaluate()
    assert site.sentences() == ["Pallet P1 entered North"]


def test_a_long_stay_raises_one_alert_and_is_over_when_the_asset_leaves(site: Site) -> None:
    site.add_rule(Condition.STAYS, "north", span=600 * SECOND)
    late, quick = site.add_asset("P1"), site.add_asset("P2")
    for pallet in (late, quick):
        site.seen(pallet, "north", 0)
    site.seen(quick, "south", 100)
    site.evaluate()
    site.evaluate()
    (alert,) = site.alerts()
    assert alert.sentence == "Pallet P1 stays in North too long"
    assert (alert.occurred_at, alert.over_at) == (site.began + 600 * SECOND, None)
    site.seen(late, "south", 900)
    site.evaluate()
    assert [one.over_at for one in site.alerts()] == [site.began + 900 * SECOND]


@pytest.mark.parametrize(("micros", "alerts"), [(0, 0), (1, 1)])
def test_a_stay_of_exactly_the_time_is_not_longer(site: Site, micros: int, alerts: int) -> None:
    no = site.add_rule(Condition.STAYS, "north", span=600 * SECOND)
    pallet = site.add_asset("P1")
    site.record([(pallet, "north", 0), (pallet, "south", 600 + micros / SECOND)])
    site.evaluate()
    assert len(site.alerts()) == alerts
    shown = preview(rules.get(site.organization_id, no), UTC)
    assert shown
    assert shown.total == alerts


def test_reads_that_come_late_still_show_a_stay_that_was_too_long(site: Site) -> None:
    site.add_rule(Condition.STAYS, "north", span=600 * SECOND)
    pallet = site.add_asset("P1")
    site.record([(pallet, "north", 0), (pallet, "south", 900)])
    site.evaluate()
    assert [(one.occurred_at, one.over_at) for one in site.alerts()] == [
        (site.began + 600 * SECOND, site.began + 900 * SECOND)
    ]


def test_a_location_with_too_many_or_too_few_assets(site: Site) -> None:
    site.add_rule(Condition.MORE, "north", number=1)
    site.add_rule(Condition.FEWER, "north", number=1)
    first, second = site.add_asset("P1"), site.add_asset("P2")
    for at, (pallet, place) in enumerate(
        [(first, "north"), (second, "north dock"), (first, "south"), (second, "south"), (first, "north")]
    ):
        site.seen(pallet, place, at)
        site.evaluate()
    assert site.sentences() == ["North holds too many assets: 2", "North holds too few assets: 0"]
    assert [alert.over_at for alert in site.alerts()] == [site.began + 2 * SECOND, site.began + 4 * SECOND]


def test_a_retired_asset_no_longer_counts(site: Site) -> None:
    first, second = site.add_asset("P1"), site.add_asset("P2")
    for pallet in (first, second):
        site.seen(pallet, "north", 0)
    site.add_rule(Condition.FEWER, "north", number=2)
    assets.delete(site.actor, first)
    site.evaluate()
    assert site.sentences() == ["North holds too few assets: 1"]


def test_an_asset_moved_and_retired_between_two_rounds_counts_once(site: Site) -> None:
    first, second = site.add_asset("P1"), site.add_asset("P2")
    for pallet in (first, second):
        site.seen(pallet, "north", 0)
    site.add_rule(Condition.FEWER, "north", number=1)
    site.seen(first, "south", 10)
    make_events()
    assets.delete(site.actor, first)
    site.evaluate()
    assert site.sentences() == []


def test_an_unseen_asset_raises_one_alert_each_time(site: Site) -> None:
    pallet = site.add_asset("P1")
    site.seen(pallet, "north", 0)
    site.add_rule(Condition.UNSEEN, span=600 * SECOND)
    site.evaluate()
    assert site.sentences() == [], "unseen before the rule"
    site.seen(pallet, "north", 3599)
    site.engine = Engine(UTC)
    site.evaluate()
    execute("UPDATE track SET last_seen_at = last_seen_at - ?", (700 * SECOND,))
    for _ in range(2):
        site.engine = Engine(UTC)
        site.evaluate()
    assert [(one.sentence, one.place_name) for one in site.alerts()] == [("Pallet P1 has not been seen", "North")]


def test_a_rule_about_some_assets(site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north", asset_kind=AssetKind.KEY, asset_value="TOOL-")
    site.add_rule(Condition.ENTERS, "south", asset_kind=AssetKind.METADATA, asset_name="owner", asset_value="Nord")
    tool = site.add_asset("TOOL-1")
    other = assets.create(site.actor, name="Other", external_key="X-TOOL-1", metadata='{"owner":"Nord"}').id
    for second, place in enumerate(["north", "south"]):
        site.record([(tool, place, second), (other, place, second)])
    site.evaluate()
    assert sorted(site.sentences()) == ["Other entered South", "Pallet TOOL-1 entered North"]


def test_another_organization_raises_and_sees_nothing(site: Site, cast: Cast) -> None:
    rival = Warehouse(cast.rival, prefix="rival/")
    site.add_rule(Condition.ENTERS, "north")
    site.add_rule(Condition.UNSEEN, span=60 * SECOND)
    rival.seen(rival.add_asset("P1"), "north", 0)
    site.evaluate()
    assert alerts.list_alerts(cast.rival, alerts.AlertFilter(is_open=False), 9) == site.alerts() == []


def test_a_disabled_rule_is_silent_and_begins_again(site: Site) -> None:
    no = site.add_rule(Condition.ENTERS, "north")
    rules.disable_rule(site.actor, no)
    assert not site.engine.is_needed()
    site.engine.rest()
    first, second = site.add_asset("P1"), site.add_asset("P2")
    site.seen(first, "north", 0)
    make_events()
    rules.enable_rule(site.actor, no)
    execute("UPDATE rule SET changed_at = 0")
    site.evaluate()
    site.seen(second, "north", 1)
    site.evaluate()
    assert site.sentences() == ["Pallet P2 entered North"]


def test_events_dropped_from_the_log_begin_the_rules_again(site: Site) -> None:
    site.add_rule(Condition.ENTERS, "north")
    site.seen(site.add_asset("P1"), "north", 0)
    make_events()
    execute("DELETE FROM event")
    site.evaluate()
    site.seen(site.add_asset("P2"), "north", 1)
    site.evaluate()
    assert site.sentences() == ["Pallet P2 entered North"]


def test_states_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "MOST_STATES", 2)
    for number in range(4):
        site.seen(site.add_asset(f"P{number}"), "north", number)
    site.add_rule(Condition.STAYS, "north", span=clock.HOUR * 2)
    assert execute("SELECT count(*) FROM rule_state").fetchone()[0] == 2


def test_an_organization_with_many_states_leaves_room_for_others(
    site: Site, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "MOST_STATES", 4)
    rival = rules.add_rule(shell(cast.rival), RuleFields("Silent", Condition.UNSEEN, span=clock.HOUR))
    site.evaluate()
    for number in range(4):
        execute("INSERT INTO rule_state VALUES (?, ?, 0, 0, 0, 0, NULL)", (rival, number))
    assert states.room() == {cast.rival: 0}
    no = site.add_rule(Condition.STAYS, "north", span=clock.HOUR * 2)
    assert states.room() == {cast.acme: 2, cast.rival: 0}
    for number in range(3):
        site.seen(site.add_asset(f"P{number}"), "north", number)
    site.evaluate()
    assert execute("SELECT count(*) FROM rule_state WHERE rule_no = ?", (no,)).fetchone()[0] == 3, "counted each minute"
    assert states.room() == {cast.acme: 0, cast.rival: 0}


@pytest.mark.parametrize(
    ("local", "is_on"),
    [
        ("2026-03-02 07:59", False),  # a Monday
        ("2026-03-02 22:00", True),
        ("2026-03-03 05:59", True),  # night of Monday
        ("2026-03-03 06:00", False),
        ("2026-03-03 23:00", False),
    ],
)
def test_hours_may_end_on_the_next_day(local: str, is_on: bool) -> None:
    zone = ZoneInfo("Europe/Berlin")
    night = RuleFields("Night", Condition.ENTERS, days=1, from_minute=22 * 60, until_minute=6 * 60)
    at = datetime.strptime(local, "%Y-%m-%d %H:%M").replace(tzinfo=zone)
    assert night.is_on(clock.to_micros(at), zone) is is_on


def test_outside_its_hours_a_rule_is_silent(site: Site) -> None:
    never = (datetime.fromtimestamp(site.began / SECOND, UTC).weekday() + 3) % 7
    site.add_rule(Condition.ENTERS, "north", days=1 << never)
    site.seen(site.add_asset("P1"), "north", 0)
    site.evaluate()
    assert site.sentences() == []


class Killed(BaseException):
    """The process ends."""


def evaluate_and_die(site: Site, steps: int) -> None:
    """Evaluate with a new engine and end it before its n-th statement."""
    left = [steps]

    def execute_some(sql: str, values: object = ()) -> object:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return execute(sql, values)  # type: ignore[arg-type]

    site.engine = Engine(UTC)
    with suppress(Killed), pytest.MonkeyPatch.context() as patch:
        for module in (connection, engine, states, rules, events):
            patch.setattr(module, "execute", execute_some)
        site.engine.follow()


PLACES = ("north", "north dock", "south")
MOVES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(PLACES)), min_size=1, max_size=12)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=MOVES, deaths=st.lists(st.integers(0, 80), max_size=4), batch=st.integers(1, 5))
def test_kills_and_replays_repeat_and_lose_no_alert(
    site: Site, moves: list[tuple[int, str]], deaths: list[int], batch: int
) -> None:
    numbers = [
        *(site.add_rule(Condition.ENTERS, "north"), site.add_rule(Condition.LEAVES, "north")),
        *(site.add_rule(Condition.STAYS, "north", span=60 * SECOND), site.add_rule(Condition.MORE, "north", number=0)),
    ]
    pallets = [assets.create(site.actor, name=f"P{number}").id for number in range(3)]
    try:
        expected: list[str] = []
        inside: set[int] = set()
        for step, (number, place) in enumerate(moves):
            site.seen(pallets[number], place, step * 100)
            is_inside, count = place.startswith("north"), len(inside)
            if is_inside != (number in inside):
                expected.append(f"P{number} {'entered' if is_inside else 'left'} North")
                expected += [f"P{number} stays in North too long"] * is_inside
            (inside.add if is_inside else inside.discard)(number)
            expected += ["North holds too many assets: 1"] * (len(inside) > 0 and count == 0)
            make_events()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "MOST_EVENTS", batch)
            for steps in deaths:
                evaluate_and_die(site, steps)
            site.engine = Engine(UTC)
            site.evaluate()
            assert sorted(site.sentences(numbers)) == sorted(expected)
            for step, (number, place) in enumerate(moves):
                site.seen(pallets[number], place, step * 100)
            site.evaluate()
        assert sorted(site.sentences(numbers)) == sorted(expected)
    finally:
        for no in numbers:
            rules.remove_rule(site.actor, no)
        for pallet in pallets:
            assets.delete(site.actor, pallet)
        site.evaluate()


def test_a_flood_of_one_rule_leaves_the_open_alerts_of_others(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody with the account of one reader lets a tag wander between two locations."""
    monkeypatch.setattr(alerts, "MOST_OPEN", 20)
    monkeypatch.setattr(alerts, "MOST_KEPT", 40)
    tool, pallet = site.add_asset("tool"), site.add_asset("pallet")
    site.seen(tool, "north dock", 0)
    site.seen(pallet, "south dock", 0)
    kept = site.add_rule(Condition.ENTERS, "south", asset_kind=AssetKind.KEY, asset_value="tool")
    flooded = site.add_rule(Condition.ENTERS, "north dock", asset_kind=AssetKind.KEY, asset_value="pallet")
    site.seen(tool, "south dock", 1)
    for second in range(2, 132):
        site.seen(pallet, "south dock" if second % 2 else "north dock", second)
    site.evaluate()
    while alerts.drop_over(keep=40):
        pass
    open_ones = list_alerts(site.organization_id, AlertFilter(), 1000)
    assert Counter(one.rule_no for one in open_ones) == {kept: 1, flooded: 20}
    closed = [one for one in site.alerts() if one.acknowledged_at]
    assert {one.acknowledged_by for one in closed} == {"edge"}
    assert max(one.occurred_at for one in closed) < min(one.occurred_at for one in open_ones if one.rule_no == flooded)


def test_many_alerts_of_one_organization_leave_those_of_others(site: Site, cast: Cast) -> None:
    rival = rules.add_rule(shell(cast.rival), RuleFields("Silent", Condition.UNSEEN, span=clock.HOUR))
    rule = rules.get(cast.rival, rival)
    assert states.fire(rule, Occurrence("1:1", 1, "Safe", "SAFE", clock.now()))
    alerts.acknowledge_all(shell(cast.rival), AlertFilter(), 1_000, "")
    pallet = site.add_asset("pallet")
    site.seen(pallet, "south dock", 0)
    site.add_rule(Condition.ENTERS, "north dock")
    for second in range(1, 21):
        site.seen(pallet, "south dock" if second % 2 else "north dock", second)
    site.evaluate()
    assert list(iter(lambda: alerts.drop_over(keep=3, limit=4), 0)) == [4, 4]
    assert len(list_alerts(cast.rival, AlertFilter(is_open=False), 10)) == 1


def test_alerts_are_found_in_any_case_of_any_letters(site: Site) -> None:
    site.add_rule(Condition.ENTERS, "south")
    ramp = assets.create(site.actor, name="Übergabe Łódź").id
    site.seen(ramp, "south dock", 1)
    site.evaluate()
    for q, number in (("übergabe", 1), ("ŁÓDŹ", 1), ("uebergabe", 0)):
        assert len(list_alerts(site.organization_id, AlertFilter(q=q), 10)) == number, q
