import tempfile
import threading
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge import clock
from edge.audit.actors import person, shell
from edge.config.settings import Config
from edge.database.bounds import Bounds
from edge.database.connection import FILE_NAME, checkpoint, database, execute, execute_many, writing
from edge.doors import doors
from edge.expected_lists import expected_lists
from edge.handhelds import stock_takes
from edge.handhelds.scans import Submitted
from edge.operations.retention import sweep
from edge.people.people import Role, add_person
from edge.readers.kept_messages import Pack, Window
from edge.tracking import deletion as store
from edge.tracking import tracked_people
from edge.tracking.tracked_people import PeopleSetting
from tests.operations.conftest import fresh_site
from tests.operations.history import HOUR, Stay, add_asset, counts_are_right, stays_of

ROOMY = 10**12
KEEP_ALL = Config(retention_low_disk_mb=0)


def go_on() -> bool:
    return False


# Stays of one asset are consecutive and do not overlap.
assets = st.lists(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), min_size=1, max_size=12), min_size=1, max_size=5
)


def stays(steps: list[tuple[int, int]]) -> list[Stay]:
    moment, result = 1_600_000_000_000_000, []
    for gap, seen in steps:
        moment += gap * HOUR
        result.append(Stay(moment, seen * HOUR))
        moment += seen * HOUR
    return result


@settings(max_examples=40)
@given(assets, st.integers(0, 500), st.integers(1, 7))
def test_dropping_takes_exactly_what_ended_before_and_never_the_newest(
    plan: list[list[tuple[int, int]]], hours: int, limit: int
) -> None:
    before = 1_600_000_000_000_000 + hours * HOUR
    with tempfile.TemporaryDirectory() as folder, fresh_site(Path(folder)):
        expected = {}
        for steps in plan:
            every = stays(steps)
            kept = [stay for stay in every[:-1] if stay.observed_at + stay.seen_for >= before]
            expected[add_asset(every)] = [*kept, every[-1]]
        while store.drop_history(before, limit):
            assert counts_are_right()
        assert {position: stays_of(position) for position in expected} == expected
        assert counts_are_right()


def test_history_is_kept_for_the_days_that_are_set(site: Path) -> None:
    now = clock.now()
    position = add_asset([Stay(now - days * clock.DAY, 0) for days in (500, 401, 399, 0)])
    sweep(KEEP_ALL, clock.now(), ROOMY, go_on)
    assert [(now - stay.observed_at) // clock.DAY for stay in stays_of(position)] == [399, 0]


def test_a_clock_that_jumped_ahead_costs_no_history(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.now()
    position = add_asset([Stay(now - days * clock.DAY, 0) for days in (300, 1)])
    monkeypatch.setattr(clock, "now", lambda: now + 5000 * clock.DAY)
    sweep(KEEP_ALL, clock.now(), ROOMY, go_on)
    assert len(stays_of(position)) == 2


def test_a_low_disk_deletes_the_oldest_slice_and_keeps_every_position(site: Path) -> None:
    now = clock.now()
    first = add_asset([Stay(now - days * clock.DAY, 0) for days in range(100, 0, -1)])
    other = add_asset([Stay(now - 200 * clock.DAY, 0)])
    low = replace(KEEP_ALL, retention_low_disk_mb=954)
    sweep(low, clock.now(), 1000, go_on)
    kept = stays_of(first)
    assert 95 <= len(kept) < 100
    assert kept[-1].observed_at == now - clock.DAY
    assert min(kept) == kept[0]
    for _ in range(400):
        sweep(low, clock.now(), 1000, go_on)
    assert len(stays_of(first)) == len(stays_of(other)) == 1
    assert counts_are_right()


def test_a_low_disk_takes_history_only_when_nothing_else_is_left(site: Path) -> None:
    now = clock.now()
    history = add_asset([Stay(now - days * clock.DAY, 0) for days in range(100, 0, -1)])
    organization_id, location_id = execute("SELECT organization_id, id FROM location").fetchone()
    ada = person(organization_id, add_person(shell(organization_id), "Ada", Role.OPERATOR).id, "Ada")
    for name in ("old", "new", "cancelled", "open"):
        stock_takes.begin(ada, name, location_id, with_sublocations=False, expected=[], started_at=1)
    stock_takes.finish(ada, "old", now - 20)
    stock_takes.finish(ada, "new", now - 10)
    stock_takes.cancel(ada, "cancelled", now)
    Window(10_000, clock.DAY).keep([Pack(organization_id, 1, now, b"", b"raw")])
    kept = []
    for _ in range(4):
        sweep(replace(KEEP_ALL, retention_low_disk_mb=954), now, 1000, go_on)
        takes = {row[0] for row in execute("SELECT id FROM stock_take")}
        raw = execute("SELECT count(*) FROM raw_message").fetchone()[0]
        kept.append((raw, takes, len(stays_of(history)) == 100))
    assert kept == [
        (0, {"old", "new", "open"}, True),
        (0, {"new", "open"}, True),
        (0, {"open"}, False),
        (0, {"open"}, False),
    ]


def test_dropped_rows_are_recorded(site: Path, caplog: pytest.LogCaptureFixture) -> None:
    add_asset([Stay(1_600_000_000_000_000, 0), Stay(clock.now(), 0)])
    with caplog.at_level("INFO"):
        sweep(KEEP_ALL, clock.now(), ROOMY, go_on)
    assert "Dropped 1 history: older than 400 days" in caplog.text
    assert [(row.counts, row.reason) for row in store.last_dropped(9)] == [({"history": 1}, "older than 400 days")]


def test_dead_letters_are_bounded_by_number_and_by_bytes(site: Path) -> None:
    with writing():
        for number in range(20):
            execute(
                "INSERT INTO dead_letter (topic, payload, size, reason, received_at) "
                "VALUES ('t', zeroblob(100), 100, 'x', ?)",
                (number,),
            )
    store.drop_dead_letters(Bounds(dead_letters=10, dead_letter_bytes=10_000))
    assert [row[0] for row in execute("SELECT received_at FROM dead_letter ORDER BY no")] == list(range(10, 20))
    store.drop_dead_letters(Bounds(dead_letters=10, dead_letter_bytes=350))
    assert [row[0] for row in execute("SELECT received_at FROM dead_letter ORDER BY no")] == [17, 18, 19]


def test_unknown_tags_and_topics_keep_those_seen_last(site: Path) -> None:
    organization = execute("SELECT id FROM organization").fetchone()[0]
    with writing():
        for number in range(20):
            execute(
                "INSERT INTO unknown_tag VALUES (?, 'rfid', ?, 0, 'v', 'unmatched', 0, ?, 1, NULL)",
                (organization, str(number), number),
            )
            execute("INSERT INTO unassigned_topic VALUES (?, 0, ?, 1, x'', ?, 0)", (str(number), number, organization))
    sweep(replace(KEEP_ALL, retention_unknown_tags=3, retention_unassigned_topics=2), clock.now(), ROOMY, go_on)
    assert {row[0] for row in execute("SELECT match_key FROM unknown_tag")} == {"17", "18", "19"}
    assert {row[0] for row in execute("SELECT topic FROM unassigned_topic")} == {"18", "19"}


def test_the_file_shrinks_by_what_was_dropped_in_steps(site: Path) -> None:
    with writing():
        for _ in range(1000):
            execute(
                "INSERT INTO dead_letter (topic, payload, size, reason, received_at) "
                "VALUES ('t', zeroblob(9000), 9000, 'x', 0)"
            )
    checkpoint("PASSIVE")
    large = (site / FILE_NAME).stat().st_size
    pauses = []
    sweep(
        replace(KEEP_ALL, retention_dead_letters=10),
        clock.now(),
        ROOMY,
        lambda: bool(pauses.append(1)),
    )
    assert (site / FILE_NAME).stat().st_size < large / 3
    assert len(pauses) > 5


def test_a_service_that_stops_waits_for_one_step_only(site: Path) -> None:
    now = clock.now()
    for _ in range(3):
        add_asset([Stay(now - (500 + n) * clock.DAY, 0) for n in range(400)])
    sweep(KEEP_ALL, clock.now(), ROOMY, lambda: True)
    assert execute("SELECT count(*) FROM history").fetchone()[0] > 600
    assert counts_are_right()


def test_looking_for_old_records_waits_for_nobody_who_writes(site: Path) -> None:
    counts: list[int] = []
    look = threading.Thread(target=lambda: counts.append(store.drop_old_records("records", 1)))
    with writing():
        look.start()
        look.join(60)
        assert counts == [0]


def test_loads_of_carriers_that_ended_go_with_their_history(site: Path) -> None:
    with writing():
        add_asset([Stay(1, 0)])
        add_asset([Stay(1, 0)])
        (one,), (other,) = execute("SELECT id FROM asset")
        for loaded, unloaded in ((1, 5), (6, 20), (20, None)):
            execute("INSERT INTO carrier_load VALUES (?, ?, ?, NULL, NULL, ?)", (one, loaded, other, unloaded))
    assert store.drop_old_records("records", 10) == 1
    assert execute("SELECT loaded_at FROM carrier_load ORDER BY 1").fetchall() == [(6,), (20,)]


def test_expected_lists_signed_off_long_ago_are_deleted(site: Path) -> None:
    now = clock.now()
    add_asset([Stay(now, 0)])
    organization_id, key = execute("SELECT organization_id, external_key FROM asset").fetchone()
    location_id = execute("SELECT id FROM location").fetchone()[0]
    ada = shell(organization_id)
    for days in (399, 401):
        list_id = expected_lists.create(ada, f"{days} days", [key], location_id=location_id)
        expected_lists.start(ada, list_id)
        expected_lists.sign_off(ada, list_id, expected_lists.find_state(organization_id, list_id).version)
        execute("UPDATE expected_list SET signed_at = ? WHERE id = ?", (now - days * clock.DAY, list_id))
    sweep(KEEP_ALL, now, ROOMY, go_on)
    assert [one.name for one in expected_lists.signed_lists(organization_id, 9)] == ["399 days"]
    assert execute("SELECT count(*) FROM expected_line").fetchone() == (1,)


def test_history_of_people_goes_earlier_and_their_newest_stay_remains(site: Path) -> None:
    now = clock.now()
    days = [Stay(now - age * clock.DAY, HOUR) for age in (90, 31, 29, 0)]
    pallet, person_track = add_asset(days), add_asset(days)
    (organization_id,) = execute("SELECT organization_id FROM track WHERE no = ?", (person_track,)).fetchone()
    tracked_people.save(shell(organization_id), PeopleSetting(key_prefix="K-", history_days=30))
    sweep(KEEP_ALL, now, ROOMY, go_on)
    assert counts_are_right()
    assert stays_of(pallet) == days
    assert stays_of(person_track) == days[2:]
    sweep(KEEP_ALL, now + 60 * clock.DAY, ROOMY, go_on)  # the newest scan is now: a clock ahead deletes nothing
    assert stays_of(person_track) == days[2:]


def test_scans_and_passages_of_people_are_found_without_reading_those_of_other_assets(site: Path) -> None:
    now, day = clock.now(), clock.DAY
    for _ in range(2):
        add_asset([Stay(now, 0)])
    organization_id, person_id = execute("SELECT organization_id, id FROM asset").fetchone()
    (first,) = execute("SELECT id FROM asset WHERE id <> ?", (person_id,)).fetchone()
    execute("UPDATE asset SET external_key = 'P-1' WHERE id = ?", (person_id,))
    (location_id,) = execute("SELECT id FROM location WHERE organization_id = ?", (organization_id,)).fetchone()
    ada = add_person(shell(organization_id), "Ada", Role.OPERATOR).id
    door = doors.add_door(shell(organization_id), "Gate", location_id)
    tracked_people.save(shell(organization_id), PeopleSetting(key_prefix="P-", history_days=30))
    with writing():
        for asset_id, ages in ((first, range(50, 3050)), (person_id, (29, 31))):
            execute_many(
                "INSERT INTO handheld_scan (id, organization_id, person_id, sent_by, location_id, asset_id, code, "
                "outcome, observed_at, received_at) VALUES (?, ?, ?, ?, ?, ?, '', '', ?, ?)",
                [
                    (
                        f"{asset_id}-{age}",
                        organization_id,
                        ada,
                        ada,
                        location_id,
                        asset_id,
                        now - age * day,
                        now - age * day,
                    )
                    for age in ages
                ],
            )
            execute_many(
                "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
                "outer_reads, since, until, decided_at) VALUES (?, ?, ?, ?, 1, 900, 5, 6, 0, 0, 0)",
                [(organization_id, door, asset_id, now - age * day) for age in ages],
            )
    steps = count()
    database.connection().set_progress_handler(lambda: next(steps) < 0, 1)
    assert store.drop_history_of_people(organization_id, now - 30 * day) == 2
    database.connection().set_progress_handler(None, 1)
    assert next(steps) < 2000
    for table in ("handheld_scan", "passage"):
        sql = f"SELECT count(*) FROM {table} GROUP BY asset_id = ?"
        assert execute(sql, (person_id,)).fetchall() == [(3000,), (1,)]


def test_stock_takes_that_ended_long_ago_go_in_steps_with_all_they_hold(site: Path) -> None:
    now = clock.now()
    add_asset([Stay(now, 0)])
    organization_id, asset_id = execute("SELECT organization_id, id FROM asset").fetchone()
    location_id = execute("SELECT id FROM location").fetchone()[0]
    ada = person(organization_id, add_person(shell(organization_id), "Ada", Role.OPERATOR).id, "Ada")
    for name in ("old", "new", "open"):
        stock_takes.begin(ada, name, location_id, with_sublocations=False, expected=[asset_id], started_at=1)
        stock_takes.scan(ada, name, Submitted(f"scan-{name}", "X", location_id, 2), 2)
    stock_takes.finish(ada, "old", now - 401 * clock.DAY)
    stock_takes.cancel(ada, "new", now - 399 * clock.DAY)
    assert store.drop_whole("stock_take_rows", now - 400 * clock.DAY, limit=1) == 1
    sweep(KEEP_ALL, now, ROOMY, go_on)
    assert execute("SELECT id FROM stock_take ORDER BY id").fetchall() == [("new",), ("open",)]
    for table in ("stock_take_line", "stock_take_expected", "stock_take_scan"):
        assert execute(f"SELECT count(*) FROM {table} WHERE stock_take_id = 'old'").fetchone()[0] == 0
    assert execute("SELECT count(*) FROM stock_take_scan").fetchone()[0] == 2
