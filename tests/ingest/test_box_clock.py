"""Jumps of the box's clock: the time of the readers is used, and later reads are not shifted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from unittest.mock import Mock

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import DAY, HOUR, SECOND
from edge.database.connection import execute
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.runtime.readiness import check_clock
from tests.conftest import Cast
from tests.ingest.clock_world import DOCK, EPC, GATE, START, World
from tests.ingest.site import buckets, csl, message, seen

Jump = Callable[[float], int]  # second -> microseconds by which the box is ahead


class BoxWorld(World):
    """Site like `World`, with a wrong box clock. Each message has one new read."""

    jump: Jump = staticmethod(lambda _: 0)

    def run(self, begins: int, ends: int, topics: Iterable[str] = (DOCK, GATE), every: float = 1.0) -> None:
        for number in range(round((ends - begins) / every)):
            second = begins + number * every
            for place, topic in enumerate(topics):
                at = second + 0.3 * place
                self.catch_up(at)
                self.send_one(topic, at)

    def send_one(self, topic: str, at: float, made: float | None = None, ahead: float = 0) -> None:
        made = at if made is None else made
        read = seen(EPC, at=START + round((made + ahead) * SECOND))
        self.pipeline.handle([Message(topic, csl(read), self.now + SECOND // 10)])

    def catch_up(self, at: float) -> None:
        self.stepped = self.jump(at)
        self.now = START + round(at * SECOND) + self.stepped
        while self.pipeline.catch_up():
            pass


@pytest.fixture
def world(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> BoxWorld:
    return BoxWorld(cast.acme, monkeypatch, gap=0)


def for_100_seconds(by: int) -> Jump:
    return lambda at: by if 100 <= at < 200 else 0


def history() -> list[float]:
    return [round((at - START) / SECOND, 2) for (at,) in execute("SELECT observed_at FROM history ORDER BY 1")]


def each_read(ends: int) -> list[float]:
    return sorted(round(second + place, 2) for second in range(ends) for place in (0, 0.3))


@pytest.mark.parametrize("setting", ["auto", pytest.param("reader", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "by",
    [
        *(HOUR, 500 * DAY, -20 * SECOND, -DAY),
        *(pytest.param(by, marks=pytest.mark.slow) for by in (10 * DAY, -HOUR, -10 * DAY)),
    ],
)
def test_a_jump_of_the_box_for_100_seconds_changes_no_time(world: BoxWorld, by: int, setting: str) -> None:
    for reader in world.readers.values():
        readers.change_reader(shell(world.organization_id), reader.id, {"clock_setting": setting})
    world.restart()
    world.jump = for_100_seconds(by)
    world.run(0, 150)
    assert not check_clock(world.pipeline).ok
    assert world.pipeline.timekeeper.box_ahead == pytest.approx(by, abs=SECOND)
    world.run(150, 400)
    world.catch_up(450)
    assert history() == each_read(400)
    assert check_clock(world.pipeline).ok
    assert sum(messages for messages, _ in buckets().values()) == 800
    assert all(messages > 0 for messages, _ in buckets().values())


def test_page_and_doctor_report_the_jump(world: BoxWorld) -> None:
    world.jump = for_100_seconds(HOUR)
    world.run(0, 150)
    check = check_clock(world.pipeline)
    assert not check.ok
    assert "1 h 0 min ahead of all its readers" in check.detail or "59 min" in check.detail


@pytest.mark.parametrize("by", [HOUR, -DAY])
def test_a_restart_while_the_box_is_wrong_changes_nothing(world: BoxWorld, by: int) -> None:
    world.jump = for_100_seconds(by)
    for begins, ends in ((0, 150), (150, 180), (180, 250)):
        world.run(begins, ends)
        world.restart()
    world.run(250, 400)
    world.catch_up(450)
    assert history() == each_read(400)


@pytest.mark.parametrize("by", [HOUR, 10 * DAY])
def test_a_reader_without_a_clock_follows_the_others(world: BoxWorld, by: int) -> None:
    """Check that messages are held until the wrong clock is identified."""
    world.run(0, 100)
    third = readers.add_reader(shell(world.organization_id), name="third", topic="site/third/reads", format="csl",
                               location_id=world.readers["gate"].location_id, clock_setting="receipt")  # fmt: skip
    world.jump = for_100_seconds(by)
    for second in range(100, 300):
        world.catch_up(second)
        world.pipeline.handle([Message("site/third/reads", csl(seen(EPC, at=0)), world.now)])
        world.run(second, second + 1)
    world.catch_up(350)
    rows = execute(
        "SELECT h.observed_at FROM history h JOIN source s ON s.no = h.source_no WHERE s.reader_id = ? ORDER BY 1",
        (third.id,),
    ).fetchall()
    assert [(at - START) / SECOND for (at,) in rows] == pytest.approx(list(range(100, 300)), abs=1)


@pytest.mark.parametrize("by", [-3600, -20, 40, 3600])
def test_setting_one_reader_is_corrected_as_before(world: BoxWorld, by: int) -> None:
    for second in range(200):
        for place, topic in enumerate((DOCK, GATE)):
            world.catch_up(second + 0.3 * place)
            world.send_one(topic, second + 0.3 * place, ahead=by if topic == DOCK and second >= 100 else 0)
    world.catch_up(250)
    assert world.pipeline.timekeeper.box_ahead == 0
    assert check_clock(world.pipeline).ok
    assert history() == pytest.approx(each_read(200), abs=1.5)


@pytest.mark.slow
def test_buffered_messages_after_an_outage_do_not_shift_the_box(world: BoxWorld) -> None:
    world.run(0, 100)
    for number in range(3600):  # an hour of reads, sent in 36 s
        for place, topic in enumerate((DOCK, GATE)):
            made = 100 + number + 0.3 * place
            world.catch_up(3700 + number / 100)
            world.send_one(topic, 3700 + number / 100, made)
            assert world.pipeline.timekeeper.box_ahead == 0
    world.run(3740, 3800)
    world.catch_up(3900)
    assert history()[:7400] == each_read(3700)


def test_a_quiet_night_is_not_a_jump(world: BoxWorld) -> None:
    world.run(0, 100)
    world.run(8 * 3600, 8 * 3600 + 50)
    assert buckets() == {"recorded": (300, 300)}
    assert check_clock(world.pipeline).ok
    assert clock.now() > START


def test_a_restart_while_messages_are_held_keeps_their_times(world: BoxWorld) -> None:
    """Check that the jump is detected after the restart from held and new messages."""
    for reader in world.readers.values():
        readers.change_reader(shell(world.organization_id), reader.id, {"clock_setting": "reader"})
    world.restart()
    world.jump = for_100_seconds(10 * DAY)
    world.run(0, 102)
    assert "held" in buckets()
    world.restart()
    world.run(102, 300)
    world.catch_up(350)
    assert history() == each_read(300)


@pytest.mark.parametrize("late", [18, 45])
def test_new_readers_on_a_slow_connection_do_not_shift_the_box(world: BoxWorld, late: int) -> None:
    arrives = 0.0
    for second in range(200):
        for place, topic in enumerate((DOCK, GATE)):
            arrives = max(arrives + 0.01, second + (late if second < 30 else 0.1) + 0.3 * place)
            world.catch_up(arrives)
            world.send_one(topic, 0, second + 0.3 * place)
            assert world.pipeline.timekeeper.box_ahead == 0


def test_a_growing_delay_does_not_shift_the_box(world: BoxWorld) -> None:
    world.run(0, 100)
    for second in range(100, 400):
        for place, topic in enumerate((DOCK, GATE)):
            world.catch_up(second + min(60, (second - 100) / 3) + 0.3 * place)
            world.send_one(topic, 0, second + 0.3 * place)
            assert world.pipeline.timekeeper.box_ahead == 0


def zone_world(world: BoxWorld, by: int, ends: int, every: float = 1.0) -> None:
    """Send the reads of both readers, whose clocks change by that many seconds after 200 seconds."""
    for number in range(round(ends / every)):
        second = number * every
        for place, topic in enumerate((DOCK, GATE)):
            at = second + 0.3 * place
            world.catch_up(at)
            world.send_one(topic, at, ahead=by if at >= 200 else 0)
    for second in range(ends, ends + 20):
        world.catch_up(second)


@pytest.mark.parametrize("by", [-3600, 3600, 1800, -7200])
def test_readers_that_change_their_zone_together_do_not_accuse_the_box(world: BoxWorld, by: int) -> None:
    zone_world(world, by, ends=260)
    assert world.pipeline.timekeeper.box_ahead == 0
    assert max(history()) < 262
    expected = each_read(260)
    assert all(abs(at - read_at) < 0.2 for at, read_at in zip(history(), expected, strict=True))


def test_a_person_who_confirms_the_clock_ends_the_doubt_of_the_readers(world: BoxWorld) -> None:
    """Both readers were set by 3,700 seconds at once, which looks like a jump of the box."""
    confirmed = [0]
    world.pipeline = Pipeline(
        0,
        7,
        is_smoothing=False,
        is_vouched=lambda later_scan: confirmed[0] > 0 or not later_scan,
        confirmed_at=lambda: confirmed[0],
    )
    zone_world(world, 3700, ends=230)
    assert world.pipeline.timekeeper.box_ahead == -3700 * SECOND
    confirmed[0] = world.now
    for number in range(30):
        at = 260.0 + number
        world.catch_up(at)
        world.send_one(DOCK, at, ahead=3700)
        world.send_one(GATE, at, ahead=3700)
    assert world.pipeline.timekeeper.box_ahead == 0


def test_while_the_clock_is_wrong_a_batch_asks_once_whether_a_person_confirmed_it(world: BoxWorld) -> None:
    """Each time reads a file. Before, each message did."""
    asked = Mock(return_value=0)
    world.pipeline = Pipeline(0, 7, is_smoothing=False, confirmed_at=asked)
    zone_world(world, 3700, ends=230)
    assert world.pipeline.timekeeper.box_ahead
    asked.reset_mock()
    at = world.now
    messages = [message(csl(seen("30FF", at // 1000 + number)), DOCK, received_at=at) for number in range(20)]
    world.pipeline.handle(messages)
    assert asked.call_count == 1


def run_after_a_quiet_time(world: BoxWorld, jump: int, quiet: int, zone: int = 0) -> None:
    """Send reads for 200 s, then nothing for `quiet` seconds, then reads again; clocks are set in the quiet time."""
    begins = 200 + quiet
    world.jump = lambda at: jump * SECOND if at >= begins - 60 else 0
    world.run(0, 200)
    for number in range(120):
        for place, topic in enumerate((DOCK, GATE)):
            at = begins + number * 0.5 + 0.3 * place
            world.catch_up(at)
            world.send_one(topic, at, ahead=zone)
    for second in range(begins + 60, begins + 140):
        world.catch_up(second)


@pytest.mark.parametrize(("jump", "quiet"), [(3600, 8 * 3600), (-900, 1200), (-3600, 1800), (900, 7200)])
def test_a_box_that_is_set_by_quarter_hours_in_a_quiet_time_is_no_change_of_zone(
    world: BoxWorld, jump: int, quiet: int
) -> None:
    run_after_a_quiet_time(world, jump, quiet)
    assert world.pipeline.timekeeper.box_ahead == pytest.approx(jump * SECOND, abs=SECOND)
    assert max(history()) < 200 + quiet + 62


@pytest.mark.parametrize(("zone", "quiet"), [(3600, 8 * 3600), (-3600, 1200), (-3600, 900)])
def test_readers_that_change_their_zone_in_a_quiet_time_do_not_accuse_the_box(
    world: BoxWorld, zone: int, quiet: int
) -> None:
    run_after_a_quiet_time(world, 0, quiet, zone)
    assert world.pipeline.timekeeper.box_ahead == 0
    assert max(history()) < 200 + quiet + 62
    assert min(at for at in history() if at > 200) > 200 + quiet - 1
