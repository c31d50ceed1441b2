"""PATCH, rename and delete of a record (interface: Transitions)."""

from __future__ import annotations

from typing import Any

import pytest

from edge import clock
from edge.database.connection import execute
from edge.records import assets
from tests.api.conftest import Api, codes, data, error

BOTH = pytest.mark.parametrize("path", ["/assets", "/locations"])
TAG = {"tag_type": "rfid", "value": "E2001"}


@pytest.fixture
def record(acme: Api, path: str) -> dict[str, Any]:
    return acme.make(path, name="before", description="text", tags=[TAG, {"tag_type": "ble", "value": "AA:BB"}])


def one(path: str, record: dict[str, Any]) -> str:
    return f"{path}/{record['id']}"


@BOTH
def test_an_absent_field_is_unchanged_and_null_clears(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Conventions 5"""
    changed = data(acme.patch(one(path, record), {"name": "after"}))
    assert changed == record | {"name": "after", "updated_at": changed["updated_at"]}
    assert data(acme.patch(one(path, record), {"description": None}))["description"] is None


@BOTH
@pytest.mark.parametrize("echo", [False, True])
def test_an_empty_body_or_a_verbatim_echo_only_advances_updated_at(
    acme: Api, path: str, record: dict[str, Any], echo: bool
) -> None:
    """interface: Conventions 5; Transitions PATCH; Write operations 3"""
    changed = data(acme.patch(one(path, record), record if echo else {}))
    assert changed["updated_at"] > record["updated_at"]
    assert changed == record | {"updated_at": changed["updated_at"]}
    assert data(acme.get(one(path, record))) == changed


def test_an_echoed_window_keeps_the_microseconds_the_wire_does_not_show(acme: Api) -> None:
    """interface: Timestamps 2; Fields"""
    made = acme.make("/assets", valid_from="2026-01-02T03:04:05.123456Z", valid_to="2036-01-02T03:04:05.123456Z")
    acme.patch(f"/assets/{made['id']}", made)
    row = assets.get(acme.organization_id, made["id"])
    assert (row.valid_from % 1_000_000, (row.valid_to or 0) % 1_000_000) == (123_456, 123_456)


@BOTH
def test_updated_at_increases_with_every_accepted_patch_only(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Transitions PATCH; Asset updated_at; Fields"""
    seen = [data(acme.patch(one(path, record), {}))["updated_at"] for _ in range(20)]
    assert seen == sorted(set(seen))
    acme.patch(one(path, record), {"name": ""})
    acme.patch(one(path, record), {"id": 1})
    assert data(acme.get(one(path, record)))["updated_at"] == seen[-1]


@BOTH
def test_a_stale_updated_at_is_refused_so_that_nothing_is_overwritten(
    acme: Api, path: str, record: dict[str, Any]
) -> None:
    """interface: Errors 5; Asset updated_at; Differing read-only fields"""
    acme.patch(one(path, record), {"name": "theirs"})
    stale = acme.patch(one(path, record), {"name": "mine", "updated_at": record["updated_at"]})
    assert codes(stale) == [("updated_at", "read_only")]
    assert data(acme.get(one(path, record)))["name"] == "theirs"


@BOTH
def test_instants_are_compared_not_their_spelling(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Timestamps 6"""
    spelled = record["created_at"].replace("Z", "000+00:00").lower()
    assert acme.patch(one(path, record), {"created_at": spelled}).status_code == 200
    other = record["created_at"].replace("Z", "001Z")
    assert codes(acme.patch(one(path, record), {"created_at": other})) == [("created_at", "read_only")]


@BOTH
@pytest.mark.parametrize("field", ["id", "created_at", "updated_at", "deleted_at"])
@pytest.mark.parametrize("value", [None, 1, True, "x", "2026-01-01T00:00:00Z", [], {}, 1.5, 10**30])
def test_a_changed_server_field_is_read_only_for_any_type(
    acme: Api, path: str, record: dict[str, Any], field: str, value: Any
) -> None:
    """interface: Differing read-only fields; Code read_only; Bodies"""
    response = acme.patch(one(path, record), {field: value})
    if value is None and field == "deleted_at":
        assert response.status_code == 200
    else:
        assert codes(response) == [(field, "read_only")]


@BOTH
def test_read_only_and_unknown_keys_are_reported_before_types(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Precedence"""
    stale = {"name": 5, "updated_at": "2026-01-01T00:00:00Z", "description": "", "zz": 1, "id": True}
    expected = [("updated_at", "read_only"), ("zz", "unknown_field"), ("id", "read_only")]
    assert codes(acme.patch(one(path, record), stale)) == expected
    assert codes(acme.patch(one(path, record), {"name": 5, "updated_at": "x"})) == [("updated_at", "read_only")]
    assert codes(acme.patch(one(path, record), {"name": "", "created_at": []})) == [("created_at", "read_only")]
    assert codes(acme.patch(one(path, record), {"external_key": "X", "id": 1})) == [("id", "read_only")]
    echo = {name: record[name] for name in ("id", "created_at", "updated_at", "deleted_at")}
    assert codes(acme.patch(one(path, record), {**echo, "name": 5})) == [("name", "invalid_value")]


@BOTH
def test_an_echoed_key_and_echoed_tags_are_compared_as_values_after_types(
    acme: Api, path: str, record: dict[str, Any]
) -> None:
    """interface: Precedence"""
    other = {"external_key": "OTHER", "tags": []}
    assert codes(acme.patch(one(path, record), {**other, "is_active": 1})) == [("is_active", "invalid_value")]
    expected = [("external_key", "invalid_context"), ("tags", "invalid_context"), ("name", "too_short")]
    assert codes(acme.patch(one(path, record), {**other, "name": ""})) == expected
    assert codes(acme.patch(one(path, record), {**other, "valid_to": record["valid_from"]})) == expected[:2]


@BOTH
def test_for_a_missing_record_errors_of_the_body_come_before_the_404(acme: Api, path: str) -> None:
    """interface: Order of answers"""
    stale = {"updated_at": "2026-01-01T00:00:00Z", "id": 7}
    assert codes(acme.patch(f"{path}/1", {**stale, "name": 5})) == [("name", "invalid_value")]
    assert codes(acme.patch(f"{path}/1", {**stale, "zz": 5})) == [("zz", "unknown_field")]
    assert acme.patch(f"{path}/1", stale).status_code == 404


@BOTH
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("OTHER", "invalid_context"),
        ("not a key", "invalid_context"),
        ("x" * 300, "invalid_context"),
        ("", "too_short"),
        (" ", "too_short"),
        (None, "invalid_value"),
        (5, "invalid_value"),
    ],
)
def test_a_key_cannot_be_patched(acme: Api, path: str, record: dict[str, Any], value: Any, code: str) -> None:
    """interface: Differing external_key; Auto-mint 4; Code invalid_context; Bodies"""
    assert codes(acme.patch(one(path, record), {"external_key": value})) == [("external_key", code)]


@BOTH
def test_tags_are_compared_as_a_set_by_id_and_content(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Differing tags; Asset tags; Bodies"""
    first, second = record["tags"]
    for same in ([second, first], [first, second, first]):
        assert acme.patch(one(path, record), {"tags": same}).status_code == 200
    for other in (
        [first],
        [],
        [first, second | {"value": "x"}],
        [first, second | {"id": 1}],
        [first, second | {"more": 1}],
        [first, TAG],
        [first, second, {"id": 1, **TAG}],
        [first, second | {"id": float(second["id"])}],
        [first, "x"],
    ):
        assert codes(acme.patch(one(path, record), {"tags": other})) == [("tags", "invalid_context")]
    for wrong in (None, {}, "x"):
        assert codes(acme.patch(one(path, record), {"tags": wrong})) == [("tags", "invalid_value")]


@BOTH
def test_a_patch_with_an_unknown_field_is_refused(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Conventions 4"""
    assert codes(acme.patch(one(path, record), {"nope": None, "name": ""})) == [("nope", "unknown_field")]


def test_metadata_is_replaced_never_merged(acme: Api) -> None:
    """interface: Asset metadata"""
    made = acme.make("/assets", metadata={"a": 1, "b": {"c": 2}})
    path = f"/assets/{made['id']}"
    assert data(acme.patch(path, {"metadata": {"b": {"d": None}}}))["metadata"] == {"b": {"d": None}}
    assert data(acme.patch(path, {"metadata": {}}))["metadata"] == {}


@BOTH
def test_a_rename_changes_the_key_and_advances_updated_at(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Transitions rename; Versioning 7"""
    response = acme.post(f"{one(path, record)}/rename", {"external_key": "NEW-1"})
    renamed = data(response)
    assert list(response.json or {}) == ["data", "descendant_count_affected"]
    assert renamed["updated_at"] > record["updated_at"]
    assert renamed == record | {"external_key": "NEW-1", "updated_at": renamed["updated_at"]}


@BOTH
def test_a_rename_to_the_same_key_changes_nothing(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Transitions rename; Write operations 1"""
    response = acme.post(f"{one(path, record)}/rename", {"external_key": record["external_key"]})
    assert (data(response), response.json["descendant_count_affected"]) == (record, 0)  # type: ignore[index]


@BOTH
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, [("external_key", "required")]),
        ({"external_key": None}, [("external_key", "invalid_value")]),
        ({"external_key": ""}, [("external_key", "too_short")]),
        ({"external_key": " "}, [("external_key", "too_short")]),
        ({"external_key": "a/b"}, [("external_key", "invalid_value")]),
        ({"external_key": "x" * 256}, [("external_key", "too_long")]),
        ({"external_key": "A", "name": "x"}, [("name", "unknown_field")]),
    ],
)
def test_a_rename_body_is_validated(
    acme: Api, path: str, record: dict[str, Any], body: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """interface: Auto-mint 4; Identifiers external_key"""
    assert codes(acme.post(f"{one(path, record)}/rename", body)) == expected


@BOTH
def test_a_live_key_conflicts_until_its_record_is_deleted(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Auto-mint 5; Write operations 1, 5; Identifiers external_key; Type conflict"""
    acme.make(path, external_key="TAKEN")
    for response in (
        acme.post(path, {"name": "x", "external_key": "TAKEN"}),
        acme.post(f"{one(path, record)}/rename", {"external_key": "TAKEN"}),
    ):
        assert (response.status_code, error(response)["type"]) == (409, "conflict")
    assert acme.post(path, {"name": "x", "external_key": "taken"}).status_code == 201, "keys are case-sensitive"
    acme.delete(one(path, data(acme.get(path, external_key="TAKEN"))[0]))
    assert data(acme.post(f"{one(path, record)}/rename", {"external_key": "TAKEN"}))["external_key"] == "TAKEN"


def test_assets_and_locations_have_separate_namespaces(acme: Api) -> None:
    """interface: Auto-mint 2, 5"""
    same = {"name": "x", "external_key": "SAME"}
    assert [acme.post(path, same).status_code for path in ("/assets", "/locations")] == [201, 201]


@BOTH
def test_a_deleted_record_disappears_with_its_tags(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Transitions delete asset, delete location; Endpoints"""
    response = acme.delete(one(path, record))
    assert (response.status_code, response.data) == (204, b"")
    for again in (
        acme.get(one(path, record)),
        acme.delete(one(path, record)),
        acme.patch(one(path, record), {}),
        acme.post(f"{one(path, record)}/rename", {"external_key": "X"}),
        acme.post(f"{one(path, record)}/tags", TAG),
        acme.delete(f"{one(path, record)}/tags/{record['tags'][0]['id']}"),
    ):
        assert (again.status_code, error(again)["type"]) == (404, "not_found")
    assert acme.make(path, external_key=record["external_key"], tags=[TAG])["tags"][0]["value"] == TAG["value"]
    (gone,) = [row for row in data(acme.get(path, include_deleted="true")) if row["deleted_at"]]
    assert (gone["id"], gone["tags"]) == (record["id"], [])
    assert gone["deleted_at"] > record["created_at"]


@BOTH
def test_the_tags_of_a_record_are_deleted_at_the_same_time(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Transitions delete asset, delete location"""
    acme.delete(one(path, record))
    (gone,) = data(acme.get(path, include_deleted="true"))
    rows = execute("SELECT deleted_at FROM tag").fetchall()
    assert [clock.rfc3339(row[0]) for row in rows] == [gone["deleted_at"]] * 2


@BOTH
def test_a_deleted_record_cannot_be_revived(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: States 3; Endpoints"""
    acme.delete(one(path, record))
    assert acme.patch(one(path, record), {"deleted_at": None}).status_code == 404
    again = acme.make(path, external_key=record["external_key"])
    assert again["id"] != record["id"]
    assert acme.get(one(path, record)).status_code == 404


def test_ids_are_unique_across_types_and_never_reused(acme: Api, rival: Api) -> None:
    """interface: Identifiers id; Limit id; Tag id"""
    seen: list[int] = []
    for api in (acme, rival):
        for path in ("/assets", "/locations", "/assets", "/locations"):
            made = api.make(path, tags=[{"tag_type": "rfid", "value": f"E{len(seen)}"}])
            seen += [made["id"], made["tags"][0]["id"]]
            acme.delete(one(path, made))
    assert len(set(seen)) == len(seen)
    assert all(1 <= number <= 2**53 - 1 for number in seen)


@BOTH
def test_an_instant_a_nanosecond_later_is_another_one(acme: Api, path: str, record: dict[str, Any]) -> None:
    """interface: Timestamps 6"""
    seen = record["updated_at"].removesuffix("Z")
    later = acme.patch(one(path, record), {"name": "mine", "updated_at": f"{seen}000001Z"})
    assert codes(later) == [("updated_at", "read_only")]
    assert acme.patch(one(path, record), {"name": "mine", "updated_at": f"{seen}000000000Z"}).status_code == 200
