"""The copies that a site has of the hub's assets are compared with the originals, and repaired."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edge import clock
from edge.database.connection import database, execute
from edge.records import assets, locations
from edge.sync import batch_format, hub, verify
from edge.sync.store import comparisons, hub_link
from edge.sync.store.digests import Scope
from tests.sync.company import Company
from tests.sync.world import HOUR, Box, SiteBox, assert_copies, assert_equal

COPIES = "SELECT external_key, name, deleted_at FROM asset JOIN mirror ON record_id = asset.id ORDER BY 1"


@pytest.fixture
def company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Company:
    company = Company(tmp_path, monkeypatch)
    with company.hub.in_use():
        for number in range(3):
            assets.create(company.hub.actor, name="Of the hub", external_key=f"U-{number}")
    company.settle()
    return company


def compare(site: SiteBox) -> list[str]:
    with site.in_use():
        here = hub_link.find()
        assert here
        return [difference.text for difference in verify.compare(here, site.call)]


def change(box: Box, sql: str) -> None:
    with box.in_use():
        assert execute(sql).rowcount == 1


@pytest.mark.parametrize(("slow", "limit"), [(hub, "DIGEST_SECONDS"), (verify, "SLICE_SECONDS")])
def test_a_comparison_in_parts_finds_what_differs(
    company: Company, monkeypatch: pytest.MonkeyPatch, slow: ModuleType, limit: str
) -> None:
    """An answer of the hub, or this box, may be out of time after each range of ids."""
    monkeypatch.setattr(slow, limit, -1)
    assert compare(company.ber) == []
    change(company.ber, "UPDATE asset SET name = 'Wrong' WHERE external_key = 'U-1'")
    change(company.ber, "UPDATE asset SET name = 'Wrong' WHERE external_key = 'H-1'")
    assert sorted(compare(company.ber)) == ["copy of asset H-1", "copy of asset U-1"]
    assert compare(company.ber) == []


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE asset SET name = 'Wrong' WHERE external_key = '{0}'",
        "UPDATE asset SET deleted_at = 1 WHERE external_key = '{0}'",
        "UPDATE asset SET metadata = '{{\"a\":1}}' WHERE external_key = '{0}'",
        "INSERT INTO tag (id, organization_id, asset_id, tag_type, value, match_key, created_at) "
        "SELECT 7, organization_id, id, 'rfid', 'FF', 'FF', 1 FROM asset WHERE external_key = '{0}'",
    ],
)
@pytest.mark.parametrize("key", ["U-1", "H-1"])
def test_a_copy_that_differs_is_fetched_again(company: Company, spoil: str, key: str) -> None:
    before = company.ber.rows(COPIES)
    assert compare(company.ber) == []
    change(company.ber, spoil.format(key))
    assert compare(company.ber) == [f"copy of asset {key}"]
    assert compare(company.ber) == []
    assert company.ber.rows(COPIES) == before
    company.assert_settled()


def test_an_asset_that_the_hub_retired_is_retired_here(company: Company) -> None:
    with company.hub.in_use():
        [(asset_id,)] = execute("SELECT id FROM asset WHERE external_key = 'U-1'").fetchall()
        assets.delete(company.hub.actor, asset_id)
    company.settle()
    change(company.ber, "UPDATE asset SET deleted_at = NULL WHERE external_key = 'U-1'")
    assert compare(company.ber) == ["copy of asset U-1"]
    assert compare(company.ber) == []


def test_changes_on_their_way_are_no_differences(company: Company) -> None:
    assert compare(company.ber) == []
    with company.hub.in_use():
        [(asset_id,)] = execute("SELECT id FROM asset WHERE external_key = 'U-1'").fetchall()
        assets.patch(company.hub.actor, asset_id, {"name": "New"})
    assert compare(company.ber) == []
    company.settle()
    assert compare(company.ber) == []
    assert ("U-1", "New", None) in company.ber.rows(COPIES)


def test_conflicts_are_no_differences(company: Company) -> None:
    company.ber.leave()
    company.ber.add_asset("H-9", "CC01")
    company.ham.add_asset("H-9", "CC01")
    company.ham.settle()
    company.ber.rejoin()
    company.settle()
    assert company.hub.rows("SELECT count(*) FROM conflict") != [(0,)]
    for site in (company.ber, company.ham):
        assert compare(site) == []


@pytest.mark.parametrize("name", ["BER", "hub"])
def test_validity_that_began_with_a_clock_ahead_is_the_same_everywhere_once_the_clock_is_right(
    company: Company, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Before, the copies kept the time of their receipt for good, and the home had them valid 30 hours later."""
    wrong: Box = company.ber if name == "BER" else company.hub
    ahead, now = {str(wrong.folder): 30 * HOUR}, clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + ahead.get(str(Path(database.database).parent), 0))
    with wrong.in_use():
        assets.create(wrong.actor, name="Early", external_key="E-1")
        if name == "BER":
            locations.create(wrong.actor, name="Early", external_key="E-2")
    company.settle()
    begins = "SELECT valid_from FROM asset WHERE external_key = 'E-1'"
    for box in (company.hub, company.ber, company.ham):
        assert box is wrong or box.rows(begins) == [(now - now % 1000,)], "valid at once, also while the clock is wrong"
    assert compare(company.ber) == compare(company.ham) == []
    ahead.clear()
    company.settle()
    for site in (company.ber, company.ham):
        compare(site)
    company.settle()
    for site in (company.ber, company.ham):
        assert compare(site) == []
        assert_equal(site)
        assert_copies(site)
    assert wrong.rows(begins) == [(now - now % 1000,)]


def ask(site: SiteBox, of: str, **more: Any) -> dict[str, Any]:
    """Return the hub's answer to a question as sites of this protocol have always asked it, without columns."""
    [(epoch, after)] = site.rows("SELECT hub_epoch, master_seq FROM target")
    content = {"range": [1, 0], "days": [], "epoch": epoch, "after": after, "first": 0, "of": of, **more}
    answer: dict[str, Any] = site.hub.answer(site.site_no, "digests", batch_format.pack(content))
    return answer


def test_a_site_that_compares_no_begin_of_validity_compares_nothing(company: Company) -> None:
    assert ask(company.ber, "records")["records"] is None
    assert ask(company.ber, "copies")["copies"] is None


@pytest.mark.parametrize("of", ["records", "copies"])
def test_a_site_that_knows_no_further_columns_gets_all_buckets_and_their_rows(company: Company, of: str) -> None:
    answer = ask(company.ber, of, is_exact=True)
    with company.ber.in_use():
        scope, last = Scope(company.ber.organization_id, None), comparisons.KINDS[of].last
        ours, _ = comparisons.by_bucket(of, scope, "", comparisons.Terms(), 0, last, 60)
        rows = comparisons.in_buckets(of, scope, "", comparisons.Terms(), [min(ours)])
    assert {key: (count, total) for key, count, total in answer[of]} == ours
    answer = ask(company.ber, of, is_exact=True, buckets=[min(ours)])
    assert answer["buckets"] == [min(ours)]
    assert sorted(map(tuple, answer[of])) == sorted(rows)


def test_a_bucket_is_read_once_although_the_hub_is_faster(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the hub read all copies for each slice of a slow site."""
    read: list[tuple[bool, int]] = []
    kind = comparisons.KINDS["copies"]

    def note(scope: Scope, *about: Any) -> Any:
        read.append((scope.site_no is None, about[2]))
        return kind.read(scope, *about)

    monkeypatch.setitem(comparisons.KINDS, "copies", kind._replace(read=note))
    monkeypatch.setattr(verify, "SLICE_SECONDS", 0)
    assert compare(company.ber) == []
    assert len(read) == len(set(read)) == 2 * (kind.last + 1)
