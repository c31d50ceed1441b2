"""Reads of sleds are scans of their operator, at the location of the last choice at or before the read."""

from __future__ import annotations

import random
from typing import NamedTuple

import msgspec
import pytest

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor, shell
from edge.clock import HOUR, SECOND
from edge.database.connection import execute
from edge.ingest.pipeline import Pipeline
from edge.people import devices, people
from edge.people.people import Role
from edge.readers import readers, sled_scans, sleds
from edge.readers.clocks import READER
from edge.tracking import deletion, positions, why
from edge.tracking.stays import Quality, Scan
from tests.ingest.site import AISLE, GAP, Site, buckets, location_of, message, pipeline

SLED = "site/DATA/clients/data1event/RFD40-1"


class Sled(NamedTuple):
    site: Site
    reader_id: int
    operator: Actor


@pytest.fixture
def sled(site: Site) -> Sled:
    organization_id = site.organization_id
    reader = readers.add_reader(
        shell(organization_id), name="RFD40-1", topic=SLED, format="zebra_sled", clock_setting=READER
    )
    operator = add_operator(organization_id, "Oli")
    assert operator.person_id
    sleds.assign(shell(organization_id), reader.id, person_id=operator.person_id)
    execute("UPDATE sled_assignment SET since = ?", (clock.now() - 20 * HOUR,))
    execute("UPDATE version SET readers = readers + 1")
    return Sled(site, reader.id, operator)


def add_operator(organization_id: int, name: str) -> Actor:
    row = people.add_person(shell(organization_id), name, Role.OPERATOR)
    return actors.person(organization_id, row.id, name)


def payload(at: int, *epcs: str, rssi: int = -50) -> bytes:
    tags = [{"EPCid": epc, "peakRssi": rssi} for epc in epcs]
    return msgspec.json.encode({"type": "X", "timestamp": clock.rfc3339(at), "data": {"tagData": tags}})


def at_aisle(epc: str, at: int) -> bytes:
    return msgspec.json.encode({"reads": [{"tag": epc, "time": clock.rfc3339(at)}]})


def choose(sled: Sled, location_id: int | None, at: int, name: str = "") -> None:
    sleds.choose_location(sled.operator, name or f"choice-{at}-{location_id}", location_id, at, clock.now())


def settle(line: Pipeline) -> None:
    while line.catch_up():
        pass


def scans() -> set[tuple[int, int, int]]:
    """Return (asset, location, time) of each scan."""
    return set(execute("SELECT asset_id, location_id, observed_at FROM handheld_scan WHERE undone_at IS NULL"))


def history() -> list[tuple[int, int, int, int]]:
    """Return (asset, begin, location, end) of each stay."""
    return sorted(
        execute(
            "SELECT t.asset_id, h.observed_at, s.location_id, "
            "iif(h.observed_at = t.row_at AND h.seq = t.row_seq, t.last_seen_at, h.observed_at + h.seen_for) "
            "FROM history h JOIN track t ON t.no = h.position_no JOIN source s ON s.no = h.source_no"
        )
    )


def whole(at: int) -> int:
    return at - at % (60 * SECOND)


def test_a_read_is_a_scan_at_the_location_of_the_last_choice(sled: Sled) -> None:
    site, line, at = sled.site, pipeline(), whole(clock.now() - 600 * SECOND)
    line.handle([message(payload(at, site.epcs[0]), SLED)])
    assert location_of(site.assets[0]) is None
    assert buckets()["no_location"] == (1, 1)
    choose(sled, site.dock, at + SECOND)
    line.handle([message(payload(at + 2 * SECOND, site.epcs[0]), SLED)])
    line.handle([message(payload(at + 3 * SECOND, site.epcs[0]), SLED)])  # in the same minute
    assert scans() == {(site.assets[0], site.dock, at + 2 * SECOND)}
    assert buckets()["repeat"] == (1, 1)
    choose(sled, site.aisle, at + 10 * SECOND)
    line.handle([message(payload(at + 11 * SECOND, site.epcs[0]), SLED)])
    assert location_of(site.assets[0]) == site.aisle
    reasons = why.why_here(site.organization_id, site.assets[0])
    assert reasons
    assert "sled RFD40-1" in reasons.reasons[0].text


def test_a_choice_that_arrives_late_moves_the_reads_after_it(sled: Sled) -> None:
    site, line, at = sled.site, pipeline(), whole(clock.now() - 600 * SECOND)
    choose(sled, site.dock, at)
    for second in (10, 20, 30, 40):
        line.handle([message(payload(at + second * SECOND, *site.epcs[:2]), SLED)])
    choose(sled, site.aisle, at + 25 * SECOND)
    settle(line)
    expected = {(one, site.dock, at + 10 * SECOND) for one in site.assets[:2]}
    assert scans() == expected | {(one, site.aisle, at + 30 * SECOND) for one in site.assets[:2]}
    assert location_of(site.assets[0]) == site.aisle


def test_reads_before_the_first_choice_count_when_it_arrives(sled: Sled) -> None:
    site, at = sled.site, whole(clock.now() - 600 * SECOND)
    line = Pipeline(GAP, 7, window=None)
    line.handle([message(payload(at + SECOND, site.epcs[0]), SLED)])
    choose(sled, site.dock, at)
    settle(line)
    assert scans() == {(site.assets[0], site.dock, at + SECOND)}


@pytest.mark.parametrize("seed", range(8))
def test_scans_do_not_depend_on_the_order_of_arrival(sled: Sled, seed: int) -> None:
    chance, site, line = random.Random(seed), sled.site, pipeline()
    begin = whole(clock.now() - 2 * HOUR)
    second = lambda: begin + chance.randrange(400) * SECOND  # noqa: E731  shorter than a function
    moments = sorted({second() for _ in range(8)})
    choices = [(at, chance.choice([site.dock, site.aisle, site.dock, site.aisle, None])) for at in moments]
    reads = [(second(), chance.randrange(3)) for _ in range(40)]
    events = [("choice", *one) for one in choices] + [("read", *one) for one in reads]
    chance.shuffle(events)
    for kind, at, what in events:
        if kind == "choice":
            choose(sled, what, at)
        else:
            assert what is not None
            line.handle([message(payload(at, site.epcs[what]), SLED)])
        if chance.random() < 0.3:
            settle(line)
    settle(line)
    expected: dict[tuple[int, int, int], tuple[int, int]] = {}  # (asset, minute, choice) -> first read
    for at, number in sorted(reads):
        earlier = [one for one in choices if one[0] <= at]
        if earlier and earlier[-1][1] is not None:
            key = (site.assets[number], whole(at), earlier[-1][0])
            expected.setdefault(key, (at, earlier[-1][1]))
    model = {(asset_id, where, at) for (asset_id, _, _), (at, where) in expected.items()}
    assert scans() == model
    recorded = history()
    execute("DELETE FROM history")
    execute("DELETE FROM track")
    for asset_id, where, at in sorted(model, key=lambda one: one[2]):
        positions.record_by_person(Scan(site.organization_id, asset_id, where, None, None, at, at, Quality.HANDHELD))
    assert recorded == history()


def test_a_choice_ends_with_signing_out_and_after_a_shift(sled: Sled) -> None:
    site, line, now = sled.site, pipeline(), clock.now()
    choose(sled, site.dock, now - 14 * HOUR)
    line.handle([message(payload(now - 13 * HOUR, site.epcs[0]), SLED)])
    line.handle([message(payload(now - HOUR, site.epcs[1]), SLED)])
    assert (location_of(site.assets[0]), location_of(site.assets[1])) == (site.dock, None)
    choose(sled, site.dock, now - HOUR // 2)
    sleds.end_choice(sled.operator)
    line.handle([message(payload(clock.now() + SECOND, site.epcs[1]), SLED)])
    assert location_of(site.assets[1]) is None


def test_a_choice_ends_when_its_person_is_disabled(sled: Sled) -> None:
    site, line = sled.site, pipeline()
    choose(sled, site.dock, clock.now() - 60 * SECOND)
    line.handle([message(payload(clock.now() - 30 * SECOND, site.epcs[0]), SLED)])
    assert sled.operator.person_id
    people.disable_person(shell(site.organization_id), sled.operator.person_id)
    line.handle([message(payload(clock.now() + SECOND, site.epcs[1]), SLED)])
    line.handle([message(payload(clock.now() - 20 * SECOND, site.epcs[2]), SLED)])  # late
    assert [location_of(one) for one in site.assets] == [site.dock, None, site.dock]


def test_a_sled_of_a_handheld_follows_whoever_uses_it(sled: Sled) -> None:
    site, line, now = sled.site, pipeline(), clock.now()
    device = devices.invite(shell(site.organization_id), "MC3300")[0]
    sleds.assign(shell(site.organization_id), sled.reader_id, device_id=device.id)
    execute("UPDATE sled_assignment SET since = ? WHERE device_id IS NOT NULL", (now - HOUR,))
    execute("UPDATE version SET readers = readers + 1")
    line = pipeline()
    other = add_operator(site.organization_id, "Pia")
    on_device = [one._replace(device_id=device.id) for one in (sled.operator, other)]
    sleds.choose_location(on_device[0], "choice-oli", site.dock, now - 500 * SECOND, now)
    line.handle([message(payload(now - 400 * SECOND, site.epcs[0]), SLED)])
    sleds.choose_location(on_device[1], "choice-pia", site.aisle, now - 300 * SECOND, now)
    line.handle([message(payload(now - 200 * SECOND, site.epcs[1]), SLED)])
    choose(sled, site.dock, now - 100 * SECOND)  # without the handheld
    line.handle([message(payload(now - 50 * SECOND, site.epcs[2]), SLED)])
    assert [location_of(one) for one in site.assets] == [site.dock, site.aisle, site.aisle]
    assert execute("SELECT person_id FROM handheld_scan ORDER BY observed_at").fetchall() == [
        (sled.operator.person_id,),
        (other.person_id,),
        (other.person_id,),
    ]


def test_a_sled_of_nobody_is_a_reader_like_others(sled: Sled) -> None:
    site, line = sled.site, pipeline()
    readers.change_reader(shell(site.organization_id), sled.reader_id, {"location_id": site.aisle})
    sleds.assign(shell(site.organization_id), sled.reader_id)
    line.handle([message(payload(clock.now() + SECOND, site.epcs[0]), SLED)])
    assert location_of(site.assets[0]) == site.aisle
    assert scans() == set()


def test_fixed_readers_and_a_sled_agree_on_the_newest(sled: Sled) -> None:
    site, line, at = sled.site, pipeline(), whole(clock.now() - 600 * SECOND)
    line.handle([message(at_aisle(site.epcs[0], at), AISLE)])
    choose(sled, site.dock, at)
    line.handle([message(payload(at + 20 * SECOND, site.epcs[0]), SLED), message(at_aisle(site.epcs[1], at), AISLE)])
    assert location_of(site.assets[0]) == site.dock
    line.handle([message(at_aisle(site.epcs[0], at + second * SECOND), AISLE) for second in range(30, 60)])
    settle(line)
    assert location_of(site.assets[0]) == site.aisle


def test_the_scans_of_a_sled_are_undone_and_stay_undone(sled: Sled) -> None:
    site, line, at = sled.site, pipeline(), whole(clock.now() - 600 * SECOND)
    choose(sled, site.dock, at)
    line.handle([message(payload(at + SECOND, *site.epcs), SLED)])
    assert sled_scans.undo(shell(site.organization_id), sled.reader_id, at, GAP) == 3
    assert [location_of(one) for one in site.assets] == [None] * 3
    line.handle([message(payload(at + 2 * SECOND, *site.epcs), SLED)])
    choose(sled, site.aisle, at - SECOND)
    settle(line)
    assert scans() == set()
    assert execute("SELECT count(*) FROM audit WHERE action = 'sled.undone'").fetchone() == (1,)


def test_choices_of_people_without_a_sled_are_not_stored(sled: Sled) -> None:
    other = add_operator(sled.site.organization_id, "Pia")
    sleds.choose_location(other, "choice-of-pia", sled.site.dock, clock.now(), clock.now())
    assert execute("SELECT count(*) FROM location_choice").fetchone() == (0,)
    sleds.choose_location(sled.operator, "choice-elsewhere", 12345, clock.now(), clock.now())
    assert execute("SELECT location_id FROM location_choice").fetchall() == [(None,)]


def test_nearness_is_the_newest_read_of_a_moment(sled: Sled) -> None:
    site, line = sled.site, pipeline()
    line.handle([message(payload(clock.now() - SECOND, site.epcs[0], rssi=-61), SLED)])
    near = sled_scans.nearness([sled.reader_id], site.assets[0])
    assert near
    assert near.rssi == -61
    assert sled_scans.nearness([sled.reader_id], site.assets[1]) is None
    assert sled_scans.nearness([], site.assets[0]) is None


def test_the_reads_of_a_sled_hold_the_lock_no_longer_than_others(sled: Sled) -> None:
    line, at = pipeline(), clock.now() - 60 * SECOND
    epcs = [f"30CC{number:020X}" for number in range(300)]
    first, second = (message(payload(at + second * SECOND, *epcs), SLED) for second in range(2))
    assert line.handle_some([first, second]) == 1
    line.handle([message(payload(at, *epcs, *[f"30CD{number:020X}" for number in range(200)]), SLED)])
    [(reason,)] = execute("SELECT reason FROM dead_letter").fetchall()
    assert "at most 416 at once" in reason


def test_kept_reads_are_bounded_and_expire(sled: Sled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sled_scans, "MOST_READS", 5)
    monkeypatch.setattr(sled_scans, "COUNT_EVERY", 2)
    line, now = pipeline(), clock.now()
    for second in range(20):
        line.handle([message(payload(now - (100 - second) * SECOND, sled.site.epcs[0]), SLED)])
    assert 5 <= execute("SELECT count(*) FROM sled_read").fetchone()[0] <= 7
    assert deletion.drop_expired(now + deletion.SLED_READS_KEPT) > 0
    assert execute("SELECT count(*) FROM sled_read").fetchone() == (0,)
