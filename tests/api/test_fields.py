"""Fields of create and patch bodies, with their bounds and error codes (interface: Fields)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.conftest import Api, codes, data, error

BOTH = pytest.mark.parametrize("path", ["/assets", "/locations"])
STAMP = "2026-03-02T08:15:30.412Z"

BAD = [
    ("name", None, "invalid_value"),
    ("name", 1, "invalid_value"),
    ("name", True, "invalid_value"),
    ("name", [], "invalid_value"),
    ("name", "", "too_short"),
    ("name", " x", "invalid_value"),
    ("name", "x ", "invalid_value"),
    ("name", "x\u00a0", "invalid_value"),
    ("name", "\u2003x", "invalid_value"),
    ("name", "\u0085x", "invalid_value"),
    ("name", " ", "invalid_value"),
    ("name", "a\tb", "invalid_value"),
    ("name", "a\nb", "invalid_value"),
    ("name", "a\x00b", "invalid_value"),
    ("name", "a\x7fb", "invalid_value"),
    ("name", "x" * 256, "too_long"),
    ("name", "\ud800", "invalid_value"),
    ("description", "", "too_short"),
    ("description", 1, "invalid_value"),
    ("description", "a\x0bb", "invalid_value"),
    ("description", "a\x7fb", "invalid_value"),
    ("description", "x" * 1025, "too_long"),
    ("is_active", None, "invalid_value"),
    ("is_active", 1, "invalid_value"),
    ("is_active", "true", "invalid_value"),
    ("valid_from", None, "invalid_value"),
    ("valid_from", 5, "invalid_value"),
    ("valid_from", "", "invalid_value"),
    ("valid_from", "2026-03-02", "invalid_value"),
    ("valid_from", "2026/03/02", "invalid_value"),
    ("valid_from", "2026-03-02 08:15:30Z", "invalid_value"),
    ("valid_from", "2026-03-02T08:15:30", "invalid_value"),
    ("valid_from", "2026-02-30T08:15:30Z", "invalid_value"),
    ("valid_from", "2026-03-02T24:00:00Z", "invalid_value"),
    ("valid_from", "2026-03-02T08:15:61Z", "invalid_value"),
    ("valid_from", "2026-03-02T08:15:30+24:00", "invalid_value"),
    ("valid_from", "2026-03-02T08:15:30.Z", "invalid_value"),
    ("valid_from", "9999-12-31T23:59:59-01:00", "invalid_value"),
    ("valid_from", "0000-12-31T23:59:59Z", "invalid_value"),
    ("valid_from", "0001-01-01T00:00:00Z", "invalid_value"),
    ("valid_from", "0000-12-31T23:00:00-01:00", "invalid_value"),
    ("valid_from", "1970-01-01T00:00:00Z", "invalid_value"),
    ("valid_from", "1970-01-01T02:00:00.000999+02:00", "invalid_value"),
    ("valid_to", "1970-01-01T00:00:00Z", "invalid_value"),
    ("valid_to", "x", "invalid_value"),
    ("valid_to", False, "invalid_value"),
]
CREATE_ONLY = [
    ("external_key", None, "invalid_value"),
    ("external_key", "", "too_short"),
    ("external_key", " \t", "too_short"),
    ("external_key", "\u2003", "too_short"),
    ("external_key", "a b", "invalid_value"),
    ("external_key", "a_b", "invalid_value"),
    ("external_key", "a.b", "invalid_value"),
    ("external_key", "ä", "invalid_value"),
    ("external_key", "a\n", "invalid_value"),
    ("external_key", "x" * 256, "too_long"),
    ("external_key", "_" * 256, "too_long"),
    ("external_key", 7, "invalid_value"),
    ("id", None, "read_only"),
    ("created_at", STAMP, "read_only"),
    ("updated_at", 1, "read_only"),
    ("deleted_at", None, "read_only"),
    ("tags", {}, "invalid_value"),
    ("tags", "x", "invalid_value"),
    ("nope", 1, "unknown_field"),
    ("Name", "x", "unknown_field"),
]


@BOTH
@pytest.mark.parametrize(("field", "value", "code"), BAD + CREATE_ONLY)
def test_a_create_with_a_bad_field_is_refused(acme: Api, path: str, field: str, value: Any, code: str) -> None:
    """interface: Asset name, description, is_active, valid_from, valid_to; Identifiers external_key;
    Auto-mint 4; Timestamps 3, 4; Errors 4;
    Code invalid_value, too_short, too_long, read_only, unknown_field; Fields
    """
    assert codes(acme.post(path, {"name": "x"} | {field: value})) == [(field, code)]


@BOTH
@pytest.mark.parametrize(("field", "value", "code"), BAD)
def test_a_patch_with_a_bad_field_is_refused_and_changes_nothing(
    acme: Api, path: str, field: str, value: Any, code: str
) -> None:
    """interface: Asset name, description, is_active, valid_from, valid_to; Conventions 5; Errors 4"""
    record = acme.make(path)
    assert codes(acme.patch(f"{path}/{record['id']}", {field: value})) == [(field, code)]
    assert data(acme.get(f"{path}/{record['id']}")) == record


@BOTH
@pytest.mark.parametrize(
    "body",
    [
        {"name": "x"},
        {"name": "a b"},
        {"name": "x" * 255},
        {"name": "\U0001f4e6" * 255},
        {"name": "\ufeffx\u200b"},
        {"name": "x", "description": None},
        {"name": "x", "description": " two\r\n\tlines "},
        {"name": "x", "description": "y" * 1024},
        {"name": "x", "is_active": False},
        {"name": "x", "external_key": "x" * 255},
        {"name": "x", "external_key": "-"},
        {"name": "x", "tags": None},
        {"name": "x", "tags": []},
        {"name": "x", "valid_to": None},
        {"name": "x", "valid_from": "0001-01-01T00:00:00.001Z"},
        {"name": "x", "valid_from": "1969-12-31T23:59:59.999999999Z"},
        {"name": "x", "valid_from": "1970-01-01t00:00:00.001z"},
        {"name": "x", "valid_to": "9999-12-31T23:59:60Z"},
    ],
)
def test_a_create_within_the_bounds_is_accepted_and_echoed(acme: Api, path: str, body: dict[str, Any]) -> None:
    """interface: Asset name, description, is_active, external_key; Timestamps 4; Limit external_key"""
    made = acme.make(path, **body)
    for field in set(body) - {"tags", "valid_from", "valid_to"}:
        assert made[field] == body[field]
    assert data(acme.get(f"{path}/{made['id']}")) == made


@BOTH
def test_defaults_of_a_create(acme: Api, path: str) -> None:
    """interface: Asset valid_from, valid_to, deleted_at; Transitions create; Fields"""
    made = acme.make(path)
    expected = {"description": None, "is_active": True, "valid_to": None, "deleted_at": None, "tags": []}
    assert expected.items() <= made.items()
    assert made["valid_from"] == made["created_at"] == made["updated_at"]
    assert made.get("metadata", {}) == {}


@BOTH
def test_a_create_answers_201_with_its_address(acme: Api, path: str) -> None:
    """interface: Endpoints"""
    response = acme.post(path, {"name": "x"})
    assert response.headers["Location"] == f"/api/v1{path}/{data(response)['id']}"


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("2026-03-02T08:15:30Z", "2026-03-02T08:15:30.000Z"),
        ("2026-03-02T08:15:30.1Z", "2026-03-02T08:15:30.100Z"),
        ("2026-03-02T08:15:30.999999999Z", "2026-03-02T08:15:30.999Z"),
        ("2026-03-02T08:15:30.412+05:30", "2026-03-02T02:45:30.412Z"),
        ("2026-03-02t08:15:30z", "2026-03-02T08:15:30.000Z"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999Z"),
        ("2026-03-02T08:15:60.5+01:00", "2026-03-02T07:15:59.999Z"),
        ("0000-12-31T23:30:00-02:00", "0001-01-01T01:30:00.000Z"),
        ("0999-01-01T00:00:00Z", "0999-01-01T00:00:00.000Z"),
        ("1969-12-31T23:59:59.9996Z", "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_timestamp_comes_back_in_utc_with_three_digits(acme: Api, sent: str, shown: str) -> None:
    """interface: Timestamps 1, 2; Timestamps"""
    assert acme.make("/assets", valid_from=sent)["valid_from"] == shown


def test_a_wrong_timestamp_has_the_fixed_message(acme: Api) -> None:
    """interface: Timestamps 3; Timestamps"""
    for field in ("valid_from", "valid_to"):
        fault = error(acme.post("/assets", {"name": "x", field: "2026-03-02"}))["fields"][0]
        assert fault["message"] == f"{field} must be an RFC 3339 timestamp"


def test_a_zero_time_gets_advice(acme: Api) -> None:
    """interface: Timestamps 4; Errors 3"""
    zero = "0001-01-01T00:00:00Z"
    assert "null" in error(acme.post("/assets", {"name": "x", "valid_to": zero}))["detail"]
    assert "omit" in error(acme.post("/assets", {"name": "x", "valid_from": zero}))["detail"]
    path = f"/assets/{acme.make('/assets')['id']}"
    assert "unchanged" in error(acme.patch(path, {"valid_from": zero}))["detail"]


@BOTH
def test_a_window_must_end_after_it_begins(acme: Api, path: str) -> None:
    """interface: Fields"""
    window = {"valid_from": "2026-01-02T00:00:00Z", "valid_to": "2026-01-02T00:00:00Z"}
    assert codes(acme.post(path, {"name": "x", **window})) == [("valid_to", "invalid_value")]
    assert codes(acme.post(path, {"name": "x", "valid_to": "2001-01-01T00:00:00Z"})) == [("valid_to", "invalid_value")]
    made = acme.make(path, valid_from="2026-01-02T00:00:00Z", valid_to="2027-01-02T00:00:00Z")
    for change in ({"valid_to": "2025-01-01T00:00:00Z"}, {"valid_from": "2028-01-01T00:00:00Z"}):
        assert codes(acme.patch(f"{path}/{made['id']}", change)) == [("valid_to", "invalid_value")]


def test_a_wrong_type_names_both_types(acme: Api) -> None:
    """interface: Errors 1"""
    names = {"boolean": True, "number": 1.5, "array": [], "object": {}, "null": None}
    for name, value in names.items():
        fault = error(acme.post("/assets", {"name": value}))["fields"][0]
        assert fault["params"] == {"expected_type": "string", "received_type": name}


@pytest.mark.parametrize("text", ["1.5", "1.0", "1e2", '"1"', "true"])
def test_only_an_integer_literal_is_an_integer(acme: Api, text: str) -> None:
    """interface: Errors 1; Fields"""
    response = acme.call("POST", "/locations", raw=b'{"name":"x","parent_id":' + text.encode() + b"}")
    assert codes(response) == [("parent_id", "invalid_value")]
    assert error(response)["fields"][0]["params"]["expected_type"] == "number"
    expected = "an integer" if text[0].isdigit() else "of type number, not "
    assert error(response)["detail"].startswith(f"parent_id must be {expected}")


def test_the_constraint_is_in_params(acme: Api) -> None:
    """interface: Tag tag_type; Fields"""

    def params(**body: Any) -> Any:
        return error(acme.post("/assets", {"name": "x"} | body))["fields"][0]["params"]

    assert params(name="") == {"min_length": 1}
    assert params(name="x" * 256) == {"max_length": 255}
    assert params(external_key="a b") == {"pattern": "^[A-Za-z0-9-]+$"}
    assert params(tags=[{"tag_type": "nfc", "value": "x"}]) == {"allowed_values": ["rfid", "ble", "barcode"]}
    assert params(description="x" * 1025) == {"max_length": 1024}
    assert params(metadata={"a": "x" * 65_536}) == {"max_length": 65_536}
    assert params(tags=[{"tag_type": "rfid", "value": ""}]) == {"min_length": 1}
    for query, bound in (({"limit": 0}, {"min": 1}), ({"limit": 201}, {"max": 200}), ({"offset": -1}, {"min": 0})):
        assert error(acme.get("/assets", **query))["fields"][0]["params"] == bound
    assert error(acme.get("/assets/0"))["fields"][0]["params"] == {"min": 1}
    assert error(acme.get("/assets", is_active="x"))["fields"][0]["params"] == {"allowed_values": ["true", "false"]}


def test_unknown_and_read_only_keys_are_reported_in_the_order_of_the_body(acme: Api) -> None:
    """interface: Conventions 4; Errors 1; Envelope detail; Precedence"""
    response = acme.post("/assets", {"zz": 1, "name": 5, "id": 1, "aa": 2, "location_id": None})
    assert codes(response) == [
        ("zz", "unknown_field"),
        ("id", "read_only"),
        ("aa", "unknown_field"),
        ("location_id", "read_only"),
    ]
    assert error(response)["detail"].endswith("(and 3 more validation errors)")
    two = acme.post("/assets", {"zz": 1, "aa": 2})
    assert error(two)["detail"] == "zz is not a field of this request (and 1 more validation errors)"
    assert error(two)["fields"][0]["message"] == "zz is not a field of this request"


def test_types_are_checked_before_values_and_values_before_conflicts(acme: Api) -> None:
    """interface: Errors 2; Code required; Precedence"""
    acme.make("/assets", external_key="K")
    assert codes(acme.post("/assets", {"name": "", "is_active": 1})) == [("is_active", "invalid_value")]
    assert codes(acme.post("/assets", {"name": "", "external_key": "K"})) == [("name", "too_short")]
    assert codes(acme.post("/locations", {"parent_id": 1})) == [("name", "required")]
    assert acme.post("/assets", {"name": "x", "external_key": "K"}).status_code == 409


def test_a_field_of_the_other_resource_is_unknown_except_location(acme: Api) -> None:
    """interface: Differing asset location; Bodies"""
    assert codes(acme.post("/locations", {"name": "x", "metadata": {}})) == [("metadata", "unknown_field")]
    assert codes(acme.post("/locations", {"name": "x", "location_id": 1})) == [("location_id", "unknown_field")]
    assert codes(acme.post("/assets", {"name": "x", "parent_id": 1})) == [("parent_id", "unknown_field")]
    made = acme.make("/assets")
    place = {"location_id": None, "location_external_key": "x"}
    expected = [("location_id", "read_only"), ("location_external_key", "read_only")]
    assert codes(acme.post("/assets", {"name": "x"} | place)) == expected
    assert codes(acme.patch(f"/assets/{made['id']}", place)) == expected
    assert codes(acme.post(f"/assets/{made['id']}/rename", {"external_key": "B"} | place)) == expected
    room = acme.make("/locations")
    unknown = [(field, "unknown_field") for field in place]
    assert codes(acme.post(f"/locations/{room['id']}/rename", {"external_key": "B"} | place)) == unknown


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ([{"tag_type": "rfid"}], [("tags[0].value", "required")]),
        ([{"value": "x"}], [("tags[0].tag_type", "required")]),
        ([{}], [("tags[0].tag_type", "required"), ("tags[0].value", "required")]),
        ([{"tag_type": None, "value": "x"}], [("tags[0].tag_type", "invalid_value")]),
        ([{"tag_type": "", "value": "x"}], [("tags[0].tag_type", "invalid_value")]),
        ([{"tag_type": "rfid", "value": ""}], [("tags[0].value", "too_short")]),
        ([{"tag_type": "rfid", "value": "a"}, {"tag_type": "x", "value": 1}], [("tags[1].value", "invalid_value")]),
        ([{"tag_type": "rfid", "value": "x" * 256}], [("tags[0].value", "too_long")]),
        ([{"tag_type": "rfid", "value": "a\x00"}], [("tags[0].value", "invalid_value")]),
        ([{"tag_type": "rfid", "value": "\ud800"}], [("tags[0].value", "invalid_value")]),
        ([{"tag_type": "rfid", "value": "a", "id": 1}], [("tags[0].id", "read_only")]),
        ([{"tag_type": "rfid", "value": "a", "x": 1}], [("tags[0].x", "unknown_field")]),
        (["x"], [("tags[0]", "invalid_value")]),
        ([None], [("tags[0]", "invalid_value")]),
    ],
)
@BOTH
def test_errors_of_a_tag_are_reported_under_its_index(
    acme: Api, path: str, tags: list[Any], expected: list[tuple[str, str]]
) -> None:
    """interface: Code required; Fields"""
    assert codes(acme.post(path, {"name": "x", "tags": tags})) == expected
