"""Lists: pages, sort order, filters, liveness, search (interface: Lists)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edge import clock
from edge.api.operations import OPERATIONS
from edge.database.connection import execute
from edge.validation import query
from tests.api.conftest import Api, codes, data, error

BOTH = pytest.mark.parametrize("path", ["/assets", "/locations"])
LISTS = [operation for operation in OPERATIONS if operation.query.home]
LIST = pytest.mark.parametrize("operation", LISTS, ids=lambda operation: operation.name)
OTHERS = [operation for operation in OPERATIONS if not operation.query.home and not operation.is_open]
FILTERS = sorted({name for operation in LISTS for name in operation.query.parameters} - {"limit", "offset", "sort"})


def at(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def keys(api: Api, path: str, **filters: Any) -> list[str]:
    return [row["external_key"] for row in data(api.get(path, **filters))]


def url(acme: Api, operation: Any) -> str:
    """Return the path with the id of an existing record."""
    ids = {"asset_id": acme.make("/assets")["id"], "location_id": acme.make("/locations")["id"], "tag_id": 1}
    path: str = operation.path.format(**ids)
    return path


@LIST
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("limit", "0", "too_small"),
        ("limit", "-5", "too_small"),
        ("limit", "201", "too_large"),
        ("limit", "9" * 5000, "too_large"),
        ("limit", "x", "invalid_value"),
        ("limit", "1.0", "invalid_value"),
        ("limit", "", "invalid_value"),
        ("offset", "-1", "too_small"),
        ("offset", "2147483648", "too_large"),
        ("offset", "9" * 5000, "too_large"),
        ("offset", " 1", "invalid_value"),
    ],
)
def test_paging_is_bounded(acme: Api, operation: Any, name: str, value: str, code: str) -> None:
    """interface: Conventions 3; Limit page size; Code too_large; Lists"""
    assert codes(acme.get(url(acme, operation), **{name: value})) == [(name, code)]


@LIST
def test_paging_is_echoed_and_has_its_defaults(acme: Api, operation: Any) -> None:
    """interface: Conventions 1, 3; Lists"""
    path = url(acme, operation)
    for asked, shown in (
        ({}, (50, 0)),
        ({"limit": 200, "offset": 2147483647}, (200, 2147483647)),
        ({"limit": ["007", "0"]}, (7, 0)),
    ):
        answer = acme.get(path, **asked).json or {}
        assert (answer["limit"], answer["offset"]) == shown


@LIST
def test_a_filter_of_another_list_is_an_unknown_field(acme: Api, operation: Any) -> None:
    """interface: Conventions 4; Keys and filters"""
    path = url(acme, operation)
    for name in [*FILTERS, "nope", "Limit"]:
        if name not in operation.query.parameters:
            assert codes(acme.get(path, **{name: "1"})) == [(name, "unknown_field")]


@pytest.mark.parametrize("operation", OTHERS, ids=lambda operation: operation.name)
def test_a_list_filter_elsewhere_has_the_wrong_context(acme: Api, operation: Any) -> None:
    """interface: Conventions 4; Code invalid_context, unknown_field; Lists"""
    path = url(acme, operation)
    for name in FILTERS:
        response = acme.call(operation.method, path, {}, **{name: "true"})
        assert codes(response) == [(name, "invalid_context")]
        homes = {operation.query.home for operation in LISTS if name in operation.query.parameters}
        assert all(f"GET /api/v1{home}" in error(response)["detail"] for home in homes)
    for name in ("limit", "offset", "sort", "nope"):
        assert codes(acme.call(operation.method, path, {}, **{name: "1"})) == [(name, "unknown_field")]


@pytest.mark.parametrize(
    "operation", [one for one in LISTS if "sort" in one.query.parameters], ids=lambda one: one.name
)
def test_sort_takes_only_the_fields_of_its_list(acme: Api, operation: Any) -> None:
    """interface: Conventions 3; Lists"""
    path = url(acme, operation)
    for text in ("nope", "-nope", "name,nope", "--name", "id", "Name", ","):
        response = acme.get(path, sort=text)
        assert codes(response) == [("sort", "invalid_value")]
        assert error(response)["detail"].startswith("unknown sort field: ")
    allowed = operation.query.parameters["sort"].check
    for field in ("external_key", "name", "created_at", "asset_last_seen", "event_observed_at"):
        try:
            allowed("sort", field)
        except query.Invalid:
            continue
        assert acme.get(path, sort=f"-{field},{field}").status_code == 200
    assert [acme.get(path, sort=text).status_code for text in ("", " ", " \t")] == [200] * 3


@BOTH
def test_sorting_by_each_field_in_both_directions_ends_with_the_id(acme: Api, path: str) -> None:
    """interface: Lists"""
    made = [acme.make(path, name=name, external_key=key) for name, key in (("b", "1"), ("a", "3"), ("a", "2"))]
    for field in ("external_key", "name", "created_at", "updated_at"):
        for sign in ("", "-"):
            shown = data(acme.get(path, sort=f"{sign}{field}"))
            expected = sorted(sorted(made, key=lambda row: row["id"]), key=lambda row: row[field], reverse=sign == "-")
            assert [row["id"] for row in shown] == [row["id"] for row in expected]
    assert keys(acme, path) == ["1", "2", "3"]
    assert keys(acme, path, sort="name,-external_key") == ["3", "2", "1"]
    assert keys(acme, path, sort=" name , -external_key ") == ["3", "2", "1"]
    assert keys(acme, path, sort="  ") == ["1", "2", "3"]


@BOTH
def test_tabs_and_line_breaks_in_q_are_spaces_and_ignored_at_the_ends(acme: Api, path: str) -> None:
    acme.make(path, name="Cold store", external_key="1")
    assert [keys(acme, path, q=text) for text in ("cold\tstore", "\tcold store\r\n", "\n")] == [["1"]] * 3
    assert keys(acme, path, q="store ") == []


@BOTH
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 9), sort=st.sampled_from(["name", "-created_at", "external_key", "-updated_at"]))
def test_pages_never_overlap_and_leave_nothing_out(acme: Api, path: str, limit: int, sort: str) -> None:
    """interface: Lists"""
    have = (acme.get(path).json or {})["total_count"]
    for _ in range(7 - min(7, have)):
        acme.make(path, name="same")
    total = (acme.get(path).json or {})["total_count"]
    seen: list[int] = []
    for offset in range(0, total, limit):
        seen += [row["id"] for row in data(acme.get(path, limit=limit, offset=offset, sort=sort))]
    assert len(seen) == len(set(seen)) == total == 7


@BOTH
def test_liveness_has_three_independent_axes(acme: Api, path: str) -> None:
    """interface: States 1, 2; Lists"""
    acme.make(path, external_key="active")
    acme.make(path, external_key="inactive", is_active=False)
    acme.make(path, external_key="over", valid_from=at(-2), valid_to=at(-1))
    acme.make(path, external_key="future", valid_from=at(1))
    gone = [acme.make(path, external_key="gone", valid_from=at(-2), valid_to=at(-1)), acme.make(path, is_active=False)]
    for row in gone:
        acme.delete(f"{path}/{row['id']}")
    assert keys(acme, path) == ["active", "inactive"]
    assert keys(acme, path, is_active="true") == ["active"]
    assert keys(acme, path, is_active="false") == ["inactive"]
    assert keys(acme, path, include_deleted="true") == sorted(["active", "gone", "inactive", gone[1]["external_key"]])
    assert keys(acme, path, include_deleted="true", is_active="true") == ["active", "gone"]
    assert keys(acme, path, include_deleted="false") == keys(acme, path)
    assert keys(acme, path, external_key=["over", "future", "active"]) == ["active"]
    over = data(acme.get(path, include_deleted="true"))
    assert all(row["external_key"] != "over" for row in over)


@BOTH
def test_a_window_includes_its_first_instant_and_not_its_last(
    acme: Api, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """interface: States 2; Lists"""
    begins, ends = clock.now() // 1000 * 1000 - clock.HOUR, clock.now() // 1000 * 1000 - clock.HOUR + clock.SECOND
    acme.make(path, valid_from=clock.rfc3339(begins), valid_to=clock.rfc3339(ends))
    monkeypatch.setattr(clock, "now", lambda: begins - 60 * clock.SECOND)
    acme.token = acme.exchange().json["access_token"]  # type: ignore[index]
    for moment, total in ((begins - 1, 0), (begins, 1), (ends - 1, 1), (ends, 0)):
        monkeypatch.setattr(clock, "now", lambda moment=moment: moment)
        assert (acme.get(path).json or {})["total_count"] == total


@BOTH
def test_a_record_outside_its_window_can_be_read_by_id(acme: Api, path: str) -> None:
    """interface: States 2"""
    made = acme.make(path, valid_from=at(1))
    assert data(acme.get(f"{path}/{made['id']}")) == made


@BOTH
def test_a_list_follows_the_clock(acme: Api, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """interface: States 2"""
    acme.make(path, external_key="soon", valid_from=at(1), valid_to=at(2))
    now = clock.now()
    for hours, total in ((0, 0), (1.5, 1), (2.5, 0)):
        monkeypatch.setattr(clock, "now", lambda hours=hours: now + int(hours * clock.HOUR))
        acme.token = acme.exchange().json["access_token"]  # type: ignore[index]
        answer = acme.get(path).json or {}
        assert (answer["total_count"], len(answer["data"])) == (total, total)


@BOTH
def test_keys_match_exactly_and_any_of_several(acme: Api, path: str) -> None:
    """interface: Endpoints Assets, Locations"""
    for key in ("A", "a", "B"):
        acme.make(path, external_key=key)
    assert keys(acme, path, external_key="a") == ["a"]
    assert keys(acme, path, external_key=["B", "A", "A", "C"]) == ["A", "B"]


@BOTH
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("external_key", "a b", "invalid_value"),
        ("external_key", "", "too_short"),
        ("external_key", "x" * 256, "too_long"),
        ("is_active", "1", "invalid_value"),
        ("is_active", "True", "invalid_value"),
        ("include_deleted", "", "invalid_value"),
        ("q", "a\x00b", "invalid_value"),
        ("q", "\x0b", "invalid_value"),
    ],
)
def test_a_filter_value_is_validated(acme: Api, path: str, name: str, value: str, code: str) -> None:
    """interface: Lists"""
    assert codes(acme.get(path, **{name: value})) == [(name, code)]


@BOTH
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("q=%FF", [("q", "invalid_value")]),
        ("q=a%C3", [("q", "invalid_value")]),
        ("q=%ED%A0%80", [("q", "invalid_value")]),
        ("external_key=A&external_key=%C3", [("external_key", "invalid_value")]),
        ("limit=%FF", [("limit", "invalid_value")]),
        ("%FF=1", [("\\xff", "unknown_field")]),
        ("nope=%FF", [("nope", "unknown_field")]),
    ],
)
def test_a_query_that_is_not_utf_8_is_refused(acme: Api, path: str, text: str, expected: list[tuple[str, str]]) -> None:
    """interface: Lists"""
    assert codes(acme.get(f"{path}?{text}")) == expected


@BOTH
def test_a_query_in_utf_8_is_decoded(acme: Api, path: str) -> None:
    """interface: Keys and filters"""
    acme.make(path, external_key="ODD", name="a\ufffdb %ff")
    for text in ("q=%EF%BF%BD", "q=%25ff", "q=%EF%BF%BDb+%25", "q=%25FF&q=%FF"):
        assert [row["external_key"] for row in data(acme.get(f"{path}?{text}"))] == ["ODD"], text
    assert keys(acme, path, q="%ef") == []


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("0", "too_small"),
        ("-1", "too_small"),
        ("x", "invalid_value"),
        ("1.5", "invalid_value"),
        ("9223372036854775808", "invalid_value"),
    ],
)
def test_an_id_filter_is_validated_and_may_match_nothing(acme: Api, value: str, code: str) -> None:
    """interface: Conventions 2; Ids and numbers"""
    for path, name in (("/locations", "parent_id"), ("/reports/asset-locations", "asset_id")):
        assert codes(acme.get(path, **{name: [1, value]})) == [(name, code)]
        assert data(acme.get(path, **{name: 2**63 - 1})) == []


def test_the_first_of_a_repeated_single_parameter_is_used(acme: Api) -> None:
    """interface: Lists"""
    acme.make("/assets", is_active=False)
    assert len(data(acme.get("/assets", is_active=["false", "true"]))) == 1
    assert codes(acme.get("/assets", is_active=["x", "true"])) == [("is_active", "invalid_value")]


def test_several_errors_of_a_query_are_all_reported(acme: Api) -> None:
    """interface: Errors 1"""
    response = acme.get("/assets", limit="0", is_active="x")
    assert codes(response) == [("limit", "too_small"), ("is_active", "invalid_value")]
    assert error(response)["detail"].endswith("(and 1 more validation errors)")


@pytest.mark.parametrize("damaged", ['{"a": ', "{} x", "nothing"])
def test_damaged_metadata_never_makes_a_response_that_is_not_json(acme: Api, damaged: str) -> None:
    sound, broken = acme.make("/assets", external_key="1"), acme.make("/assets", external_key="2")
    execute("UPDATE asset SET metadata = ? WHERE id = ?", (damaged, broken["id"]))
    assert keys(acme, "/assets") == ["1"]
    assert acme.get(f"/assets/{broken['id']}").status_code == 500
    assert acme.get(f"/assets/{sound['id']}").status_code == 200
