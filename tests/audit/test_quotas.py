"""People and keys can add a limited number of bytes over time, and a limited number of some records."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator

import pytest

from edge import clock
from edge.audit import actors, quotas
from edge.audit.actors import Actor, shell
from edge.database.connection import execute
from edge.errors import Conflict, OverQuota, Unavailable
from edge.handhelds import scans, stock_takes
from edge.handhelds.scans import Submitted
from edge.limits import Buckets
from edge.people import api_keys, people
from edge.people.people import Role
from edge.records import assets, csv_import, locations
from edge.records.tags import NewTag
from edge.tracking import floor_plans
from tests.conftest import Cast

BURST = 20_000.0  # bytes


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set small quotas that never refill."""
    monkeypatch.setattr(quotas, "_of_caller", Buckets(int(BURST), 1e-9))
    monkeypatch.setattr(quotas, "_of_organization", Buckets(int(3 * BURST), 1e-9))


@pytest.fixture
def ada(cast: Cast) -> Actor:
    return person_of(cast.acme, "Ada")


def person_of(organization_id: int, name: str) -> Actor:
    row = people.add_person(shell(organization_id), name, Role.EDITOR)
    return actors.person(organization_id, row.id, row.name)


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

    begun = [begin(number, "begun", 1) for number in range(10)]
    signed = stock_takes.SignedResult({}, [str(code) for code in range(100)], [])
    records = [csv_import.NewRecord(number, None, {"name": f"Imported {number}"}) for number in range(20)]
    yield "assets", lambda number: assets.create(ada, name=f"Asset {number}")
    yield "long assets", lambda number: assets.create(ada, name=f"Long {number}", metadata="x" * 9_000)
    yield "longer assets", lambda number: assets.patch(ada, grown[number], {"metadata": "x" * 9_000})
    yield "locations", lambda number: locations.create(ada, name=f"Location {number}")
    yield "tags", lambda number: assets.attach_tag(ada, asset_id, NewTag("rfid", f"{number:X}"))
    yield "plans", lambda number: floor_plans.set_image(ada, place, b"%09000d" % number, "image/png", (10, 10))
    yield "imports", lambda _: csv_import.import_records(ada, "asset", records, lambda _: None)
    yield "keys", lambda number: api_keys.add_key(ada, f"Key {number}", api_keys.SCOPES, b"%032d" % number)
    yield "people", lambda number: people.add_person(ada, f"Person {number}", Role.VIEWER)
    yield "scans", lambda number: scans.submit(ada, [scan(number)], clock.now())
    yield "undone scans", lambda number: scans.undo(ada, f"undone-{number:05}", 0)
    yield "stock-takes", begin
    yield "scans of a stock-take", lambda number: stock_takes.scan(ada, begun[-1], scan(50_000 + number), clock.now())
    yield "results of stock-takes", lambda number: stock_takes.finish(ada, begun[number], 1, signed)


@pytest.mark.usefixtures("small")
def test_every_way_to_add_data_is_limited(cast: Cast, ada: Actor) -> None:
    place = locations.create(shell(cast.acme), name="Dock").id
    for name, add in ways_to_add(ada, place):
        quotas.forget()
        assert until_refused(add) < 100, name


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
    with pytest.raises(Conflict, match="There are 1 of these already"):
        api_keys.add_key(ada, "Two", api_keys.SCOPES, b"2" * 32)
    assert [row.name for row in api_keys.list_keys(cast.acme)] == ["One"]
    api_keys.add_key(person_of(cast.rival, "Rita"), "Two", api_keys.SCOPES, b"2" * 32)
    docks = [locations.create(shell(cast.acme), name=name).id for name in ("A", "B")]
    floor_plans.set_image(ada, docks[0], b"x", "image/png", (1, 1))
    floor_plans.set_image(ada, docks[0], b"another", "image/png", (1, 1))
    with pytest.raises(Conflict):
        floor_plans.set_image(ada, docks[1], b"x", "image/png", (1, 1))


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
    for cap in quotas.CAPS.values():
        assert execute(f"SELECT count(*) FROM {cap.rows}", (cast.acme,)).fetchone() is not None


def test_the_last_disk_space_is_reserved_for_reads_and_scans(
    cast: Cast, ada: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(quotas.shutil, "disk_usage", lambda _: usage(999))
    dock = locations.create(shell(cast.acme), name="Dock").id
    assets.create(ada, name="While no space is reserved")
    quotas.keep_free(1_000)
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
