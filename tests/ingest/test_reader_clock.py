"""Wrong clocks and buffered messages of readers: history has the real times."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge.audit.actors import shell
from edge.clock import HOUR, SECOND
from edge.database.connection import close_database, execute
from edge.ingest import reader_clock
from edge.ingest.messages import Message
from edge.ingest.reader_clock import ReaderClock, Sample, _Minute
from edge.people import organizations
from edge.readers import live_reads, readers
from edge.readers.status import statuses
from edge.tracking.stays import Quality
from tests.conftest import Cast
from tests.databases import make_database
from tests.ingest.clock_world import DOCK, EPC, GATE, START, Sent, Stay, World, batched, is_near, live
from tests.ingest.site import buckets, csl, seen

HERE = pytest.approx


@pytest.fixture
def world(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(cast.acme, monkeypatch)


@pytest.mark.parametrize("ahead", [-HOUR / SECOND, -5 * 86_400, -40, -3])
def test_a_slow_clock_is_corrected_from_the_first_read(world: World, ahead: float) -> None:
    world.send(live(0, 30), lambda _: ahead)
    world.send(live(30, 60, GATE))
    world.wait_until(75)
    assert is_near(world.stays(), [Stay("dock", 0, 29), Stay("gate", 30, 59)], within=0.2), world.stays()
    assert world.offset() == HERE(ahead, abs=0.2)
    assert sum(messages for messages, _ in buckets().values()) == 60
    assert set(buckets()) <= {"recorded", "repeat"}  # a late read within a recorded stay is a repeat


@pytest.mark.parametrize("ahead", [3, 60, 3600, 40 * 86_400])
def test_a_fast_clock_is_corrected_immediately(world: World, ahead: float) -> None:
    world.send(live(0, 1), lambda _: ahead)
    assert is_near(world.stays(), [Stay("dock", 0, 0)], within=0.2)
    world.send(live(1, 30), lambda _: ahead)
    world.send(live(30, 60, GATE))
    assert is_near(world.stays(), [Stay("dock", 0, 29), Stay("gate", 30, 59)], within=0.2)
    assert world.offset() == HERE(ahead, abs=0.2)


def test_a_correct_clock_is_accepted_immediately(world: World) -> None:
    world.send(live(0, 1), lambda _: 0.4)
    assert world.stays() == [Stay("dock", 0.4, 0.4)]
    assert execute("SELECT DISTINCT quality FROM history").fetchall() == [(Quality.READER,)]


@pytest.mark.parametrize("ahead", [-3600, -45])
@pytest.mark.parametrize("every", [5, 10])
def test_a_slow_gateway_that_sends_batches_is_corrected_within_seconds(world: World, ahead: float, every: int) -> None:
    world.send(batched(0, 60, every), lambda _: ahead)
    world.wait_until(75)
    (stay,) = world.stays()
    assert stay.begins == HERE(0, abs=4)
    assert stay.ends == HERE(60, abs=7)


def test_a_slow_reader_is_corrected_from_its_first_message(world: World) -> None:
    for minute in range(0, 60, 10):
        world.send([Sent(60 * minute + 1, (60 * minute,))], lambda _: -3600)
        world.wait_until(60 * minute + 12)
        assert world.stays()[-1].begins == HERE(60 * minute, abs=1.1)
    assert len(world.stays()) == 6


def test_a_clock_that_drifts_is_followed(world: World) -> None:
    """Check a drift of 0.5 s a minute for one hour."""
    world.send((Sent(second + 0.1, (second,)) for second in range(0, 3600, 5)), lambda at: -at / 120)
    world.send([Sent(3600.1, (3600,), GATE)])
    assert is_near(world.stays(), [Stay("dock", 0, 3595), Stay("gate", 3600, 3600)], within=2.6), world.stays()
    assert world.offset() == HERE(-30, abs=2.6)


def test_a_clock_that_is_fast_and_set_right_is_followed_within_seconds(world: World) -> None:
    world.send(live(0, 120), lambda at: 3600 if at < 60 else 0)
    world.wait_until(140)
    assert is_near(world.stays(), [Stay("dock", 0, 119)], within=0.2), world.stays()
    assert world.offset() == HERE(0, abs=0.2)


def test_a_clock_that_steps_back_and_forth_is_followed_within_seconds(world: World) -> None:
    world.send(live(0, 180), lambda at: -3600 if 60 <= at < 120 else 0)
    world.send(live(180, 190, GATE))
    assert is_near(world.stays(), [Stay("dock", 0, 179), Stay("gate", 180, 189)], within=0.2), world.stays()


def test_buffered_reads_keep_their_times(world: World) -> None:
    """Check a network outage of 30 minutes, with all buffered reads sent within 10 s."""
    away = [Sent(1860 + number / 60, (60 + 3 * number,)) for number in range(600)]
    world.send([*live(0, 60), *away, *live(1870, 1880)])
    world.wait_until(1900)
    assert is_near(world.stays(), [Stay("dock", 0, 1879)], within=0.2), world.stays()
    assert world.offset() == HERE(0, abs=0.2)
    assert execute("SELECT DISTINCT quality FROM history").fetchall() == [(Quality.READER,)]


def test_buffered_reads_of_a_new_reader_are_accepted(world: World) -> None:
    away = [Sent(1800 + number / 60, (3 * number,)) for number in range(600)]
    world.send([*away, *live(1810, 1820)])
    world.wait_until(1840)
    assert is_near(world.stays(), [Stay("dock", 0, 1819)], within=0.2), world.stays()


def test_a_single_late_message_does_not_change_the_offset(world: World) -> None:
    world.send([*live(0, 60), Sent(400, (70,)), *live(420, 430)])
    assert is_near(world.stays(), [Stay("dock", 0, 70), Stay("dock", 420, 429)], within=0.2), world.stays()
    assert world.offset() == HERE(0, abs=0.2)


def test_a_slow_box_does_not_change_offsets(world: World) -> None:
    """Check messages with a delay that grows to two minutes."""
    world.send([Sent(second * 1.5, (second,)) for second in range(240)])
    world.wait_until(400)
    assert is_near(world.stays(), [Stay("dock", 0, 239)], within=0.2), world.stays()


def test_one_absurd_time_is_ignored(world: World) -> None:
    world.send(live(0, 120), lambda at: 5 * 3600 if at == 60 else 0)
    world.wait_until(140)
    assert is_near(world.stays(), [Stay("dock", 0, 119)], within=0.2), world.stays()


def test_devices_of_a_reader_with_a_wildcard_have_their_own_clocks(world: World) -> None:
    readers.remove_reader(shell(world.organization_id), world.readers["gate"].id)
    readers.change_reader(shell(world.organization_id), world.readers["dock"].id, {"topic": "site/+/reads/#"})
    right = [Sent(second + 0.1, (second,), "site/dock/reads/1") for second in range(20)]
    slow = [Sent(second + 0.2, (second - 3600,), "site/dock/reads/2") for second in range(20)]
    world.send([*right, *slow])
    world.wait_until(40)
    assert is_near(world.stays(), [Stay("dock", 0, 19)], within=0.3), world.stays()


def test_held_messages_are_counted_as_held_and_survive_a_restart(world: World) -> None:
    world.send(live(0, 3), lambda _: -3600)
    assert buckets() == {"held": (3, 0)}
    assert world.stays() == []
    assert statuses(world.organization_id)[world.readers["dock"].id].received_at == world.now
    world.restart()
    world.wait_until(15)
    assert buckets() == {"recorded": (3, 3)}
    assert is_near(world.stays(), [Stay("dock", 0, 2)], within=0.2)
    assert execute("SELECT count(*) FROM held_message").fetchone() == (0,)
    world.restart()
    world.send(live(20, 21), lambda _: -3600)
    assert is_near(world.stays(), [Stay("dock", 0, 20)], within=0.2)


def test_held_messages_appear_in_the_live_view(world: World) -> None:
    live_reads.watch(world.readers["dock"].id)
    world.send(live(0, 3), lambda _: -3600)
    assert buckets() == {"held": (3, 0)}
    assert [read.bucket for read in live_reads.watch(world.readers["dock"].id)][-1] == "held"


def test_a_held_message_that_is_redelivered_counts_once(world: World) -> None:
    late = csl(seen(EPC, at=START - HOUR))
    for is_again in (False, True, True):
        world.pipeline.handle([Message(DOCK, late, START, 7, 1, is_redelivered=is_again)])
    assert buckets() == {"held": (1, 0), "repeat": (2, 0)}
    world.wait_until(15)
    assert buckets() == {"recorded": (1, 1), "repeat": (2, 0)}


def test_held_messages_of_a_removed_reader_are_on_an_unassigned_topic(world: World) -> None:
    world.send(live(0, 1), lambda _: -3600)
    readers.remove_reader(shell(world.organization_id), world.readers["dock"].id)
    world.wait_until(15)
    assert buckets() == {"unknown_topic": (1, 0)}


def test_a_held_poison_message_becomes_a_dead_letter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send(live(0, 2), lambda _: -3600)
    monkeypatch.setattr("edge.ingest.batch.judge", lambda *_: 1 / 0)
    world.wait_until(15)
    assert buckets() == {"malformed": (2, 0)}


@pytest.mark.parametrize(("setting", "begins"), [("receipt", 0.1), ("reader", -3600), ("auto", 0)])
def test_the_clock_setting_is_respected(world: World, setting: str, begins: float) -> None:
    readers.change_reader(shell(world.organization_id), world.readers["dock"].id, {"clock_setting": setting})
    world.send(live(0, 1), lambda _: -3600)
    world.wait_until(15)
    assert world.stays()[0].begins == HERE(begins, abs=0.11)


def test_the_number_of_held_messages_is_limited(world: World) -> None:
    world.send((Sent(number / 1000, (number / 1000,)) for number in range(1500)), lambda _: -3600)
    assert execute("SELECT count(*) FROM held_message").fetchone()[0] <= 1_000
    world.wait_until(15)
    assert sum(messages for messages, _ in buckets().values()) == 1500
    assert "held" not in buckets()


def test_the_bytes_of_held_messages_are_limited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_clock, "MOST_HELD_BYTES", 5_000)
    for number in range(30):
        read = seen(EPC, at=world.now + (number - 3_600_000) * SECOND // 1000)
        world.pipeline.handle([Message(DOCK, csl({**read, "note": " " * 500}), world.now + number)])
    kept = execute("SELECT sum(length(payload)) FROM held_message").fetchone()[0] or 0
    assert kept <= 5_000
    world.wait_until(15)
    assert sum(messages for messages, _ in buckets().values()) == 30
    assert "held" not in buckets()


@pytest.mark.parametrize("back", [60, 3600])
def test_held_messages_are_released_when_the_box_clock_is_set_back(world: World, back: int) -> None:
    """Check the release without new messages after the box's clock was set back."""
    world.send([Sent(0, (0,))], lambda _: -3600)
    assert buckets() == {"held": (1, 0)}
    world.now -= back * SECOND
    while world.pipeline.catch_up():
        pass
    assert buckets() == {"recorded": (1, 1)}


@contextmanager
def fresh_world(folder: Path) -> Iterator[World]:
    with tempfile.TemporaryDirectory(dir=folder) as name, pytest.MonkeyPatch.context() as patch:
        make_database(Path(name))
        yield World(organizations.add_organization(shell(), "Acme").id, patch, gap=0)
        close_database()


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ahead=st.sampled_from([-3600.0, -20.0, 0.0, 3600.0]),
    moves=st.lists(st.booleans(), min_size=3, max_size=10),
    delays=st.lists(st.integers(0, 200), min_size=10, max_size=10),
)
def test_late_and_shuffled_messages_of_a_known_clock_give_the_same_history(
    tmp_path: Path, ahead: float, moves: list[bool], delays: list[int]
) -> None:
    histories = []
    for is_late in (False, True):
        with fresh_world(tmp_path) as world:
            world.send([*live(0, 30), *live(0, 30, GATE)], lambda _: ahead)
            world.wait_until(50)
            others = [Sent(at + 0.1, (at,), topic, "30FF") for at in range(60, 460, 8) for topic in (DOCK, GATE)]
            made = [60 + 20 * number for number in range(len(moves))]
            pallet = [
                Sent(at + (delay if is_late else 0), (at,), GATE if at_gate else DOCK)
                for at, delay, at_gate in zip(made, delays, moves, strict=False)
            ]
            world.send([*others, *pallet], lambda _: ahead)
            world.wait_until(500)
            histories.append(world.stays())
    assert histories[0] == histories[1]


def test_a_minute_has_the_range_of_its_differences() -> None:
    minute = _Minute()
    for number, ahead in enumerate((10, 4, 12, 7)):
        assert not minute.is_over(Sample(number * SECOND, ahead))
    assert (minute.lowest, minute.highest) == (4, 12)


@pytest.mark.parametrize(("newer", "is_buffered"), [(15 * SECOND, False), (15 * SECOND + 1, True)])
def test_reads_of_more_than_one_batch_at_once_come_from_a_buffer(newer: int, is_buffered: bool) -> None:
    """A reader that publishes every 15 s sends no reads that are further apart."""
    clock = ReaderClock()
    clock._held = [Sample(0, 0), Sample(0, newer)]
    assert clock._is_buffered() is is_buffered


def test_the_first_message_after_a_start_may_be_late() -> None:
    """It is compared with the stored offset."""
    assert ReaderClock(HOUR)._is_late(Sample(START, 0))
    assert not ReaderClock(HOUR)._is_late(Sample(START, HOUR))
