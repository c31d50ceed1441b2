"""Nobody is shown as safe by a read from before the start; ticks, ends, drills, two musters, restarts, 2,000 people."""

from __future__ import annotations

import itertools
import time

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import HOUR, SECOND
from edge.database.connection import close_database, database, execute, execute_many, writing
from edge.errors import Conflict, Invalid, NotFound
from edge.muster import musters, plans, whereabouts
from edge.muster.plans import Chosen, NewPlan
from edge.records import assets, locations
from edge.rules import rules, states
from edge.rules.conditions import Condition
from edge.rules.rules import RuleFields
from edge.rules.states import Occurrence
from edge.tracking import tracked_people
from edge.tracking.stays import Quality
from edge.tracking.tracked_people import PeopleSetting
from tests.conftest import Cast
from tests.muster.hall import Hall
from tests.observed import steps_of


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service has run for a while, so that readers can be known as connected."""
    monkeypatch.setattr(whereabouts, "SETTLED", 0.0)


@pytest.fixture
def hall(cast: Cast) -> Hall:
    return Hall(cast.acme)


def test_a_person_is_safe_after_a_read_at_or_below_a_muster_point(hall: Hall) -> None:
    hall.read(0, hall.hall, -60)
    muster = hall.start()
    assert hall.how(muster, 0) == ("missing", "", "Hall")
    hall.read(0, hall.corner, 5)
    hall.read(1, hall.gate, 6)
    hall.read(2, hall.hall, 7)
    assert hall.safe(muster) == [0, 1]
    assert hall.how(muster, 0) == ("safe", "point", "Yard corner")
    assert hall.how(muster, 2) == ("missing", "", "Hall")


def test_nobody_is_safe_by_a_read_from_before_the_start(hall: Hall) -> None:
    hall.read(0, hall.yard, -1)
    muster = hall.start()
    assert hall.safe(muster) == []
    hall.read(1, hall.yard, -0.001, delay=600)  # late
    hall.read(0, hall.yard, -0.5, delay=30)  # late, and newer than the one known at the start
    assert hall.safe(muster) == []
    hall.read(0, hall.yard, 0)
    assert hall.safe(muster) == [0]


def test_reads_in_any_order_have_the_same_result(hall: Hall) -> None:
    muster = hall.start()
    reads = [(hall.yard, 5), (hall.hall, 200), (hall.gate, 900)]
    for number, order in enumerate(itertools.islice(itertools.permutations(reads), 3)):
        for place, second in order:
            hall.read(number, place, second, delay=1000 - second)
    assert hall.safe(muster) == [0, 1, 2]
    assert {hall.how(muster, number)[2] for number in range(3)} == {"Gate"}


def test_a_person_who_was_read_elsewhere_afterwards_is_missing_again(hall: Hall) -> None:
    muster = hall.start()
    hall.read(0, hall.yard, 5)
    hall.read(0, hall.hall, 400)
    assert hall.how(muster, 0) == ("missing", "left", "Hall")
    hall.read(0, hall.yard, 3, delay=500)  # late: it does not bring the person back
    assert hall.how(muster, 0)[0] == "missing"


def test_a_person_at_two_muster_points_is_safe_at_the_last(hall: Hall) -> None:
    muster = hall.start()
    hall.read(0, hall.yard, 5)
    hall.read(0, hall.gate, 300)
    assert hall.how(muster, 0) == ("safe", "point", "Gate")


def test_a_tick_by_hand_counts_whatever_the_tag_does_and_can_be_taken_back(hall: Hall) -> None:
    muster = hall.start()
    musters.tick(hall.olga, muster, hall.people[0])
    musters.tick(hall.olga, muster, hall.people[0])
    hall.read(0, hall.hall, 100)  # a jacket that was left behind
    one = hall.state(muster).safe[0]
    assert (one.how, one.ticked_by, one.place) == ("hand", hall.olga.name, "Hall")
    musters.untick(hall.olga, muster, hall.people[0])
    assert hall.safe(muster) == []
    acts = execute("SELECT action, detail FROM audit WHERE action LIKE 'muster.%tick%' ORDER BY no").fetchall()
    assert acts == [("muster.ticked", '{"person":"Worker 0"}'), ("muster.unticked", '{"person":"Worker 0"}')]
    for wrong in (musters.tick, musters.untick):
        with pytest.raises(NotFound):
            wrong(hall.olga, muster, hall.pallet)


def test_the_clock_was_behind_at_the_start(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers know the time. What they read before the start must not count, though it is later by this clock."""
    now = clock.now()
    hall.read(0, hall.yard, -30)
    hall.read(1, hall.yard, -40)
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: now - HOUR // 2)
        muster = hall.start()
    assert hall.safe(muster) == []
    (newest,) = execute("SELECT max(last_seen_at) FROM position").fetchone()
    assert hall.began == newest
    hall.read(1, hall.yard, -5, delay=60)  # late, from before the start by the readers' clocks
    assert hall.safe(muster) == []
    hall.read(1, hall.yard, 35)
    assert hall.safe(muster) == [1]


def test_the_clock_is_far_behind_and_the_known_reads_do_not_count(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.now()
    hall.read(0, hall.yard, -30)
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: now - 24 * HOUR)
        muster = hall.start()
    assert hall.began == now - 24 * HOUR
    assert hall.safe(muster) == []


def test_the_clock_was_ahead_at_the_start_so_that_reads_do_not_count_yet(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = clock.now()
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: now + HOUR)
        muster = hall.start()
    hall.read(0, hall.yard, -3500)
    assert hall.safe(muster) == []
    musters.tick(hall.olga, muster, hall.people[0])
    assert hall.safe(muster) == [0]


def test_reads_without_a_time_from_a_reader_that_was_away_may_be_old(hall: Hall) -> None:
    now = clock.now()
    away = hall.add_reader(hall.yard, "Yard 1", heard_at=now - 600 * SECOND, has_clock=False)
    muster = hall.start()
    hall.read(0, hall.yard, 5, quality=Quality.RECEIVED, reader=away)
    assert hall.how(muster, 0) == ("missing", "unsure", "Yard")
    hall.read(0, hall.yard, 64, quality=Quality.RECEIVED, reader=away)
    assert hall.safe(muster) == []
    hall.read(0, hall.yard, 66, quality=Quality.RECEIVED, reader=away)  # still read a minute later
    assert hall.safe(muster) == [0]
    hall.read(1, hall.yard, 70, quality=Quality.HANDHELD)  # scanned by a warden
    assert hall.safe(muster) == [0, 1]


def test_reads_without_a_time_count_from_a_reader_that_was_connected(hall: Hall) -> None:
    here = hall.add_reader(hall.yard, "Yard 1", heard_at=clock.now() - 5 * SECOND, has_clock=False)
    muster = hall.start()
    hall.read(0, hall.yard, 5, quality=Quality.RECEIVED, reader=here)
    assert hall.safe(muster) == [0]


def test_after_a_restart_no_reader_counts_as_connected(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker may still send what the readers sent while edge was away."""
    monkeypatch.setattr(whereabouts, "SETTLED", 120.0)
    monkeypatch.setattr(whereabouts, "_began", time.monotonic() - 60)
    here = hall.add_reader(hall.yard, "Yard 1", heard_at=clock.now(), has_clock=False)
    muster = hall.start()
    hall.read(0, hall.yard, 5, quality=Quality.RECEIVED, reader=here)
    assert hall.how(muster, 0)[1] == "unsure"
    hall.read(1, hall.yard, 5, quality=Quality.READER, reader=here)
    assert hall.safe(muster) == [1]


def test_a_time_that_the_box_does_not_trust_makes_nobody_safe(hall: Hall) -> None:
    muster = hall.start()
    hall.read(0, hall.yard, 5, quality=Quality.UNTRUSTED)
    assert hall.how(muster, 0)[1] == "unsure"


def test_readers_of_a_muster_point_and_below_are_listed_with_their_state(hall: Hall) -> None:
    now = clock.now()
    hall.add_reader(hall.corner, "Corner", heard_at=now)
    hall.add_reader(hall.corner, "Silent", heard_at=now - HOUR)
    hall.add_reader(hall.yard, "Will", heard_at=now, is_offline=True)
    hall.add_reader(hall.hall, "Elsewhere", heard_at=now)
    muster = hall.start()
    gate, yard = hall.state(muster).points
    assert (gate.name, gate.readers) == ("Gate", [])
    assert [(one.name, one.is_offline(60 * SECOND, now)) for one in yard.readers] == [
        ("Corner", False), ("Silent", True), ("Will", True),
    ]  # fmt: skip


def test_a_muster_goes_on_after_a_power_cut(hall: Hall) -> None:
    """Everything is in the database: what is open, who was ticked, and which reads are known."""
    muster = hall.start()
    musters.tick(hall.olga, muster, hall.people[0])
    hall.read(1, hall.yard, 5)
    close_database()
    assert hall.safe(muster) == [0, 1]
    hall.read(2, hall.yard, 20, delay=300)  # sent by the reader when edge was back
    assert hall.safe(muster) == [0, 1, 2]


def test_an_end_stores_the_result_and_nothing_changes_it(hall: Hall) -> None:
    muster = hall.start()
    hall.read(0, hall.yard, 5)
    hall.read(1, hall.hall, 6)
    musters.tick(hall.olga, muster, hall.people[2])
    hall.end(muster, "Worker 1 is on holiday")
    before = hall.state(muster)
    hall.read(1, hall.yard, 60)
    hall.read(0, hall.hall, 400)
    assets.rename(shell(hall.organization_id), hall.people[0], "PERSON-99")
    after = hall.state(muster)
    assert after == before
    assert [(one.name, one.result, one.place) for one in after.people] == [
        ("Worker 0", "safe", "Yard"), ("Worker 1", "missing", "Hall"), ("Worker 2", "safe", ""),
    ]  # fmt: skip
    assert (after.one.note, after.one.ended_by) == ("Worker 1 is on holiday", hall.olga.name)
    for refused in (musters.tick, musters.untick):
        with pytest.raises(Conflict):
            refused(hall.olga, muster, hall.people[1])
    with pytest.raises(Conflict):
        hall.end(muster)


def test_an_end_is_refused_when_others_are_missing_than_on_the_screen(hall: Hall) -> None:
    muster = hall.start()
    hall.read(0, hall.yard, 5)
    shown = hall.state(muster).version
    hall.read(0, hall.hall, 400)
    with pytest.raises(Conflict, match="Other people are missing"):
        musters.end(hall.olga, muster, shown, "")
    assert hall.state(muster).one.is_open
    with pytest.raises(Invalid):
        musters.end(hall.olga, muster, hall.state(muster).version, "x" * 2001)


def test_two_musters_at_once_and_the_same_plan_only_once(hall: Hall) -> None:
    other = plans.create(hall.olga, NewPlan("Office", [hall.gate], Chosen.KEY, "", "PERSON-0"))
    first = hall.start()
    second = musters.start(hall.olga, other, is_drill=True)
    with pytest.raises(Conflict, match="open already"):
        hall.start()
    hall.read(0, hall.yard, 5)
    assert (hall.safe(first), hall.safe(second)) == ([0], [])
    musters.tick(hall.olga, second, hall.people[0])
    assert [one.name for one in musters.open_musters(hall.organization_id)] == ["Hall", "Office"]
    assert hall.state(second).one.is_drill
    hall.end(first)
    hall.start()


def test_plans_choose_among_people_only(hall: Hall) -> None:
    by = shell(hall.organization_id)
    assets.create(by, name="Nadia", external_key="PERSON-N", metadata='{"shift": "night"}')

    def names(plan: NewPlan) -> list[str]:
        one = plans.find_plan(hall.organization_id, plans.create(by, plan))
        return [name for _, _, name in plans.people_of(one)]

    assert names(NewPlan("a", [hall.yard])) == ["Nadia", "Worker 0", "Worker 1", "Worker 2"]
    assert names(NewPlan("b", [hall.yard], Chosen.KEY, "", "P")) == ["Nadia", "Worker 0", "Worker 1", "Worker 2"]
    assert names(NewPlan("c", [hall.yard], Chosen.METADATA, "shift", "night")) == ["Nadia"]
    assert names(NewPlan("d", [hall.yard], Chosen.LIST, codes=["PERSON-1", " PERSON-1", ""])) == ["Worker 1"]
    for wrong in (
        NewPlan("e", [hall.yard], Chosen.LIST, codes=["PALLET-1"]),
        NewPlan("e", [hall.yard], Chosen.LIST, codes=["nobody"]),
        NewPlan("e", [hall.yard], Chosen.LIST),
        NewPlan("e", [hall.yard], Chosen.KEY),
        NewPlan("e", [hall.yard], Chosen.METADATA, "", "x"),
        NewPlan("e", []),
        NewPlan("e", [hall.pallet]),
        NewPlan("", [hall.yard]),
    ):
        with pytest.raises(Invalid):
            plans.create(by, wrong)


def test_a_plan_without_people_or_points_starts_nothing(hall: Hall) -> None:
    nobody = plans.create(hall.olga, NewPlan("Nobody", [hall.yard], Chosen.KEY, "", "PERSON-X"))
    with pytest.raises(Conflict, match="no people"):
        musters.start(hall.olga, nobody, is_drill=False)
    plans.change(hall.olga, nobody, NewPlan("Nowhere", [hall.gate]))
    locations.delete(shell(hall.organization_id), hall.gate)
    with pytest.raises(Conflict, match="no muster point"):
        musters.start(hall.olga, nobody, is_drill=False)


def test_a_plan_in_use_cannot_be_deleted_and_reports_outlive_it(hall: Hall) -> None:
    muster = hall.start()
    with pytest.raises(Conflict):
        plans.remove(hall.olga, hall.plan)
    plans.change(hall.olga, hall.plan, NewPlan("Other", [hall.gate]))
    assert [point.name for point in hall.state(muster).points] == ["Gate", "Yard"]
    hall.end(muster)
    plans.remove(hall.olga, hall.plan)
    assert hall.state(muster).one.name == "Hall"
    assert len(musters.ended_musters(hall.organization_id, 9)) == 1


def test_another_organization_sees_and_changes_nothing(hall: Hall, cast: Cast) -> None:
    muster, spy = hall.start(), shell(cast.rival)
    for act in (
        lambda: musters.find_state(cast.rival, muster),
        lambda: musters.tick(spy, muster, hall.people[0]),
        lambda: musters.end(spy, muster, "", ""),
        lambda: musters.start(spy, hall.plan, is_drill=False),
        lambda: plans.remove(spy, hall.plan),
    ):
        with pytest.raises(NotFound):
            act()
    assert musters.open_musters(cast.rival) == []


def test_reports_are_kept_for_the_time_of_the_setting(hall: Hall) -> None:
    tracked_people.save(shell(hall.organization_id), PeopleSetting(key_prefix="PERSON-", report_days=30))
    old, new = hall.start(), 0
    hall.end(old)
    new = hall.start()
    hall.end(new)
    execute("UPDATE muster SET ended_at = ended_at - ? WHERE id = ?", (31 * clock.DAY, old))
    limits = dict(tracked_people.report_limits())
    before = clock.now() - limits[hall.organization_id]
    assert [musters.drop_old(hall.organization_id, before) for _ in range(2)] == [1, 0]
    assert [one.id for one in musters.ended_musters(hall.organization_id, 9)] == [new]
    assert execute("SELECT DISTINCT muster_id FROM muster_person").fetchall() == [(new,)]


@pytest.mark.slow
def test_two_thousand_people(cast: Cast) -> None:
    hall = Hall(cast.acme, count=2000)
    for number in range(2000):
        hall.read(number, hall.hall, -60)
    muster = hall.start()
    for number in range(1000):
        hall.read(number, hall.yard, 5 + number / 100)
    asked: list[str] = []
    database.connection().set_trace_callback(asked.append)
    state = hall.state(muster)
    database.connection().set_trace_callback(None)
    assert (len(state.safe), len(state.missing)) == (1000, 1000)
    assert len(asked) < 20  # none of them for each person
    hall.end(muster)
    assert len(hall.state(muster).missing) == 1000


def test_an_alert_of_a_rule_starts_a_muster_once_and_never_a_late_one(hall: Hall) -> None:
    by = shell(hall.organization_id)
    entered = RuleFields("Smoke", Condition.ENTERS, location_id=hall.hall, musters=str(hall.plan))
    rule = rules.get(hall.organization_id, rules.add_rule(by, entered))

    def fire(cause: str, at: int) -> None:
        with writing():
            states.fire(rule, Occurrence(cause, hall.pallet, "Pallet", "PALLET-1", at))

    fire("late", clock.now() - 16 * 60 * SECOND)
    assert musters.open_musters(hall.organization_id) == []
    fire("1", clock.now())
    (one,) = musters.open_musters(hall.organization_id)
    assert (one.name, one.started_by, one.is_drill) == ("Hall", "Smoke", False)
    fire("2", clock.now())
    assert len(musters.open_musters(hall.organization_id)) == 1
    hall.end(one.id)
    fire("1", clock.now())  # the same occurrence again, as after a restart
    assert musters.open_musters(hall.organization_id) == []
    assert execute("SELECT count(*) FROM alert").fetchone() == (3,)
    with pytest.raises(Invalid):
        rules.add_rule(by, entered._replace(musters="999"))


def test_a_muster_does_not_look_at_all_locations_below_each_of_its_points(hall: Hall) -> None:
    """The start has the write lock, so it must not take seconds at 50 points with 100,000 locations below each."""
    points = [hall.yard]
    for number in range(20):
        points.append(locations.create(shell(hall.organization_id), name=f"P{number}", parent_id=points[-1]).id)
    execute_many(
        "INSERT INTO location (id, organization_id, parent_id, external_key, name, valid_from, created_at, updated_at) "
        "VALUES (?1, ?2, ?3, ?1, ?1, 0, 0, 0)",
        [(10_000 + number, hall.organization_id, points[-1]) for number in range(2_000)],
    )
    hall.add_reader(10_001, "deep", heard_at=0)
    hall.plan = plans.create(shell(hall.organization_id), NewPlan("Deep", points))
    numbers: list[int] = []
    assert steps_of(lambda: numbers.append(hall.start())) < 50_000
    hall.read(0, 10_000, 5)
    assert steps_of(lambda: musters.find_state(hall.organization_id, numbers[0])) < 50_000
    assert hall.safe(numbers[0]) == [0]
    state = musters.find_state(hall.organization_id, numbers[0])
    assert [len(point.readers) for point in state.points] == [1] * len(points)
