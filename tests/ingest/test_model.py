"""Every read counts: ingest gives the history of a plain model for late reads, restarts, moved readers and replays."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import HOUR, SECOND
from edge.database.connection import execute
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.readers.kept_messages import Window
from edge.records import assets
from edge.records.tags import NewTag
from tests import chance
from tests.ingest.site import AISLE, DOCK, GAP, Site, csl, message, seen

LASTS = 800  # seconds; reads are kept for 900
LATE = 600  # seconds that a message may be late


class Model:
    """The reads of one sequence as a list, from which each history is computed anew."""

    def __init__(self) -> None:
        self.reads: list[tuple[str, int, int]] = []  # EPC, time, location of the antenna when it was read

    def history(self, epc: str) -> list[tuple[int, int]]:
        """Return (begin, location) of each stay, by the contract."""
        rows: list[tuple[int, int]] = []
        last = 0
        for at, place in sorted((at, place) for one, at, place in self.reads if one == epc):
            if not rows or rows[-1][1] != place or at - last > GAP:
                rows.append((at, place))
            last = at
        return rows


class Sequence:
    """Random reads of five tags, of which two are attached later, by a reader that moves."""

    def __init__(self, site: Site, seed: int, *, late: int) -> None:
        self.random, self.site, self.late = Random(seed), site, late
        self.actor, self.model = shell(site.organization_id), Model()
        self.epcs = [f"30AB{seed:016X}{number:04X}" for number in range(5)]
        self.assets: dict[str, int] = {}
        for epc in self.epcs[:3]:
            self.attach(epc)
        self.place = site.dock
        self.begin = (clock.now() // SECOND - 200_000 + seed % 100 * 1_000) * SECOND  # one sequence after the other
        self.pipeline = self.restarted()

    def restarted(self) -> Pipeline:
        return Pipeline(GAP, 7, window=Window(1 << 20, HOUR), is_smoothing=False)

    def attach(self, epc: str) -> None:
        self.assets[epc] = assets.create(self.actor, name="Pallet", tags=[NewTag("rfid", epc)]).id

    def catch_up(self) -> None:
        while self.pipeline.catch_up():
            pass

    def move(self) -> None:
        self.place = self.site.aisle if self.place == self.site.dock else self.site.dock
        readers.change_reader(self.actor, self.site.dock_reader, {"location_id": self.place})

    def message_until(self, until: int) -> Iterator[tuple[str, int]]:
        for epc in self.random.sample(self.epcs, self.random.randint(1, 4)):
            earliest = max(0, until - (self.late if self.random.random() < 0.3 else 2))
            at = self.begin + earliest * SECOND + self.random.randrange((until - earliest) * SECOND + 1)
            yield epc, at // 1000 * 1000  # the format has milliseconds

    def send(self, until: int) -> None:
        batch = []
        for _ in range(self.random.randint(1, 3)):
            reads = sorted(self.message_until(until), key=lambda read: read[1])
            known = {(epc, at) for epc, at, _ in self.model.reads}
            reads = [read for read in reads if read not in known]  # of one instant, the first read counts
            self.model.reads += [(epc, at, self.place) for epc, at in reads]
            tags = [seen(epc, at=at) for epc, at in reads]
            batch.append(message(csl(*tags), received_at=self.begin + until * SECOND + len(batch)))
        self.pipeline.handle(batch)

    def run(self) -> None:
        for until in range(10, LASTS, 20):
            chance = self.random.random()
            if chance < 0.12:
                self.move()
            elif chance < 0.2:
                self.pipeline = self.restarted()
            elif chance < 0.25 and len(self.assets) < len(self.epcs):
                self.attach(self.epcs[len(self.assets)])
            if self.random.random() < 0.5:
                self.catch_up()
            self.send(until)
        for epc in self.epcs[len(self.assets) :]:
            self.attach(epc)
        self.catch_up()
        if self.place != self.site.dock:
            self.move()

    def differences(self) -> list[str]:
        return [epc for epc in self.epcs if self.stored(self.assets[epc]) != self.model.history(epc)]

    def stored(self, asset_id: int) -> list[tuple[int, int]]:
        sql = (
            "SELECT h.observed_at, s.location_id FROM history h JOIN position p ON p.no = h.position_no "
            "JOIN source s ON s.no = h.source_no WHERE p.asset_id = ? ORDER BY h.observed_at, h.seq"
        )
        return execute(sql, (asset_id,)).fetchall()


def differing(site: Site, first: int, count: int, late: int) -> list[tuple[int, list[str]]]:
    found = []
    for seed in range(first, first + count):
        sequence = Sequence(site, seed, late=late)
        sequence.run()
        if differences := sequence.differences():
            found.append((seed, differences))
    return found


@pytest.mark.parametrize("late", [2, LATE])
def test_ingest_gives_the_history_of_the_model(site: Site, late: int) -> None:
    assert differing(site, 0, 6, late) == []


@pytest.mark.slow
@pytest.mark.parametrize("late", [2, LATE])
@pytest.mark.parametrize("first", range(1000, 1150, 50))
def test_ingest_gives_the_history_of_the_model_for_many_sequences(site: Site, first: int, late: int) -> None:
    """Each `TEST_SEED` tries other sequences."""
    assert differing(site, first + 1000 * chance.SEED, 50, late) == []


class Smoothed:
    """Reads of three tags by two readers with smoothing: two tags are attached before or after their reads."""

    def __init__(self, site: Site, seed: int, *, is_early: bool) -> None:
        self.random, self.site, self.is_early = Random(seed), site, is_early
        self.epcs = [f"30AC{seed:015X}{int(is_early)}{number:04X}" for number in range(3)]
        self.assets: dict[str, int] = {}
        for epc in self.epcs if is_early else self.epcs[:1]:
            self.attach(epc)
        runs = 2 * (seed % 50) + is_early
        self.begin = (clock.now() // SECOND - 100_000 + 1_000 * runs) * SECOND  # one run after the other
        self.pipeline = Pipeline(GAP, 7, window=Window(1 << 20, HOUR))

    def attach(self, epc: str) -> None:
        self.assets[epc] = assets.create(shell(self.site.organization_id), name="Pallet", tags=[NewTag("rfid", epc)]).id

    def catch_up(self) -> None:
        while self.pipeline.catch_up():
            pass

    def run(self) -> list[list[tuple[int, int]]]:
        """Return (second, location) of each row of each tag, with seconds counted from the first read."""
        places = {epc: self.random.choice((DOCK, AISLE)) for epc in self.epcs}
        for topic in (DOCK, AISLE):  # ends the silence since the run before, which both have otherwise
            self.pipeline.handle([message(csl(), topic, received_at=self.begin - SECOND)])
        for second in range(0, 400, 2):
            by_topic: dict[str, list[str]] = {DOCK: [], AISLE: []}
            for epc in self.epcs:
                if self.random.random() < 0.02:
                    places[epc] = AISLE if places[epc] == DOCK else DOCK
                if self.random.random() < 0.5:
                    stray = self.random.random() < 0.15
                    by_topic[places[epc] if not stray else (AISLE if places[epc] == DOCK else DOCK)].append(epc)
            at = self.begin + second * SECOND
            for topic, epcs in by_topic.items():
                if epcs:
                    reads = [seen(epc, at=at, rssi=self.random.randint(-70, -45)) for epc in epcs]
                    self.pipeline.handle([message(csl(*reads), topic, received_at=at + SECOND // 2)])
        for epc in self.epcs:
            if epc not in self.assets:
                self.attach(epc)
        self.catch_up()
        return [self.stored(self.assets[epc]) for epc in self.epcs]

    def stored(self, asset_id: int) -> list[tuple[int, int]]:
        sql = (
            "SELECT (h.observed_at - ?) / 1000000, s.location_id FROM history h "
            "JOIN position p ON p.no = h.position_no JOIN source s ON s.no = h.source_no "
            "WHERE p.asset_id = ? ORDER BY h.observed_at, h.seq"
        )
        return execute(sql, (self.begin, asset_id)).fetchall()


def test_with_smoothing_tags_attached_later_have_the_same_history(site: Site) -> None:
    """Seconds in which only an unknown tag was read prove nothing about it, also after it is attached."""
    (aisle,) = [one.id for one in readers.list_readers(site.organization_id) if one.topic == AISLE]
    readers.change_reader(shell(site.organization_id), aisle, {"format": "csl"})
    found = [
        (seed, early, late)
        for seed in range(10)
        if (late := Smoothed(site, seed, is_early=False).run()) != (early := Smoothed(site, seed, is_early=True).run())
    ]
    assert found == []


class Placed(Smoothed):
    """The same with all tags attached before: the antenna of the aisle is placed before or after their reads."""

    def __init__(self, site: Site, seed: int, aisle: int, *, is_early: bool) -> None:
        super().__init__(site, seed, is_early=is_early)
        for epc in self.epcs[len(self.assets) :]:
            self.attach(epc)
        self._aisle = aisle
        self.place(is_early)

    def place(self, is_placed: bool) -> None:
        change = {"location_id": self.site.aisle if is_placed else None}
        readers.change_reader(shell(self.site.organization_id), self._aisle, change)

    def catch_up(self) -> None:
        self.place(True)
        super().catch_up()


def test_with_smoothing_antennas_placed_later_have_the_same_history(site: Site) -> None:
    """Seconds in which only one asset was read without a location prove nothing about it, also after the placing."""
    (aisle,) = [one.id for one in readers.list_readers(site.organization_id) if one.topic == AISLE]
    readers.change_reader(shell(site.organization_id), aisle, {"format": "csl"})
    found = [
        (seed, early, late)
        for seed in range(10)
        if (late := Placed(site, seed, aisle, is_early=False).run())
        != (early := Placed(site, seed, aisle, is_early=True).run())
    ]
    assert found == []
