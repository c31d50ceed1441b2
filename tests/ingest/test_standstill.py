"""Stopped reader clocks, and repeated messages."""

from __future__ import annotations

import pytest

from edge.audit.actors import shell
from edge.clock import DAY, HOUR, SECOND
from edge.database.connection import execute
from edge.ingest.messages import Message
from edge.readers import readers
from edge.readers.clocks import describe_clock
from edge.readers.status import statuses
from edge.tracking.stays import Quality
from tests.conftest import Cast
from tests.ingest.clock_world import DOCK, EPC, START, World, live
from tests.ingest.site import buckets, csl, seen


@pytest.fixture
def world(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(cast.acme, monkeypatch, gap=0)


def send_stuck(world: World, begins: int, ends: int, shows: int, *, rssi_varies: bool = False, every: int = 1) -> None:
    """Send a message at each of these seconds, all with the same reader time."""
    for second in range(begins, ends, every):
        world.wait_until(second)
        read = seen(EPC, at=shows, rssi=-50 - (second % 7 if rssi_varies else 0))
        world.pipeline.handle([Message(DOCK, csl(read), world.now, second % 60_000 + 1, 1)])


def kept_times(world: World) -> list[float]:
    return [stay.begins for stay in world.stays()]


@pytest.mark.parametrize("rssi_varies", [False, True])
@pytest.mark.parametrize("before", [0, 2, 45 * 60, 5 * 86_400])
def test_reads_of_a_stopped_clock_count_at_the_time_of_receipt(world: World, before: int, rssi_varies: bool) -> None:
    send_stuck(world, 0, 300, START - before * SECOND, rssi_varies=rssi_varies)
    world.wait_until(400)
    recorded, _ = buckets()["recorded"]
    assert recorded >= 298
    assert sum(messages for messages, _ in buckets().values()) == 300
    times = kept_times(world)
    assert times[-250:] == list(range(50, 300))
    state = statuses(world.organization_id)[world.readers["dock"].id]
    assert "stopped at" in describe_clock("auto", state.clock_offset, state.clock_stands_at)


def test_a_clock_that_stops_later_is_detected(world: World) -> None:
    world.send(live(0, 100))
    send_stuck(world, 100, 400, START + 99 * SECOND)
    world.wait_until(500)
    assert buckets()["recorded"][0] >= 397
    assert kept_times(world)[-200:] == list(range(200, 400))


def test_a_stopped_clock_with_few_messages_loses_no_reads(world: World) -> None:
    send_stuck(world, 0, 600, START - HOUR, every=12)
    world.wait_until(700)
    assert buckets()["recorded"][0] >= 49


def test_a_clock_that_runs_again_is_accepted(world: World) -> None:
    send_stuck(world, 0, 60, START)
    world.wait_until(80)
    world.send(live(100, 200))
    world.wait_until(300)
    assert kept_times(world)[-100:] == list(range(100, 200))
    state = statuses(world.organization_id)[world.readers["dock"].id]
    assert state.clock_stands_at is None
    last = execute("SELECT quality FROM history ORDER BY observed_at DESC LIMIT 1").fetchone()
    assert last == (Quality.READER,)


def test_a_message_sent_again_a_few_times_stays_one_read(world: World) -> None:
    world.send(live(0, 100))
    again = csl(seen(EPC, at=START + 99 * SECOND))
    for second in (102, 105):
        world.wait_until(second)
        world.pipeline.handle([Message(DOCK, again, world.now)])
    world.send(live(120, 130))
    world.wait_until(200)
    assert kept_times(world) == [*range(100), *range(120, 130)]
    assert buckets() == {"recorded": (110, 110), "repeat": (2, 2)}


def test_repeated_buffered_messages_change_nothing(world: World) -> None:
    """Check messages that are sent five times while the clock runs."""
    world.send(live(0, 100))
    for number in range(100):
        old = csl(seen(EPC, at=START + number % 20 * SECOND))
        world.wait_until(100 + number)
        world.pipeline.handle([Message(DOCK, old, world.now)])
        world.send([sent._replace(arrives=100.3 + number) for sent in live(100 + number, 101 + number)])
    world.wait_until(300)
    assert kept_times(world) == list(range(200))


def test_a_redelivery_changes_nothing_while_a_clock_is_stopped(world: World) -> None:
    shows = START - DAY
    for second in range(20):
        world.wait_until(second)
        sent = Message(DOCK, csl(seen(EPC, at=shows)), world.now, second + 1, 1)
        world.pipeline.handle([sent])
        if second % 4 == 0:
            world.restart()
        world.pipeline.handle(
            [Message(DOCK, sent.payload, world.now + SECOND // 10, second + 1, 1, is_redelivered=True)]
        )
    world.wait_until(100)
    times = kept_times(world)
    assert len(times) == len(set(times))
    assert all(time == round(time) for time in times)
    assert buckets()["recorded"][0] <= 20
    assert sum(messages for messages, _ in buckets().values()) == 40


def test_a_message_without_an_accepted_time_is_not_a_repeat(world: World) -> None:
    """Check an unset clock: its time is not accepted, so an equal time is a new read."""
    readers.change_reader(shell(world.organization_id), world.readers["dock"].id, {"clock_setting": "reader"})
    send_stuck(world, 0, 30, SECOND)
    assert buckets() == {"recorded": (30, 30)}
    assert kept_times(world) == list(range(30))
