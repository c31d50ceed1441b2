"""Tags of one pallet are judged together, from ingest to the table."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from edge import clock
from edge.clock import SECOND
from edge.database import connection
from edge.database.connection import execute
from edge.ingest.pipeline import Pipeline
from tests.conftest import Cast
from tests.doors.site import Gate, GateRead, new_pipeline

TAGS = 12


class Bench:
    """A gate, and the time since boot as the test sets it."""

    def __init__(self, organization_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = Gate(organization_id, TAGS + 1)
        self.elapsed = 100 * SECOND
        monkeypatch.setattr(clock, "elapsed", lambda: self.elapsed)

    def settle(self, line: Pipeline, seconds: int = 3) -> None:
        self.elapsed += seconds * SECOND
        while line.catch_up():
            pass

    def directions(self) -> list[str]:
        """Return the direction of each tag of the pallet, of its only passage."""
        found = {asset: direction for asset, direction, _ in self.gate.passages()}
        assert len(found) == len(self.gate.passages()), "two passages of one tag"
        return [found.get(asset, "none") for asset in range(TAGS)]


@pytest.fixture
def bench(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setitem(connection.PRAGMAS, "synchronous", "off")
    return Bench(cast.acme, monkeypatch)


def pallet(begin: float, *, is_out: bool = True) -> list[GateRead]:
    """Return the reads of a pallet that crosses the door 4 s after `begin`, four of each tag."""
    return sorted(_reads(begin, is_out=is_out))


def _reads(begin: float, *, is_out: bool) -> Iterator[GateRead]:
    for tag in range(TAGS):
        for at in (1.5, 2.9, 4.6, 5.9):
            when = at + tag * 0.11 % 0.7
            is_outer = (when > 4) is is_out
            yield GateRead(begin + when, tag, 2 if is_outer else 1, -50 + tag % 3)


@pytest.mark.parametrize("is_out", [True, False])
def test_a_pallet_of_tags_with_few_reads_each_has_one_direction(bench: Bench, *, is_out: bool) -> None:
    line = new_pipeline()
    bench.gate.receive(pallet(0, is_out=is_out), line)
    assert set(bench.directions()) == {"UNKNOWN"}
    bench.settle(line, 1)
    assert set(bench.directions()) == {"UNKNOWN"}
    bench.settle(line)
    assert set(bench.directions()) == {"OUT" if is_out else "IN"}
    assert all(3.5 <= at <= 4.75 for _, _, at in bench.gate.passages())


@pytest.mark.parametrize("seed", range(6))
def test_the_order_of_reads_and_a_restart_change_nothing(bench: Bench, seed: int) -> None:
    chance, line = random.Random(seed), new_pipeline()
    reads = pallet(0) + pallet(200, is_out=False)
    chance.shuffle(reads)
    for begin in range(0, len(reads), 8):
        bench.gate.receive(reads[begin : begin + 8], line)
        if chance.random() < 0.3:
            bench.settle(line)
        if chance.random() < 0.3:
            line = new_pipeline()
    bench.settle(line)
    by_tag: dict[int, list[str]] = {}
    for asset, direction, _ in bench.gate.passages():
        by_tag.setdefault(asset, []).append(direction)
    assert by_tag == {tag: ["OUT", "IN"] for tag in range(TAGS)}


def test_after_a_restart_a_batch_judges_each_window_once_and_not_for_each_asset(bench: Bench) -> None:
    line = new_pipeline()
    bench.gate.receive(pallet(0), line)
    bench.settle(line)
    line = new_pipeline()
    executed: list[str] = []
    connection.database.connection().set_trace_callback(executed.append)
    line.handle([bench.gate.message([GateRead(3.3 + tag / 50, tag, 1, -51) for tag in range(TAGS)])])
    connection.database.connection().set_trace_callback(None)
    windows = sum("visitor CROSS JOIN" in sql for sql in executed)
    assert 0 < windows <= 4 < TAGS
    bench.settle(line)
    assert set(bench.directions()) == {"OUT"}


def test_a_late_read_after_a_restart_withdraws_nothing(bench: Bench) -> None:
    line = new_pipeline()
    bench.gate.receive(pallet(0), line)
    bench.settle(line)
    (before,) = execute("SELECT sum(revision) FROM passage").fetchone()
    bench.gate.receive([GateRead(3.3, 0, 1, -51)], new_pipeline())
    assert set(bench.directions()) == {"OUT"}
    assert execute("SELECT sum(revision) FROM passage").fetchone() == (before,)


def test_a_tag_that_stays_near_the_door_does_not_follow_a_pallet(bench: Bench) -> None:
    line, staged = new_pipeline(), TAGS
    stays = [GateRead(at, staged, 1, -52) for at in range(-40, 40, 4)] + [GateRead(5.5, staged, 2, -60)]
    bench.gate.receive(sorted([*pallet(0), *stays]), line)
    bench.settle(line)
    assert set(bench.directions()) == {"OUT"}
    assert staged not in {asset for asset, _, _ in bench.gate.passages()}


@pytest.mark.parametrize(("tags", "direction"), [(5, "UNKNOWN"), (6, "OUT")])
def test_only_six_tags_or_more_are_judged_together(bench: Bench, tags: int, direction: str) -> None:
    line = new_pipeline()
    bench.gate.receive([read for read in pallet(0) if read.asset < tags], line)
    bench.settle(line)
    assert bench.directions()[:tags] == [direction] * tags
