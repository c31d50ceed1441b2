"""Before a box joins, the hub says which of its records clash, and its keys can be prefixed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edge.api import sync as endpoints
from edge.database.connection import FILE_NAME, close_database, open_database
from edge.errors import Invalid, Unreadable
from edge.people.secrets import hash_secret
from edge.rate_limits import Buckets
from edge.records import assets, keys_in_bulk, locations
from edge.records.tags import NewTag
from edge.sync import batch_format, hub, preview
from edge.sync.store import clashes, conflicts, sites
from tests.application import make_app
from tests.sync.world import Box, Hub, SiteBox, kill_at_each_commit

SECRET = "new site"


class Pair:
    """A hub with the assets of a site BER, and a box that lived alone and has a code for the site HAM."""

    def __init__(self, folder: Path) -> None:
        self.hub = Hub(folder / "hub", "hub")
        self.ber = SiteBox(folder / "ber", "BER", self.hub)
        for number in range(5):
            self.ber.add_asset(f"ASSET-000{number}", f"AA0{number}")
        self.ber.join()
        self.ber.sync()
        self.box = Box(folder / "box", "box")
        with self.hub.in_use():
            self.site = sites.add_site(self.hub.actor, "HAM", "Hamburg", hash_secret(SECRET))
            locations.create(self.hub.actor, name="Taken", external_key="HAM-DOCK")
        with self.box.in_use():
            self.add("ASSET-0001", "Pallet ASSET-0001", "AA01")  # the same one
            self.add("ASSET-0002", "Another pallet", "AA02")  # another name
            self.add("ASSET-0003", "Pallet ASSET-0003", "FF03")  # another tag
            self.add("OTHER", "Other", "AA04")  # only a tag
            self.add("FREE", "Free", "FF05")
            locations.create(self.box.actor, name="Dock", external_key="DOCK")
            locations.create(self.box.actor, name="Berlin's dock has another key there", external_key="DOCK-1")

    def add(self, key: str, name: str, tag: str) -> None:
        assets.create(self.box.actor, name=name, external_key=key, tags=[NewTag("rfid", tag)])

    def ask(self, body: bytes) -> Any:
        close_database()
        try:
            with self.hub.in_use():
                site = sites.find_by_join_code(hash_secret(SECRET))
                assert site
                answer = hub.preview(site, "The hub", body)
                return msgspec.json.decode(msgspec.json.encode(answer))
        finally:
            open_database(self.box.folder / FILE_NAME)

    def compare(self, seconds: float | None = None) -> preview.Preview:
        with self.box.in_use():
            return preview.compare(self.box.organization_id, self.ask, seconds)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        before = self._contents()
        yield
        assert self._contents() == before

    def _contents(self) -> list[Any]:
        tables = ("asset", "location", "tag", "site", "link", "conflict", "audit")
        return [box.rows(f"SELECT * FROM {table}") for box in (self.hub, self.box) for table in tables]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


@pytest.mark.parametrize("page", [1, 2, 500])
def test_the_preview_names_both_sides_and_changes_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(clashes, "MOST_RECORDS", page)
    with pair.unchanged():
        found = pair.compare()
    assert (found.code, found.compared, found.by_key, found.by_tag, found.agreeing) == ("HAM", 7, 4, 1, 1)
    rows = sorted((row.own.key, row.clash.by, row.clash.key, row.clash.home, row.clash.agrees) for row in found.shown)
    assert rows == [
        ("ASSET-0001", "key", "ASSET-0001", "BER", True),
        ("ASSET-0002", "key", "ASSET-0002", "BER", False),
        ("ASSET-0003", "key", "ASSET-0003", "BER", False),
        ("DOCK", "key", "HAM-DOCK", "this hub", False),
        ("OTHER", "tag", "ASSET-0004", "BER", False),
    ]
    assert "can be merged at the hub after joining" in preview.summary(found)[-1]
    stopped = pair.compare(seconds=-1)
    assert not stopped.is_all
    assert "time was up" in preview.summary(stopped)[1]


def test_clashing_keys_are_prefixed_once_even_after_a_kill(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_in_bulk, "PER_TRANSACTION", 2)
    found = pair.compare()

    def prefix() -> None:
        with pair.box.in_use():
            keys_in_bulk.prefix_keys(pair.box.actor, found.clashing, "HAM-")

    kill_at_each_commit(monkeypatch, prefix)
    prefix()
    keys = "SELECT external_key FROM {} ORDER BY 1"
    assert [key for (key,) in pair.box.rows(keys.format("asset"))] == [
        "FREE",
        "HAM-ASSET-0001",
        "HAM-ASSET-0002",
        "HAM-ASSET-0003",
        "OTHER",
    ]
    assert [key for (key,) in pair.box.rows(keys.format("location"))] == ["DOCK-1", "HAM-DOCK"]
    assert pair.box.rows("SELECT count(*) FROM audit WHERE action IN ('asset.renamed', 'location.renamed')") == [(4,)]
    again = pair.compare()
    assert (again.by_key, again.by_tag) == (0, 3)  # tags cannot be prefixed
    with pair.box.in_use():
        everything = keys_in_bulk.all_records(pair.box.organization_id)
        result = keys_in_bulk.prefix_keys(pair.box.actor, everything, "HAM-")
        assert (result.changed, result.refused) == (3, [])
        with pytest.raises(Invalid):
            keys_in_bulk.prefix_keys(pair.box.actor, everything, "")


def test_a_taken_key_is_refused_and_the_others_change(pair: Pair) -> None:
    with pair.box.in_use():
        pair.add("X-FREE", "In the way", "FF09")
        records = keys_in_bulk.all_records(pair.box.organization_id)
        result = keys_in_bulk.prefix_keys(pair.box.actor, records, "X-")
        assert (result.changed, result.refused) == (6, ["external_key X-FREE already exists"])
    assert "Not changed: 1." in preview.prefixed(result)


def test_after_joining_one_button_merges_what_agrees_and_nothing_else(pair: Pair) -> None:
    ham = SiteBox.__new__(SiteBox)
    ham.__dict__.update(pair.box.__dict__)
    ham.name, ham.hub, ham.site_no, ham.spoil = "HAM", pair.hub, pair.site.no, lambda send: send()
    with pair.hub.in_use():
        sites.join(hash_secret(SECRET), hash_secret("key"))
    ham.join()
    ham.sync()
    with pair.hub.in_use():
        assert conflicts.merge_agreeing(pair.hub.actor, pair.site.no) == 1
        left = conflicts.list_conflicts(pair.hub.organization_id).rows
    assert sorted(row.key for row in left) == ["ASSET-0002", "ASSET-0003", "DOCK", "OTHER"]


def test_a_returning_site_has_no_clashes_with_its_own_records(pair: Pair) -> None:
    pair.ber.settle()
    pair.ber.leave()
    with pair.hub.in_use():
        sites.renew_code(pair.hub.actor, pair.ber.site_no, hash_secret("back"))
        ham = sites.join(hash_secret(SECRET), hash_secret("key"))
        assert ham
        sites.renew_code(pair.hub.actor, pair.site.no, hash_secret("other"))

    def ask(body: bytes) -> Any:
        close_database()
        try:
            with pair.hub.in_use():
                site = sites.find_by_join_code(hash_secret("back"))
                assert site
                return hub.preview(site, "The hub", body)
        finally:
            open_database(pair.ber.folder / FILE_NAME)

    with pair.ber.in_use():
        found = preview.compare(pair.ber.organization_id, ask)
    assert (found.compared > 5, found.total) == (True, 0)


# A hostile box --------------------------------------------------------------------------------------------------------


def post(pair: Pair, body: bytes, code: str = SECRET) -> Any:
    app = make_app()
    with pair.hub.in_use():
        headers = {"Authorization": f"Join {code}", "User-Agent": "edge-site/0"}
        return app.test_client().post("/sync/v1/preview", data=body, headers=headers)


def page(*rows: object) -> bytes:
    return batch_format.pack(list(rows))


GOOD = (2, 7, "ASSET-0001", "Pallet", 1, [["rfid", "AA01"]])


def test_the_preview_needs_a_valid_code_which_it_does_not_use_up(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_wrong_codes", Buckets(burst=3, per_second=1e-9))
    with pair.unchanged():
        assert post(pair, page(GOOD)).json["clashes"][0][2:6] == ["key", "ASSET-0001", "Pallet ASSET-0001", "BER"]
        assert [post(pair, page(GOOD), "wrong").status_code for _ in range(5)] == [404, 404, 404, 429, 429]
        with pair.hub.in_use():
            assert sites.find_by_join_code(hash_secret(SECRET))


@pytest.mark.parametrize(
    "body",
    [
        page(*[GOOD] * 501),
        page((2, 7, "K" * 256, "Pallet", 1, [])),
        page((2, 2**70, "K", "Pallet", 1, [])),
        page((2, 7, "K", "Pallet", 1, [["rfid", "AA"]] * 101)),
        page((2, 7, "K", "Pallet", 1, [["rfid", "A" * 2000]])),
        page((2, True, "K", "Pallet", 1, [])),
        page((4, 7, "K", "Pallet", 1, [])),
        page((2, 7, "K", "Pallet", 1, "tags")),
        page((2, 7, "K", "Pallet", 1, [["rfid"]])),
        page((2, 7, None, "Pallet", 1, [])),
        page(["too short"]),
        batch_format.pack({"rows": []}),
        b"no zlib",
    ],
)
def test_an_invalid_or_huge_page_is_refused(pair: Pair, body: bytes) -> None:
    answer = post(pair, body)
    assert answer.status_code == 400, answer.text
    assert len(answer.data) < 1000


def test_floods_and_bodies_that_unpack_to_much_are_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = zlib.compress(b"[" + b"0," * 8_000_000 + b"0]", 9)
    assert len(bomb) < endpoints.MAX_PREVIEW
    assert post(pair, bomb).status_code == 413
    assert post(pair, b"x" * (endpoints.MAX_PREVIEW + 1)).status_code == 413
    monkeypatch.setattr(endpoints, "_previews", Buckets(burst=2, per_second=1e-9))
    assert [post(pair, page(GOOD)).status_code for _ in range(4)] == [200, 200, 429, 429]


@pytest.mark.parametrize(
    "rows", [[[2, 999, "key", "K", "N", "H", True]], [[2]], [5], [[2, "x", "key", "K", "N", "H", True]]]
)
def test_a_hostile_hub_gets_no_other_records_renamed(pair: Pair, rows: list[Any]) -> None:
    def ask(_: bytes) -> Any:
        return {"code": "HAM", "hub_name": "Evil", "hub_id": "x", "clashes": rows}

    with pair.box.in_use(), pytest.raises(Unreadable):
        preview.compare(pair.box.organization_id, ask)
