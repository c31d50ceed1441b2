"""Current locations and history of assets (interface: Tracking rows; Tracking)."""

from __future__ import annotations

from typing import Any

import pytest

from edge import clock
from edge.clock import SECOND, rfc3339
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.api.conftest import Api, codes, data

START = clock.to_micros(clock.to_datetime(1_790_000_000 * SECOND))


@pytest.fixture
def dock(acme: Api) -> dict[str, Any]:
    return acme.make("/locations", name="dock")


@pytest.fixture
def aisle(acme: Api) -> dict[str, Any]:
    return acme.make("/locations", name="aisle")


@pytest.fixture
def pallet(acme: Api) -> dict[str, Any]:
    return acme.make("/assets", name="pallet")


def see(acme: Api, asset: dict[str, Any], location: dict[str, Any], second: float) -> None:
    at = START + int(second * SECOND)
    record([Scan(acme.organization_id, asset["id"], location["id"], None, None, at, at, Quality.HANDHELD)], 0)


def report(acme: Api, **filters: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = data(acme.get("/reports/asset-locations", **filters))
    return rows


def history(acme: Api, asset: dict[str, Any], **filters: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = data(acme.get(f"/assets/{asset['id']}/history", **filters))
    return rows


def test_the_report_has_one_row_for_each_scanned_asset(acme: Api, dock: Any, aisle: Any, pallet: Any) -> None:
    """interface: Service 3; Tracking rows AssetLocationItem; Tracking"""
    acme.make("/assets", name="never scanned")
    see(acme, pallet, dock, 0)
    see(acme, pallet, aisle, 60)
    see(acme, pallet, aisle, 150.5)
    assert report(acme) == [
        {
            "asset_id": pallet["id"],
            "asset_external_key": pallet["external_key"],
            "location_id": aisle["id"],
            "location_external_key": aisle["external_key"],
            "asset_deleted_at": None,
            "asset_last_seen": rfc3339(START + 150_500_000),
            "dwell_started_at": rfc3339(START + 60 * SECOND),
            "dwell_seconds": 90,
        }
    ]


def test_a_late_scan_does_not_move_the_asset(acme: Api, dock: Any, aisle: Any, pallet: Any) -> None:
    """interface: Tracking"""
    see(acme, pallet, dock, 60)
    see(acme, pallet, aisle, 0)
    assert report(acme)[0]["location_id"] == dock["id"]


def test_a_location_that_is_deleted_or_outside_its_window_shows_as_none(
    acme: Api, dock: Any, aisle: Any, pallet: Any
) -> None:
    """interface: Tracking"""
    other = acme.make("/assets")
    see(acme, pallet, dock, 0)
    see(acme, other, aisle, 0)
    acme.patch(f"/locations/{dock['id']}", {"valid_to": rfc3339(clock.now() - SECOND), "valid_from": rfc3339(1_000)})
    shown = {row["asset_id"]: row for row in report(acme)}
    assert (shown[pallet["id"]]["location_id"], shown[pallet["id"]]["location_external_key"]) == (None, None)
    assert shown[other["id"]]["location_id"] == aisle["id"]
    assert report(acme, location_id=dock["id"]) == []


def test_assets_outside_their_window_are_left_out(acme: Api, dock: Any, pallet: Any) -> None:
    """interface: States 2; Tracking"""
    see(acme, pallet, dock, 0)
    acme.patch(f"/assets/{pallet['id']}", {"valid_from": rfc3339(1_000), "valid_to": rfc3339(2_000)})
    assert report(acme) == []
    acme.delete(f"/assets/{pallet['id']}")
    assert report(acme) == []
    assert report(acme, include_deleted="true")[0]["asset_deleted_at"] is not None


def test_an_inactive_asset_stays_in_the_report(acme: Api, dock: Any, pallet: Any) -> None:
    """interface: Lists"""
    see(acme, pallet, dock, 0)
    acme.patch(f"/assets/{pallet['id']}", {"is_active": False})
    assert [row["asset_id"] for row in report(acme)] == [pallet["id"]]


def test_a_deleted_location_shows_as_none(acme: Api, dock: Any, pallet: Any) -> None:
    """interface: Tracking rows AssetLocationItem"""
    see(acme, pallet, dock, 0)
    acme.delete(f"/assets/{pallet['id']}")
    assert acme.delete(f"/locations/{dock['id']}").status_code == 204
    (row,) = report(acme, include_deleted="true")
    assert (row["location_id"], row["location_external_key"]) == (None, None)
    assert row["asset_deleted_at"] is not None


def test_the_report_can_be_narrowed_by_asset_and_location_together(acme: Api, dock: Any, aisle: Any) -> None:
    """interface: Endpoints Tracking report; Code ambiguous_fields; Lists"""
    here, there = acme.make("/assets", name="here"), acme.make("/assets", name="there")
    see(acme, here, dock, 0)
    see(acme, there, aisle, 1)

    def listed(**filters: Any) -> list[int]:
        return [row["asset_id"] for row in report(acme, **filters)]

    assert listed() == [there["id"], here["id"]], "newest first"
    assert listed(sort="asset_last_seen") == [here["id"], there["id"]]
    assert listed(sort="-asset_external_key") == [there["id"], here["id"]]
    assert listed(sort="location_external_key") == [here["id"], there["id"]]
    assert listed(location_id=dock["id"]) == [here["id"]]
    assert listed(location_external_key=[dock["external_key"], aisle["external_key"]]) == [there["id"], here["id"]]
    assert listed(asset_id=[here["id"], 1]) == [here["id"]]
    assert listed(asset_external_key=there["external_key"], location_id=dock["id"]) == []
    assert listed(q="THER") == [there["id"]]
    for pair in ("asset", "location"):
        both = acme.get("/reports/asset-locations", **{f"{pair}_id": "x", f"{pair}_external_key": "x"})
        assert codes(both) == [(f"{pair}_id", "ambiguous_fields"), (f"{pair}_external_key", "ambiguous_fields")]


def test_q_on_the_report_does_not_look_at_descriptions(acme: Api, dock: Any) -> None:
    """interface: Lists"""
    tag = {"tag_type": "rfid", "value": "E2001"}
    see(acme, acme.make("/assets", name="n", description="secret", tags=[tag]), dock, 0)
    assert [len(report(acme, q=q)) for q in ("secret", "e200", "asset-0", "se")] == [0, 1, 1, 1]


def test_history_is_newest_first_with_the_time_since_the_row_before(
    acme: Api, dock: Any, aisle: Any, pallet: Any
) -> None:
    """interface: Tracking rows AssetHistoryItem; Tracking"""
    for location, second in ((dock, 0), (aisle, 90.9), (dock, 100)):
        see(acme, pallet, location, second)
    shown = history(acme, pallet)
    assert [(row["event_observed_at"], row["location_id"], row["duration_seconds"]) for row in shown] == [
        (rfc3339(START + 100 * SECOND), dock["id"], 9),
        (rfc3339(START + 90_900_000), aisle["id"], 90),
        (rfc3339(START), dock["id"], None),
    ]
    assert history(acme, pallet, sort="event_observed_at") == shown[::-1]
    assert history(acme, pallet, sort="-event_observed_at") == shown


@pytest.mark.parametrize("sort", ["event_observed_at", "-event_observed_at"])
def test_durations_do_not_depend_on_the_page_or_the_range(
    acme: Api, dock: Any, aisle: Any, pallet: Any, sort: str
) -> None:
    """interface: Tracking"""
    for second in range(0, 90, 10):
        see(acme, pallet, (dock, aisle)[second // 10 % 2], second)
    whole = history(acme, pallet, sort=sort)
    for offset in range(9):
        assert history(acme, pallet, sort=sort, limit=2, offset=offset) == whole[offset : offset + 2]
    part = acme.get(
        f"/assets/{pallet['id']}/history",
        **{"sort": sort, "from": rfc3339(START + 20 * SECOND), "to": rfc3339(START + 40 * SECOND)},
    )
    inside = sorted(whole, key=lambda row: row["event_observed_at"])[2:5]
    assert sorted(data(part), key=lambda row: row["event_observed_at"]) == inside
    assert (part.json or {})["total_count"] == 3


def test_a_late_read_takes_its_place_and_its_neighbours_follow(acme: Api, dock: Any, aisle: Any, pallet: Any) -> None:
    """interface: Tracking"""
    see(acme, pallet, dock, 0)
    see(acme, pallet, dock, 100)
    see(acme, pallet, aisle, 40)
    assert [row["duration_seconds"] for row in history(acme, pallet)] == [60, 40, None]


def test_from_and_to_take_any_rfc_3339_time_and_nothing_else(acme: Api, dock: Any, pallet: Any) -> None:
    """interface: Timestamps 5"""
    see(acme, pallet, dock, 0)
    path = f"/assets/{pallet['id']}/history"
    for text in ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00.123456789+05:00", "1970-01-01T00:00:00Z"):
        assert len(data(acme.get(path, **{"from": text}))) == 1
    assert data(acme.get(path, **{"from": "2030-01-01T00:00:00Z", "to": "2020-01-01T00:00:00Z"})) == []
    for text in ("2020-01-01", "", "x", "2020-01-01 00:00:00Z"):
        for name in ("from", "to"):
            assert codes(acme.get(path, **{name: text})) == [(name, "invalid_value")]


def test_from_and_to_are_inclusive_as_the_wire_shows_times(acme: Api, dock: Any, aisle: Any, pallet: Any) -> None:
    """interface: Tracking"""
    see(acme, pallet, dock, 0.000_123)
    see(acme, pallet, aisle, 10.000_999)
    late, early = (row["event_observed_at"] for row in history(acme, pallet))
    for range_, shown in (
        ({"from": early, "to": late}, [late, early]),
        ({"from": early, "to": early}, [early]),
        ({"from": late}, [late]),
        ({"to": early}, [early]),
        ({"to": early.replace("Z", "000Z")}, [early]),
    ):
        assert [row["event_observed_at"] for row in history(acme, pallet, **range_)] == shown


def test_history_answers_outside_the_window_and_not_for_a_deleted_asset(acme: Api, dock: Any, pallet: Any) -> None:
    """interface: Tracking"""
    see(acme, pallet, dock, 0)
    acme.patch(f"/assets/{pallet['id']}", {"valid_from": rfc3339(1_000), "valid_to": rfc3339(2_000)})
    assert len(history(acme, pallet)) == 1
    acme.delete(f"/assets/{pallet['id']}")
    assert acme.get(f"/assets/{pallet['id']}/history").status_code == 404


def test_history_keeps_a_location_that_was_deleted_later(acme: Api, dock: Any, aisle: Any, pallet: Any) -> None:
    """interface: Tracking"""
    see(acme, pallet, dock, 0)
    see(acme, pallet, aisle, 1)
    assert acme.delete(f"/locations/{dock['id']}").status_code == 204
    assert history(acme, pallet)[1]["location_external_key"] == dock["external_key"]


def test_history_of_an_asset_never_scanned_is_empty(acme: Api, pallet: Any) -> None:
    assert acme.get(f"/assets/{pallet['id']}/history").json == {"data": [], "limit": 50, "offset": 0, "total_count": 0}


def test_a_very_long_stay_is_clamped(acme: Api, dock: Any, aisle: Any, pallet: Any) -> None:
    """interface: Limit duration_seconds; Tracking"""
    see(acme, pallet, dock, -1_780_000_000)
    see(acme, pallet, aisle, 2_000_000_000)
    assert history(acme, pallet)[0]["duration_seconds"] == 2_147_483_647
