"""A hub accepts from a site only values that its own API accepts, so a stolen box breaks no lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edge.audit import quotas
from edge.database.connection import execute
from edge.errors import Conflict, Invalid, TooLarge, Unreadable
from edge.operations.doctor import data
from edge.operations.doctor.findings import Level
from edge.records import assets, lookup
from edge.sync import batch_format
from edge.sync.store import epochs, site_lifecycle, sites
from edge.sync.store.exchange import AssetRecord, LocationRecord
from edge.sync.store.record_copies import in_order
from edge.sync.store.record_lines import checked
from edge.validation.values import MAX_INT64
from tests.api.conftest import sign_up
from tests.application import make_app
from tests.sync.world import EPOCH, Hub, SiteBox

pytestmark = pytest.mark.slow

FORGED = '{}},{"id":1,"external_key":"FORGED","metadata":{}'
GOOD = AssetRecord(5, "P-1", "Pallet", None, 1, "{}", EPOCH, None, EPOCH, EPOCH, None, [("rfid", "AA01")])
NEVER = MAX_INT64


class Stolen(SiteBox):
    """A site with arbitrary values in its database."""

    def plant(self, key: str, **values: object) -> None:
        asset_id = self.add_asset(key)
        with self.in_use():
            execute("PRAGMA ignore_check_constraints = ON")
            columns = ", ".join(f"{name} = ?" for name in values)
            execute(f"UPDATE asset SET {columns} WHERE id = ?", (*values.values(), asset_id))


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    return Hub(tmp_path / "hub", "hub")


@pytest.fixture
def stolen(tmp_path: Path, hub: Hub) -> Stolen:
    site = Stolen(tmp_path / "ber", "BER", hub)
    site.join()
    return site


def listed(box: Hub, path: str = "/assets") -> list[dict[str, Any]]:
    """Return the list as a client of the hub gets it."""
    app = make_app()
    with box.in_use():
        answer = sign_up(app.test_client(), box.organization_id).get(path)
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = (answer.json or {})["data"]
        return rows


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("created_at", NEVER), ("updated_at", -NEVER), ("valid_from", NEVER), ("deleted_at", NEVER)),
        *(("metadata", FORGED), ("metadata", "[]"), ("metadata", "NaN"), ("metadata", '{"a": 1e999}')),
        *(("name", "a\nb"), ("name", "x" * 256), ("description", "\x00"), ("external_key", "a b")),
        *(("external_key", "K" * 300), ("is_active", 7)),
    ],
)
def test_a_record_that_no_api_could_create_is_set_aside_with_the_reason(
    hub: Hub, stolen: Stolen, column: str, value: object
) -> None:
    """Regression: a created_at of 2^63-1 broke the lists of the hub and all sites, and metadata forged rows in them."""
    stolen.plant("BAD", **{column: value})
    stolen.add_asset("GOOD")
    stolen.sync()
    assert [row["external_key"] for row in listed(hub)] == ["GOOD"]
    [(what, reason)] = hub.rows("SELECT what, reason FROM set_aside")
    assert what.startswith("asset ")
    assert len(what) + len(reason) < 2000
    assert column in reason


def test_a_hub_cannot_break_its_sites_either(tmp_path: Path, hub: Hub, stolen: Stolen) -> None:
    with hub.in_use():
        bad = assets.create(hub.actor, name="Bad", external_key="BAD").id
        assets.create(hub.actor, name="Good", external_key="GOOD")
        execute("UPDATE asset SET metadata = ? WHERE id = ?", (FORGED, bad))
    stolen.sync()
    stolen.fetch()
    assert stolen.rows("SELECT external_key FROM asset") == [("GOOD",)]
    assert [what for (what,) in stolen.rows("SELECT what FROM set_aside")] == ["asset BAD"]


@pytest.mark.parametrize("column", ["last_seen_at", "dwell_started_at", "row_at"])
def test_a_position_at_a_time_without_a_calendar_is_set_aside(hub: Hub, stolen: Stolen, column: str) -> None:
    stolen.scan(stolen.add_asset("P-1"), 0, EPOCH)
    with stolen.in_use():
        execute(f"UPDATE track SET {column} = ?", (NEVER,))
    stolen.scan(stolen.add_asset("P-2"), 0, EPOCH)
    stolen.sync()
    assert [row["asset_external_key"] for row in listed(hub, "/reports/asset-locations")] == ["P-2"]
    assert {row["external_key"] for row in listed(hub)} == {"P-1", "P-2"}
    assert [what for (what,) in hub.rows("SELECT what FROM set_aside")] == ["position 1"]


@pytest.mark.parametrize(("column", "value"), [("seen_for", NEVER), ("rule", 99), ("quality", -1), ("seq", -5)])
def test_a_stay_that_no_box_records_is_set_aside(hub: Hub, stolen: Stolen, column: str, value: int) -> None:
    stolen.scan(stolen.add_asset("P-1"), 0, EPOCH)
    with stolen.in_use():
        execute("PRAGMA ignore_check_constraints = ON")
        execute(f"UPDATE history SET {column} = ?", (value,))
    stolen.scan(stolen.add_asset("P-2"), 0, EPOCH)
    stolen.sync()
    assert [row["asset_external_key"] for row in listed(hub, "/reports/asset-locations")] == ["P-2"]


def test_a_site_cannot_create_a_cycle_of_locations(hub: Hub, stolen: Stolen) -> None:
    """Regression: lists of ancestors and descendants answered 500, and the branch disappeared from all pages."""
    stolen.sync()
    with stolen.in_use():
        execute("UPDATE location SET parent_id = ? WHERE id = ?", (stolen.docks[0], stolen.yard))
    stolen.add_asset("GOOD")
    stolen.sync()
    [(yard,)] = hub.rows("SELECT id FROM location WHERE external_key = 'BER-YARD'")
    below = [row["external_key"] for row in listed(hub, f"/locations/{yard}/descendants")]
    assert below == ["BER-DOCK-1", "BER-DOCK-2"]  # DOCK-0 is at the root of the site until the site moves it
    above = [row["external_key"] for row in listed(hub, f"/locations/{yard}/ancestors")]
    assert sorted(above) == ["BER", "BER-DOCK-0"]
    assert [row["external_key"] for row in listed(hub)] == ["GOOD"]
    assert hub.rows("SELECT what FROM set_aside") == []


def test_two_locations_may_swap_their_places(hub: Hub, stolen: Stolen) -> None:
    stolen.sync()
    with stolen.in_use():
        execute("UPDATE location SET parent_id = NULL WHERE id = ?", (stolen.docks[0],))
        execute("UPDATE location SET parent_id = ? WHERE id = ?", (stolen.docks[0], stolen.yard))
    stolen.sync()
    assert hub.rows("SELECT what, reason FROM set_aside") == []
    [(dock,)] = hub.rows("SELECT id FROM location WHERE external_key = 'BER-DOCK-0'")
    assert len(listed(hub, f"/locations/{dock}/descendants")) == 3


def test_parents_come_first_however_long_their_chain_is() -> None:
    """Regression: 30,000 in one batch took a minute, in which nobody else could write."""
    chain = [LocationRecord(n, n + 1, f"K-{n}", "Name", None, 1, 0, None, 0, 0, None, []) for n in range(30_000)]
    assert [record.ref for record in in_order(chain)] == list(range(29_999, -1, -1))
    circle = [chain[5]._replace(parent=6), chain[6]._replace(parent=5), chain[9]._replace(parent=5)]
    assert sorted(record.ref for record in in_order(circle)) == [5, 6, 9]


def greeting(epoch: str, former: list[str], **changed: object) -> bytes:
    return batch_format.pack(
        {"versions": [1], "instance": "i", "cursor": [epoch, 0, ""], "former": former, "report": {}, **changed}
    )


@pytest.mark.parametrize(
    "changed",
    [{"instance": "x" * 65}, {"box": "x" * 65}, {"cursor": ["x" * 65, 0, ""]}, {"cursor": ["e", 0, "00" * 33]}],
)
def test_names_in_a_greeting_are_short(hub: Hub, stolen: Stolen, changed: dict[str, object]) -> None:
    """Regression: each greeting could store megabytes in the hub's database."""
    with pytest.raises(Unreadable):
        hub.answer(stolen.site_no, "hello", greeting("e", [], **changed))


def test_a_site_restarts_sync_a_thousand_times(hub: Hub, stolen: Stolen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "MOST_RETIRED", 3)
    names = [f"e{n}" for n in range(5)]
    for number, epoch in enumerate(names[:4]):
        hub.answer(stolen.site_no, "hello", greeting(epoch, names[:number]))
    with pytest.raises(Conflict, match="was replaced 3 times"):
        hub.answer(stolen.site_no, "hello", greeting(names[4], names))
    hub.answer(stolen.site_no, "hello", greeting(names[3], names))


def test_a_batch_has_a_bound_for_its_records(hub: Hub, stolen: Stolen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_format, "MOST_RECORDS", 3)
    with pytest.raises(TooLarge):
        hub.answer(stolen.site_no, "changes", batch_format.pack({"v": 1, "assets": [[]] * 2, "locations": [[]] * 2}))


def test_names_from_a_site_are_one_line_of_normal_length() -> None:
    assert batch_format.short_name("a\nb\u202e" + "x" * 1000) == "a b " + "x" * 251


def test_a_report_has_few_numbers() -> None:
    assert batch_format.checked_report({"waiting": 3}) == {"waiting": 3}
    for hostile in ({str(number): 1 for number in range(51)}, {"a": []}, [], {"a": 2**70}):
        with pytest.raises((TypeError, ValueError, AttributeError)):
            batch_format.checked_report(hostile)


def test_a_good_record_passes_unchanged() -> None:
    assert checked(GOOD, "P-1") == GOOD


@pytest.mark.parametrize("tag", [("rfid", ""), ("smell", "AA"), ("rfid", "x" * 256), ("ble", "a\x07b")])
def test_a_tag_that_no_api_could_attach_is_a_fault(tag: tuple[str, str]) -> None:
    with pytest.raises(Invalid):
        checked(GOOD._replace(tags=[tag]), "P-1")


def test_a_record_with_thousands_of_tags_is_rejected() -> None:
    with pytest.raises(Invalid, match="at most 500 tags"):
        checked(GOOD._replace(tags=[("barcode", f"A{number}") for number in range(501)]), "P-1")


def test_an_older_record_keeps_its_many_tags() -> None:
    many = GOOD._replace(tags=[("barcode", f"A{number}") for number in range(600)])
    assert checked(many, "P-1", tags_here=600) == many
    with pytest.raises(Invalid):
        checked(many, "P-1", tags_here=599)


def test_a_corrupt_row_is_left_out_of_a_list_and_reported_by_the_doctor(hub: Hub) -> None:
    """The row comes from a version that did not validate records of sites."""
    with hub.in_use():
        bad = assets.create(hub.actor, name="Bad", external_key="BAD").id
        assets.create(hub.actor, name="Good", external_key="GOOD")
        execute("UPDATE asset SET created_at = ? WHERE id = ?", (NEVER, bad))
        finding = data.records(None)  # type: ignore[arg-type]
    assert [row["external_key"] for row in listed(hub)] == ["GOOD"]
    assert finding.level is Level.PROBLEM
    assert "asset BAD" in finding.text


def test_records_of_a_site_above_the_limit_are_set_aside(hub: Hub, stolen: Stolen) -> None:
    quotas.set_limits({"asset": 2})
    try:
        for number in range(4):
            stolen.add_asset(f"P-{number}")
        stolen.sync()
    finally:
        quotas.set_limits({"asset": 1_000_000})
    assert len(listed(hub)) == 2
    with hub.in_use():
        reasons = {reason for (reason,) in execute("SELECT reason FROM set_aside").fetchall()}
    assert reasons == {"At most 2 are allowed (asset); delete some first, or raise limits.assets"}


def test_records_of_a_removed_site_can_be_retired(hub: Hub, stolen: Stolen) -> None:
    stolen.add_asset("P-1")
    stolen.sync()
    with hub.in_use():
        site = sites.find_by_code(hub.organization_id, "BER")
        site_lifecycle.remove(hub.actor, site.no)
        asset = lookup.asset_by_key(hub.organization_id, "P-1")
        assert asset
        assets.delete(hub.actor, asset.id)
    assert listed(hub) == []
