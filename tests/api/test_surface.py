"""The tables of the specification, repeated here: exactly these operations are served (interface: Versioning 2)."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from edge.api.operations import OPERATIONS
from edge.api.schemas import FIELD_CODES
from edge.database.connection import execute
from tests.api.conftest import Api, data, error

# method, path, scope, status, parameters of a GET or keys of the body
WRITABLE = "name description is_active valid_from valid_to"
ACCESS = [
    ("POST", "/oauth/token", None, 200, "grant_type client_id client_secret refresh_token"),
    ("GET", "/orgs/me", None, 200, ""),
]
ASSETS = [
    ("GET", "/assets", "assets:read", 200, "external_key include_deleted is_active q limit offset sort"),
    ("POST", "/assets", "assets:write", 201, f"{WRITABLE} external_key metadata tags"),
    ("GET", "/assets/{asset_id}", "assets:read", 200, ""),
    ("PATCH", "/assets/{asset_id}", "assets:write", 200, f"{WRITABLE} metadata"),
    ("DELETE", "/assets/{asset_id}", "assets:write", 204, ""),
    ("POST", "/assets/{asset_id}/rename", "assets:write", 200, "external_key"),
    ("POST", "/assets/{asset_id}/tags", "assets:write", 201, "tag_type value"),
    ("DELETE", "/assets/{asset_id}/tags/{tag_id}", "assets:write", 204, ""),
    ("GET", "/assets/{asset_id}/history", "tracking:read", 200, "from to limit offset sort"),
]
PARENT = "parent_id parent_external_key"
LOCATIONS = [
    (
        *("GET", "/locations", "locations:read", 200),
        f"external_key {PARENT} include_deleted is_active q limit offset sort",
    ),
    ("POST", "/locations", "locations:write", 201, f"{WRITABLE} external_key {PARENT} tags"),
    ("GET", "/locations/{location_id}", "locations:read", 200, ""),
    ("PATCH", "/locations/{location_id}", "locations:write", 200, f"{WRITABLE} {PARENT}"),
    ("DELETE", "/locations/{location_id}", "locations:write", 204, ""),
    ("POST", "/locations/{location_id}/rename", "locations:write", 200, "external_key"),
    ("GET", "/locations/{location_id}/ancestors", "locations:read", 200, "limit offset"),
    ("GET", "/locations/{location_id}/children", "locations:read", 200, "limit offset"),
    ("GET", "/locations/{location_id}/descendants", "locations:read", 200, "limit offset"),
    ("POST", "/locations/{location_id}/tags", "locations:write", 201, "tag_type value"),
    ("DELETE", "/locations/{location_id}/tags/{tag_id}", "locations:write", 204, ""),
]
REPORT = [
    (
        *("GET", "/reports/asset-locations", "tracking:read", 200),
        "location_id location_external_key asset_id asset_external_key include_deleted q limit offset sort",
    ),
]
TAG_FIELDS = ["id", "tag_type", "value"]
ASSET_FIELDS = {
    *("id", "external_key", "name", "description", "is_active", "metadata", "valid_from", "valid_to"),
    *("created_at", "updated_at", "deleted_at", "tags"),
}
LOCATION_FIELDS = ASSET_FIELDS - {"metadata"} | {"parent_id", "parent_external_key"}


def served() -> dict[tuple[str, str], tuple[Any, ...]]:
    operations = {}
    for operation in OPERATIONS:
        fields = [name for name, field in operation.body.fields.items() if not field.compare] if operation.body else []
        operations[operation.method, operation.path] = (
            operation.scope,
            operation.status,
            {*fields, *operation.query.parameters},
        )
    return operations


@pytest.mark.parametrize("table", [ACCESS, ASSETS, LOCATIONS, REPORT], ids=["access", "assets", "locations", "report"])
def test_operations_are_those_in_the_table_of_the_specification(table: list[tuple[Any, ...]]) -> None:
    """interface: Endpoints Authentication, Assets, Locations, Tracking report; Versioning 2"""
    for method, path, scope, status, takes in table:
        assert served()[method, path] == (scope, status, set(takes.split())), f"{method} {path}"


def test_no_other_routes_are_served_outside_v1(app: Flask) -> None:
    """interface: Service 1; Versioning 1"""
    described = {(method, path) for method, path, *_ in (*ACCESS, *ASSETS, *LOCATIONS, *REPORT)}
    assert served().keys() == described
    rules = {rule.rule for rule in app.url_map.iter_rules() if rule.rule.startswith("/api/")}
    assert {rule for rule in rules if not rule.startswith("/api/v1/")} == {
        *("/api/openapi.json", "/api/openapi.yaml", "/api/docs"),
    }


def test_no_operation_makes_scans_or_keys() -> None:
    """interface: Service 3, 4; Authentication 1"""
    assert {one.method for one in OPERATIONS if one.tag == "Tracking"} == {"GET"}
    assert not [one.path for one in OPERATIONS if "key" in one.path or "scan" in one.path or "event" in one.path]


@pytest.mark.parametrize(("path", "fields"), [("/assets", ASSET_FIELDS), ("/locations", LOCATION_FIELDS)])
def test_a_record_always_shows_all_its_fields_and_no_other(acme: Api, path: str, fields: set[str]) -> None:
    """interface: Asset id, created_at, updated_at, deleted_at; Service 2"""
    made = acme.make(path, tags=[{"tag_type": "rfid", "value": "E2"}])
    one = f"{path}/{made['id']}"
    patched, renamed = data(acme.patch(one, {})), data(acme.post(f"{one}/rename", {"external_key": "NEW"}))
    read, (listed,) = data(acme.get(one)), data(acme.get(path))
    acme.delete(one)
    (deleted,) = data(acme.get(path, include_deleted="true"))
    for shown in (made, patched, renamed, read, listed, deleted):
        assert set(shown) == fields
        assert shown["id"] == made["id"]
    assert list(made["tags"][0]) == TAG_FIELDS


def test_an_unknown_tag_type_is_shown_unchanged(app: Flask, acme: Api) -> None:
    """interface: Tag tag_type"""
    made = acme.make("/assets", tags=[{"tag_type": "rfid", "value": "E2"}])
    execute("UPDATE tag SET tag_type = 'uwb'")
    headers = {"User-Agent": "x/1", "Authorization": f"Bearer {acme.token}"}
    shown = app.test_client().get(f"/api/v1/assets/{made['id']}", headers=headers).json
    assert (shown or {})["data"]["tags"][0]["tag_type"] == "uwb"


def test_the_envelope_has_six_fields_and_faults_only_on_validation(acme: Api) -> None:
    """interface: Envelope type, title, status, detail, instance, request_id, fields; Type validation_error"""
    six = ["type", "title", "status", "detail", "instance", "request_id"]
    for response, more in (
        (acme.get("/assets/1"), []),
        (acme.get("/nope"), []),
        (acme.call("PUT", "/assets"), []),
        (acme.call("GET", "/assets", headers={"Authorization": ""}), []),
        (acme.call("POST", "/assets", raw=b"["), []),
        (acme.get("/assets/0"), ["fields"]),
        (acme.post("/assets", {}), ["fields"]),
    ):
        assert list(response.json or {}) == ["error"]
        assert list(error(response)) == six + more


def test_the_codes_are_those_of_the_specification() -> None:
    """interface: Fields"""
    assert sorted(FIELD_CODES) == [
        *("ambiguous_fields", "fk_not_found", "invalid_context", "invalid_value", "read_only", "required"),
        *("too_large", "too_long", "too_short", "too_small", "unknown_field"),
    ]
