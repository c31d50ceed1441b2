"""The OpenAPI document describes every served route, and every described route is served."""

from __future__ import annotations

import re

import pytest
import yaml
from flask import Flask
from jsonschema import Draft4Validator
from openapi_spec_validator import validate

from edge.api.field_meanings import MEANINGS
from edge.api.operations import OPERATIONS
from edge.api.responses import asset, asset_location, location, stay, tag
from edge.api.schemas import ANSWERS, SCHEMAS, TAGS
from edge.people.api_keys import SCOPES
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.tags import TagRow
from edge.tracking.report import AssetLocationRow, StayRow
from edge.validation import bodies, json_text
from tests.api.conftest import AGENT, Api
from tests.api.contract import DOCUMENT, resolve

AGENT_HEADER = {"User-Agent": AGENT}


def test_the_document_is_valid() -> None:
    validate(DOCUMENT)


def test_json_and_yaml_are_equal_and_the_short_paths_redirect(app: Flask) -> None:
    """interface: Service 7"""
    client = app.test_client()
    as_json = client.get("/api/openapi.json", headers=AGENT_HEADER)
    as_yaml = client.get("/api/openapi.yaml", headers=AGENT_HEADER)
    assert (as_json.mimetype, as_yaml.mimetype) == ("application/json", "application/yaml")
    assert as_json.json == yaml.safe_load(as_yaml.data) == DOCUMENT | {"info": DOCUMENT["info"]}
    for kind in ("json", "yaml"):
        moved = client.get(f"/openapi.{kind}")
        assert (moved.status_code, moved.headers["Location"]) == (301, f"/api/openapi.{kind}")
        assert moved.headers["Access-Control-Allow-Origin"] == "*"


def test_every_route_is_described_and_every_description_is_a_route(app: Flask) -> None:
    """interface: Requests"""
    served = {
        (re.sub(r"<(\w+)>", r"{\1}", rule.rule), method)
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/api/v1")
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = {(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert served == described


def test_every_field_that_is_shown_is_described_and_the_reverse() -> None:
    """interface: Requests"""
    rows = {
        "AssetView": asset(AssetRow(1, "", "", None, True, "{}", 0, None, 0, 0, None)),
        "LocationView": location(LocationRow(1, "", "", None, True, None, None, 0, None, 0, 0, None)),
        **{name: tag(TagRow(1, "", "")) for name in TAGS.values()},
        "AssetLocationItem": asset_location(AssetLocationRow(1, "", None, None, None, 0, 0)),
        "AssetHistoryItem": stay(StayRow(0, 1, "", None)),
    }
    for name, shape in rows.items():
        assert list(SCHEMAS[name]["required"]) == list(SCHEMAS[name]["properties"])
        assert set(json_text.decode(json_text.encode(shape))) == set(SCHEMAS[name]["properties"]), name


def test_names_are_those_of_other_services_with_this_interface() -> None:
    """A client that was generated for one of them keeps its names of operations and types."""
    operations = """
        listAssets createAsset getAsset updateAsset deleteAsset renameAsset addAssetTag removeAssetTag listAssetHistory
        listLocations createLocation getLocation updateLocation deleteLocation renameLocation addLocationTag
        removeLocationTag listLocationAncestors listLocationChildren listLocationDescendants createToken getCurrentOrg
        listAssetLocations
    """
    schemas = """
        AssetView LocationView OrgView Tag RfidTag BleTag BarcodeTag TagRequest AssetHistoryItem AssetLocationItem
        CreateAssetWithTagsRequest UpdateAssetRequest RenameAssetRequest CreateLocationWithTagsRequest
        UpdateLocationRequest RenameLocationRequest TokenRequest ListAssetsResponse CreateAssetResponse GetAssetResponse
        UpdateAssetResponse RenameAssetResponse AddAssetTagResponse AssetHistoryResponse ListLocationsResponse
        CreateLocationResponse GetLocationResponse UpdateLocationResponse RenameLocationResponse AddLocationTagResponse
        ListLocationAncestorsResponse ListLocationChildrenResponse ListLocationDescendantsResponse
        AssetLocationsResponse GetCurrentOrgResponse TokenResponse ErrorResponse ErrorEnvelope FieldError
    """
    served = {one["operationId"] for path in DOCUMENT["paths"].values() for one in path.values()}
    assert served == set(operations.split())
    assert set(schemas.split()) <= set(DOCUMENT["components"]["schemas"])


def test_every_field_of_an_answer_has_a_meaning_and_each_example_is_valid() -> None:
    described = set()
    for schema in (*SCHEMAS.values(), *ANSWERS.values()):
        for name, field in schema.get("properties", {}).items():
            if "$ref" in field or name == "data":
                continue
            described.add(name)
            assert field["description"].endswith("."), name
            if "example" in field:
                validator = Draft4Validator({key: value for key, value in field.items() if key != "nullable"})
                assert list(validator.iter_errors(field["example"])) == [], name
            else:
                assert {"$ref"} & set(field.get("items", {})) or "enum" in field or name == "params", name
    assert described == set(MEANINGS)


def test_every_field_that_is_taken_is_described_and_the_reverse() -> None:
    """interface: Requests"""
    for operation in OPERATIONS:
        described = DOCUMENT["paths"][f"/api/v1{operation.path}"][operation.method.lower()]
        if operation.body:
            content = described["requestBody"]["content"]
            assert list(content) == list(operation.media_types)
            schema = resolve(content[operation.media_types[0]]["schema"])
            for variant in map(resolve, schema.get("oneOf", [schema])):
                assert set(variant["properties"]) == set(operation.body.fields)
                assert variant["additionalProperties"] is False
        names = [parameter["name"] for parameter in described["parameters"] if parameter["in"] != "header"]
        assert names == [*operation.path_names, *operation.query.parameters]


def test_every_record_field_can_be_sent_back_in_a_patch() -> None:
    for name, patch in (("AssetView", bodies.ASSET_PATCH), ("LocationView", bodies.LOCATION_PATCH)):
        assert set(patch.fields) == set(SCHEMAS[name]["properties"])


def test_every_operation_names_its_scope() -> None:
    """interface: Authentication 7; Requests"""
    for operation in OPERATIONS:
        described = DOCUMENT["paths"][f"/api/v1{operation.path}"][operation.method.lower()]
        assert described["x-required-scopes"] == ([operation.scope] if operation.scope else [])
        assert operation.scope is None or operation.scope in SCOPES


def test_deleted_rows_are_left_out_by_default_as_documented() -> None:
    lists = [operation for operation in OPERATIONS if "include_deleted" in operation.query.parameters]
    for operation in lists:
        parameters = DOCUMENT["paths"][f"/api/v1{operation.path}"]["get"]["parameters"]
        assert [p["schema"]["default"] for p in parameters if p["name"] == "include_deleted"] == [False]
    assert len(lists) == 3


def test_the_description_of_q_names_what_it_searches() -> None:
    """interface: Lists"""
    for operation in OPERATIONS:
        if parameter := operation.query.parameters.get("q"):
            assert ("description" in parameter.about) == (operation.answer != "AssetLocationList")


def test_open_enumerations_are_marked() -> None:
    """interface: Versioning 4; Requests"""
    marked = [
        (name, field)
        for name, schema in SCHEMAS.items()
        for field, inner in schema.get("properties", {}).items()
        if inner.get("x-extensible-enum") is True
    ]
    assert marked == [
        *((name, "tag_type") for name in TAGS.values()),
        ("FieldError", "code"),
        ("ErrorEnvelope", "type"),
    ]


def test_documented_defaults_of_a_create_body_are_those_of_the_service(acme: Api) -> None:
    """interface: Additions"""
    defaults = {
        name: {
            field: schema["default"]
            for field, schema in DOCUMENT["components"]["schemas"][name]["properties"].items()
            if "default" in schema
        }
        for name in (
            "CreateAssetWithTagsRequest",
            "CreateLocationWithTagsRequest",
            "UpdateAssetRequest",
            "UpdateLocationRequest",
        )
    }
    assert defaults == {
        "CreateAssetWithTagsRequest": {"is_active": True, "metadata": {}},
        "CreateLocationWithTagsRequest": {"is_active": True},
        "UpdateAssetRequest": {},  # absent fields stay unchanged
        "UpdateLocationRequest": {},
    }
    for path, name in (("/assets", "CreateAssetWithTagsRequest"), ("/locations", "CreateLocationWithTagsRequest")):
        assert defaults[name].items() <= acme.make(path).items()
        begins = DOCUMENT["components"]["schemas"][name]["properties"]["valid_from"]
        assert begins["description"] == "The time of the request if absent"


def test_every_operation_has_a_default_response_with_the_envelope() -> None:
    """interface: Additions"""
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            refusal = resolve(operation["responses"]["default"])
            assert refusal["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorResponse")


def test_fields_that_the_server_sets_are_read_only_in_records() -> None:
    """interface: Additions"""
    read_only = {
        (name, field)
        for name, schema in SCHEMAS.items()
        for field, inner in schema.get("properties", {}).items()
        if inner.get("readOnly")
    }
    assert read_only == {(name, field) for name in ("AssetView", "LocationView") for field in bodies.SERVER_MANAGED}


def test_a_tag_is_a_union_with_its_type_as_discriminator() -> None:
    """interface: Additions"""
    tag = SCHEMAS["Tag"]
    assert tag["discriminator"]["propertyName"] == "tag_type"
    assert [one["$ref"] for one in tag["oneOf"]] == list(tag["discriminator"]["mapping"].values())
    kinds = {kind: resolve({"$ref": target}) for kind, target in tag["discriminator"]["mapping"].items()}
    assert {kind: shape["properties"]["tag_type"]["enum"] for kind, shape in kinds.items()} == {
        "rfid": ["rfid"],
        "ble": ["ble"],
        "barcode": ["barcode"],
    }


def test_code_generators_and_linters_understand_the_document() -> None:
    """Line terminators in a pattern break TypeScript, and a pattern of a time breaks a client in Python."""
    as_text = json_text.text(DOCUMENT)
    assert [code for code in ("u000a", "u000d", "u2028", "u2029") if code in as_text] == []
    assert {"pattern"} & set(SCHEMAS["AssetView"]["properties"]["created_at"]) == set()
    operations = [one for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert all(one["description"] for one in operations)
    assert {name for one in operations for name in one["tags"]} == {tag["name"] for tag in DOCUMENT["tags"]}
    assert all(tag["description"] for tag in DOCUMENT["tags"])
    assert DOCUMENT["info"]["contact"]
    token = DOCUMENT["paths"]["/api/v1/oauth/token"]["post"]["requestBody"]
    assert next(iter(token["content"])) == "application/json"
    assert token["description"] == "As `application/json` by default"


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        *(("a", True), ("a b", True), ("\u5009", True), ("\u200b", True)),
        *(
            (" a", False),
            ("a\u0085", False),
            ("\u00a0a", False),
            ("a\u2028", False),
            ("a\u3000", False),
            ("a\tb", False),
        ),
    ],
)
def test_the_pattern_of_a_name_is_the_rule_of_the_service(acme: Api, name: str, is_valid: bool) -> None:
    pattern = SCHEMAS["AssetView"]["properties"]["name"]["pattern"]
    assert bool(re.search(pattern, name)) is is_valid
    assert acme.post("/assets", {"name": name}).status_code == (201 if is_valid else 400)


def test_every_operation_declares_405_with_the_envelope() -> None:
    """interface: Additions"""
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            refusal = resolve(operation["responses"]["405"])
            assert "Allow" in refusal["headers"]
            assert refusal["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorResponse")
