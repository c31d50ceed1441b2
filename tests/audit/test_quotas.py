"""People and keys can add a limited number of bytes over time, and a limited number of some records."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge import clock
from edge.audit import actors, quotas
from edge.audit.actors import Actor, shell
from edge.bulk import bulk_jobs, imports, slices
from edge.bulk.asset_changes import Action, BulkChange
from edge.database.connection import execute
from edge.errors import Conflict, OverQuota, Unavailable
from edge.expected_lists import expected_lists
from edge.handhelds import scans, stock_takes
from edge.handhelds.scans import Submitted
from edge.operations import saved_state
from edge.people import api_keys, people
from edge.people.people import Role
from edge.rate_limits import Buckets
from edge.records import assets, csv_import, locations
from edge.records.tags import NewTag
from edge.tracking import carriers, floor_plans
from tests.conftest import Cast

BURST = 20_000.0  # bytes


def imported(actor: Actor, records: list[csv_import.NewRecord]) -> None:
    """Import records. Raises OverQuota if the job has to wait for quota."""
    job_id = imports.start(actor, "asset", records, len(records))
    slices.run_jobs(lambda _: False)
    job = bulk_jobs.find_job(actor.organization_id, job_id)
    assert job
    if job.finished_at is None:
        bulk_jobs.stop(actor, job_id)
        raise OverQuota(1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set small quotas that never refill."""
    monkeypatch.setattr(quotas, "_of_caller", Buckets(int(BURST), 1e-9))
    monkeypatch.setattr(quotas, "_of_key", Buckets(int(BURST), 1e-9))
    monkeypatch.setattr(quotas, "_of_organization", Buckets(int(3 * BURST), 1e-9))


@pytest.fixture
def ada(cast: Cast) -> Actor:
    return person_of(cast.acme, "Ada")


def person_of(organization_id: int, name: str) -> Actor:
    row = people.add_person(shell(organization_id), name, Role.EDITOR)
    return actors.person(organization_id, row.id, row.name)


def sign_off(actor: Actor, list_id: int) -> None:
    expected_lists.start(shell(actor.organization_id), list_id)
    version = expected_lists.find_state(actor.organization_id, list_id).version
    expected_lists.sign_off(actor, list_id, version)


def until_refused(add: Callable[[int], object]) -> int:
    for number in range(1_000):
        try:
            add(number)
        except OverQuota:
            return number
    raise AssertionError("never refused")


def ways_to_add(ada: Actor, place: int) -> Iterator[tuple[str, Callable[[int], object]]]:
    """Yield every way for a signed-in person to add data repeatedly."""
    asset_id = assets.create(shell(ada.organization_id), name="Pallet").id
    grown = [assets.create(shell(ada.organization_id), name=f"Grows {n}").id for n in range(100)]

    def scan(number: int) -> Submitted:
        return Submitted(f"scan-{number:05}", f"code {number}", place, clock.now())

    def begin(number: int, prefix: str = "take", expected: int = 50) -> str:
        take = f"{prefix}-{number:05}"
        stock_takes.begin(ada, take, place, with_sublocations=False, expected=range(1, expected), started_at=1)
        return take

    keys = [assets.get(ada.organization_id, asset_id).external_key for asset_id in grown]
    move = BulkChange(Action.MOVE, location_id=place)

    def prepare(actor: Actor, number: int) -> int:
        return expected_lists.create(actor, f"List {number}", keys, location_id=place)

    begun = [begin(number, "begun", 1) for number in range(10)]
    signed = stock_takes.SignedResult({}, [str(code) for code in range(100)], [])
    records = [csv_import.NewRecord(number, None, {"name": f"Imported {number}"}) for number in range(20)]
    yield "assets", lambda number: assets.create(ada, name=f"Asset {number}")
    yield "long assets", lambda number: assets.create(ada, name=f"Long {number}", metadata="x" * 9_000)
    yield "longer assets", lambda number: assets.patch(ada, grown[number], {"metadata": "x" * 9_000})
    yield "locations", lambda number: locations.create(ada, name=f"Location {number}")
    yield "tags", lambda number: assets.attach_tag(ada, asset_id, NewTag("rfid", f"{number:X}"))
    yield "plans", lambda number: floor_plans.set_image(ada, place, b"%09000d" % number, "image/png", (10, 10))
    yield "imports", lambda _: imported(ada, records)
    yield "keys", lambda number: api_keys.add_key(ada, f"Key {number}", api_keys.SCOPES, b"%032d" % number)
    yield "people", lambda number: people.add_person(ada, f"Person {number}", Role.VIEWER)
    yield "scans", lambda number: scans.submit(ada, [scan(number)], clock.now())
    yield "undone scans", lambda number: scans.undo(ada, f"undone-{number:05}", 0)
    yield "stock-takes", begin
    yield "scans of a stock-take", lambda number: stock_takes.scan(ada, begun[-1], scan(50_000 + number), clock.now())
    yield "results of stock-takes", lambda number: stock_takes.finish(ada, begun[number], 1, signed)
    yield "expected lists", lambda number: prepare(ada, number)
    yield "results of expected lists", lambda number: sign_off(ada, prepare(shell(ada.organization_id), number))
    yield "bulk changes", lambda _: bulk_jobs.stop(ada, bulk_jobs.start(ada, move, grown))


@pytest.mark.usefixtures("small")
def test_every_way_to_add_data_is_limited(cast: Cast, ada: Actor) -> None:
    place = locations.create(shell(cast.acme), name="Dock").id
    for name, add in ways_to_add(ada, place):
        quotas.forget()
        assert until_refused(add) < 100, name


@pytest.mark.usefixtures("small")
def test_assets_that_move_with_a_carrier_count_for_each_scan_of_it(cast: Cast, ada: Actor) -> None:
    """Regression: a scan of a full carrier wrote thousands of rows of history and counted as one."""
    dock, rack = (locations.create(shell(cast.acme), name=name).id for name in ("Dock", "Rack"))
    carrier, *load = (assets.create(shell(cast.acme), name=f"Asset {number}").id for number in range(51))
    for number, asset_id in enumerate(load):
        carriers.load(ada, carrier, asset_id, number + 1)
    stock_takes.begin(ada, "stock-take-1", dock, with_sublocations=False, expected=[], started_at=1)

    def scan(number: int) -> Submitted:
        return Submitted(f"scan-{number:05}", "x", (dock, rack)[number % 2], clock.now(), asset_id=carrier)

    key, most = assets.get(cast.acme, carrier).external_key, int(BURST / (quotas.ROW_BYTES + 50 * quotas.LINE_BYTES))
    counted = until_refused(
        lambda number: stock_takes.scan(ada, "stock-take-1", scan(number)._replace(code=key), clock.now())
    )
    quotas.forget()
    assert until_refused(lambda number: scans.submit(ada, [scan(100 + number)], clock.now())) == counted == most


@pytest.mark.usefixtures("small")
def test_a_refusal_leaves_nothing(cast: Cast, ada: Actor) -> None:
    number = until_refused(lambda number: assets.create(ada, name=f"Asset {number}"))
    assert execute("SELECT count(*) FROM asset").fetchone() == (number,)


@pytest.mark.usefixtures("small")
def test_a_used_up_quota_does_not_affect_others(cast: Cast, ada: Actor) -> None:
    until_refused(lambda number: assets.create(ada, name=f"Asset {number}"))
    for other in (person_of(cast.acme, "Bob"), person_of(cast.rival, "Rita"), shell(cast.acme)):
        assets.create(other, name="Asset of another")


@pytest.mark.usefixtures("small")
def test_an_organization_has_a_common_quota(cast: Cast) -> None:
    crowd = [person_of(cast.acme, f"Person {number}") for number in range(30)]
    assert until_refused(lambda number: assets.create(crowd[number % 30], name=f"Asset {number}")) > 30
    with pytest.raises(OverQuota):
        assets.create(person_of(cast.acme, "Newcomer"), name="Asset")
    assets.create(person_of(cast.rival, "Rita"), name="Asset")


@pytest.mark.usefixtures("small")
def test_uploads_for_others_use_the_quota_of_the_sender(cast: Cast, ada: Actor) -> None:
    place = locations.create(shell(cast.acme), name="Dock").id
    bob = person_of(cast.acme, "Bob")
    for_ada = actors.on_behalf_of(bob, int(ada.id), "Ada")
    until_refused(lambda n: scans.submit(for_ada, [Submitted(f"scan-{n:05}", "x", place, 1)], 1))
    assets.create(ada, name="Asset")
    with pytest.raises(OverQuota):
        assets.create(bob, name="Asset")


def test_the_number_of_records_of_each_kind_is_capped(cast: Cast, ada: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "CAPS", {kind: cap._replace(limit=1) for kind, cap in quotas.CAPS.items()})
    api_keys.add_key(ada, "One", api_keys.SCOPES, b"1" * 32)
    with pytest.raises(Conflict, match="At most 1 are allowed"):
        api_keys.add_key(ada, "Two", api_keys.SCOPES, b"2" * 32)
    assert [row.name for row in api_keys.list_keys(cast.acme)] == ["One"]
    api_keys.add_key(person_of(cast.rival, "Rita"), "Two", api_keys.SCOPES, b"2" * 32)
    docks = [locations.create(shell(cast.acme), name=name).id for name in ("A", "B")]
    with pytest.raises(Conflict, match=r"At most 1 are allowed \(location\); delete some first"):
        locations.create(ada, name="C")
    floor_plans.set_image(ada, docks[0], b"x", "image/png", (1, 1))
    floor_plans.set_image(ada, docks[0], b"another", "image/png", (1, 1))
    with pytest.raises(Conflict):
        floor_plans.set_image(ada, docks[1], b"x", "image/png", (1, 1))


def names_of_assets(organization_id: int) -> list[str]:
    sql = "SELECT name FROM asset WHERE organization_id = ? AND deleted_at IS NULL ORDER BY id"
    return sorted(name for (name,) in execute(sql, (organization_id,)))


def test_the_number_of_assets_is_capped_for_each_way_to_add_one(cast: Cast, ada: Actor) -> None:
    quotas.set_limits({"asset": 3})
    try:
        gone = assets.create(ada, name="Gone", external_key="GONE").id
        assets.delete(ada, gone)
        for name in ("A", "B"):
            assets.create(ada, name=name)
        two = [csv_import.NewRecord(number, None, {"name": f"Imported {number}"}) for number in range(2)]
        with pytest.raises(Conflict, match="At most 3 are allowed"):
            imports.start(ada, "asset", two, 2)
        imported(ada, two[:1])
        for add in (lambda: assets.create(ada, name="C"), lambda: assets.restore(ada, gone)):
            with pytest.raises(Conflict, match=r"raise limits\.assets"):
                add()
        assert names_of_assets(cast.acme) == ["A", "B", "Imported 0"]
        assets.create(shell(cast.acme), name="By the shell")
        quotas.set_limits({"asset": 5})
        assets.create(ada, name="After raising the limit")
    finally:
        quotas.set_limits({"asset": 1_000_000})


def test_many_records_are_not_counted_for_each_new_one(ada: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[str] = []
    count_of = quotas.count_of

    def counted(organization_id: int, kind: str) -> int:
        counts.append(kind)
        return count_of(organization_id, kind)

    monkeypatch.setattr(quotas, "count_of", counted)
    for number in range(20):
        assets.create(ada, name=f"Asset {number}")
    assert counts == ["asset"]


@pytest.mark.usefixtures("small")
def test_a_refusal_by_the_organization_costs_the_person_nothing(cast: Cast, ada: Actor) -> None:
    crowd = [person_of(cast.acme, f"Person {number}") for number in range(30)]
    until_refused(lambda number: assets.create(crowd[number % 30], name=f"Asset {number}"))
    before = quotas.usage()["callers"]
    with pytest.raises(OverQuota):
        assets.create(ada, name="Asset")
    after = quotas.usage()["callers"]
    assert all(after.get(key, BURST) == pytest.approx(left) for key, left in before.items())
    assert after.get(f"person {ada.id}", BURST) == pytest.approx(BURST, abs=10)  # the metadata was within the quota


@pytest.mark.usefixtures("small")
def test_a_restart_does_not_refill_a_quota(ada: Actor, tmp_path: Path) -> None:
    until_refused(lambda number: assets.create(ada, name=f"Asset {number}"))
    saved_state.save(tmp_path)
    quotas.forget()
    saved_state.load(tmp_path)
    with pytest.raises(OverQuota):
        assets.create(ada, name="Asset")
    quotas.forget()
    saved_state.save(tmp_path)
    assert not (tmp_path / "quotas").exists()


@pytest.mark.parametrize(
    "content", ["", "[]", '{"at": 1, "usage": []}', '{"at": "x"}', '{"at": 1, "usage": {"keys": 3}}']
)
def test_a_damaged_file_of_quotas_counts_as_no_usage(ada: Actor, tmp_path: Path, content: str) -> None:
    (tmp_path / "quotas").write_text(content)
    saved_state.load(tmp_path)
    assets.create(ada, name="Asset")


@pytest.mark.parametrize("kind", ["stock_take", "open stock_take"])
def test_stock_takes_are_capped_and_an_existing_one_can_be_resent(
    cast: Cast, ada: Actor, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    dock = locations.create(shell(cast.acme), name="Dock").id
    monkeypatch.setattr(quotas, "CAPS", {kind: quotas.CAPS[kind]._replace(limit=1)})
    for _ in range(2):
        assert stock_takes.begin(ada, "take-1", dock, with_sublocations=False, expected=[], started_at=1)
    with pytest.raises(Conflict):
        stock_takes.begin(ada, "take-2", dock, with_sublocations=False, expected=[], started_at=1)
    assert [row.id for row in stock_takes.list_stock_takes(cast.acme)] == ["take-1"]


def test_every_cap_has_a_valid_query(cast: Cast) -> None:
    """A misspelled table would limit nothing."""
    assert all(quotas.count_of(cast.acme, kind) >= 0 for kind in quotas.CAPS)


def test_the_last_disk_space_is_reserved_for_reads_and_scans(
    cast: Cast, ada: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(quotas.shutil, "disk_usage", lambda _: usage(999))
    dock = locations.create(shell(cast.acme), name="Dock").id
    assets.create(ada, name="While no space is reserved")
    quotas.keep_free(1_000_000)
    try:
        with pytest.raises(Unavailable, match="The disk is nearly full"):
            assets.create(ada, name="Asset")
        scans.submit(ada, [Submitted("scan-00001", "x", dock, clock.now())], clock.now())
        stock_takes.begin(ada, "take-1", dock, with_sublocations=False, expected=[], started_at=1)
        assets.create(shell(cast.acme), name="By the shell")
    finally:
        quotas.keep_free(0)


def test_space_inside_the_database_file_counts_as_free(ada: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(quotas.shutil, "disk_usage", lambda _: usage(999))
    execute("CREATE TABLE dropped (content BLOB)")
    execute("INSERT INTO dropped VALUES (zeroblob(100000))")
    execute("DROP TABLE dropped")
    quotas.keep_free(50_000)
    try:
        assets.create(ada, name="Asset")
        quotas.keep_free(10**9)
        with pytest.raises(Unavailable):
            assets.create(ada, name="Another")
    finally:
        quotas.keep_free(0)
