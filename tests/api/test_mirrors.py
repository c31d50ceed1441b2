"""Records with their home on another box can be read like all others, but not changed."""

from __future__ import annotations

from typing import Any

import pytest

from edge.database.connection import execute
from tests.api.conftest import Api, data, error


@pytest.fixture
def mirrored(acme: Api) -> dict[str, Any]:
    """Create an asset and a location with a tag each. Their home is the site BER."""
    made = {}
    for kind in ("assets", "locations"):
        made[kind] = acme.make(f"/{kind}", tags=[{"tag_type": "rfid", "value": f"AA-{kind}"}])
        execute("INSERT INTO mirror (record_id, peer, home) VALUES (?, 1, 'BER')", (made[kind]["id"],))
    return made


CHANGES: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "change": ("PATCH", "", {"name": "mine"}),
    "change nothing": ("PATCH", "", {}),
    "delete": ("DELETE", "", None),
    "rename": ("POST", "/rename", {"external_key": "MINE"}),
    "attach a tag": ("POST", "/tags", {"tag_type": "ble", "value": "mine"}),
    "detach a tag": ("DELETE", "/tags/{tag}", None),
}


@pytest.mark.parametrize("kind", ["assets", "locations"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_a_conflict_that_names_the_home(
    acme: Api, mirrored: dict[str, Any], kind: str, change: str
) -> None:
    record = mirrored[kind]
    method, path, body = CHANGES[change]
    path = path.format(tag=record["tags"][0]["id"])
    response = acme.call(method, f"/{kind}/{record['id']}{path}", body)
    assert response.status_code == 409
    assert error(response)["type"] == "conflict"
    assert "kept at BER" in error(response)["detail"]
    assert data(acme.get(f"/{kind}/{record['id']}")) == record


@pytest.mark.parametrize("kind", ["assets", "locations"])
def test_another_organization_gets_404(acme: Api, rival: Api, mirrored: dict[str, Any], kind: str) -> None:
    assert rival.patch(f"/{kind}/{mirrored[kind]['id']}", {"name": "mine"}).status_code == 404


def test_errors_of_the_body_come_first(acme: Api, mirrored: dict[str, Any]) -> None:
    assert acme.patch(f"/assets/{mirrored['assets']['id']}", {"name": ""}).status_code == 400
