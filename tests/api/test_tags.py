"""Attaching and detaching tags (interface: Tag; Endpoints)."""

from __future__ import annotations

from typing import Any

import pytest

from edge import clock
from edge.audit import actors, trail
from edge.audit.actors import shell
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.people import people
from edge.people.people import Role
from tests.api.conftest import Api, codes, data, error
from tests.conftest import Cast

BOTH = pytest.mark.parametrize("path", ["/assets", "/locations"])


@pytest.fixture
def tags(acme: Api, path: str) -> str:
    return f"{path}/{acme.make(path)['id']}/tags"


@BOTH
def test_attaching_answers_201_with_the_tag_and_its_address(acme: Api, tags: str) -> None:
    """interface: Service 2; Tag id, tag_type, value; Endpoints"""
    response = acme.post(tags, {"tag_type": "ble", "value": "a\tb\r\n \U0001f4e6"})
    tag = data(response)
    assert list(tag) == ["id", "tag_type", "value"]
    assert response.headers["Location"] == f"/api/v1{tags}/{tag['id']}"
    assert data(acme.get(tags.removesuffix("/tags")))["tags"] == [tag]


@BOTH
def test_a_live_tag_is_held_once_in_the_organization(acme: Api, tags: str) -> None:
    """interface: Identifiers tag natural key; Type conflict"""
    tag = {"tag_type": "rfid", "value": "E2"}
    acme.make("/locations", tags=[tag])
    for response in (acme.post(tags, tag), acme.post("/assets", {"name": "x", "tags": [tag]})):
        assert (response.status_code, error(response)["detail"]) == (409, "tag rfid:E2 already exists")
    assert acme.post(tags, tag | {"tag_type": "barcode"}).status_code == 201, "another type is another tag"
    assert acme.post(tags, tag | {"value": "e2"}).status_code == 201, "values are case-sensitive"


@BOTH
def test_two_equal_tags_in_one_create_are_a_conflict(acme: Api, path: str) -> None:
    """interface: Fields"""
    tag = {"tag_type": "rfid", "value": "E2"}
    assert acme.post(path, {"name": "x", "tags": [tag, tag]}).status_code == 409
    assert data(acme.get(path)) == []


@BOTH
def test_detaching_answers_204_once_and_frees_the_tag(acme: Api, tags: str) -> None:
    """interface: Identifiers tag natural key; Endpoints"""
    tag = data(acme.post(tags, {"tag_type": "rfid", "value": "E2"}))
    assert acme.delete(f"{tags}/{tag['id']}").status_code == 204
    assert acme.delete(f"{tags}/{tag['id']}").status_code == 404
    again = data(acme.post(tags, {"tag_type": "rfid", "value": "E2"}))
    assert again["id"] != tag["id"]


@BOTH
def test_a_tag_of_another_record_is_not_found(acme: Api, path: str, tags: str) -> None:
    """interface: Endpoints"""
    other = acme.make(path, tags=[{"tag_type": "rfid", "value": "E2"}])["tags"][0]
    assert acme.delete(f"{tags}/{other['id']}").status_code == 404
    assert acme.delete(f"{tags}/1").status_code == 404


@BOTH
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, [("tag_type", "required"), ("value", "required")]),
        ({"tag_type": "rfid"}, [("value", "required")]),
        ({"tag_type": "rfid", "value": None}, [("value", "invalid_value")]),
        ({"tag_type": None, "value": "x"}, [("tag_type", "invalid_value")]),
        ({"tag_type": "", "value": "x"}, [("tag_type", "invalid_value")]),
        ({"tag_type": "RFID", "value": "x"}, [("tag_type", "invalid_value")]),
        ({"tag_type": "rfid", "value": ""}, [("value", "too_short")]),
        ({"tag_type": "rfid", "value": "x" * 256}, [("value", "too_long")]),
        ({"tag_type": "rfid", "value": "a\x1fb"}, [("value", "invalid_value")]),
        ({"tag_type": "rfid", "value": "a\x7fb"}, [("value", "invalid_value")]),
        ({"tag_type": "rfid", "value": "x", "id": 1}, [("id", "read_only")]),
        ({"tag_type": "rfid", "value": "x", "name": 1}, [("name", "unknown_field")]),
    ],
)
def test_a_tag_body_is_validated(acme: Api, tags: str, body: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """interface: Identifiers tag value; Tag tag_type, value; Limit tag value; Fields"""
    assert codes(acme.post(tags, body)) == expected


@BOTH
def test_tags_have_no_listing(acme: Api, tags: str) -> None:
    """interface: Endpoints"""
    for path, allow in ((tags, "POST"), (f"{tags}/1", "DELETE")):
        response = acme.get(path)
        assert (response.status_code, response.headers["Allow"]) == (405, allow)


@pytest.mark.parametrize("with_the_asset", [True, False])
def test_scans_that_waited_for_the_tag_are_taken_over(acme: Api, cast: Cast, with_the_asset: bool) -> None:
    """interface: Tracking"""
    dock = acme.make("/locations")["id"]
    row = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    scan = Submitted("scan-1", "E2801170", dock, clock.now() - clock.SECOND)
    scans.submit(actors.person(cast.acme, row.id, row.name), [scan], clock.now())
    tag = {"tag_type": "rfid", "value": "E2801170"}
    asset = acme.make("/assets", tags=[tag] if with_the_asset else [])["id"]
    if not with_the_asset:
        assert acme.post(f"/assets/{asset}/tags", tag).status_code == 201
    assert [row["location_id"] for row in data(acme.get("/reports/asset-locations"))] == [dock]


def test_actions_of_a_key_are_in_the_audit_under_its_name(acme: Api, cast: Cast) -> None:
    """interface: Authentication"""
    asset = acme.make("/assets", external_key="A-1", name="Pallet")
    acme.delete(f"/assets/{asset['id']}")
    lines = [(line.action, line.subject_name, line.actor_kind, line.actor_name) for line in trail.recent(cast.acme)]
    assert lines[:2] == [
        ("asset.deleted", "Pallet (A-1)", "api_key", "test"),
        ("asset.created", "Pallet (A-1)", "api_key", "test"),
    ]
