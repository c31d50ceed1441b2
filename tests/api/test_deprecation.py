"""A deprecated endpoint announces its sunset and then answers 410 (interface: Versioning 5)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from flask import Flask

from edge.api import envelope, responses, routes, schemas
from edge.api.openapi import document
from edge.api.operations import OPERATIONS, Call, Operation, operation
from tests.api.conftest import Api, error
from tests.application import make_services

SOON = datetime(2040, 1, 1, tzinfo=UTC)
GONE = datetime(2026, 1, 1, tzinfo=UTC)


def with_old_route(sunset: datetime) -> tuple[Flask, list[Operation]]:
    table: list[Operation] = []

    @operation("GET", "/old", tag="Old", answer="Organization", sunset=sunset, into=table)
    def get_old(_: Call) -> Any:
        """Something that ends"""
        return responses.one({})

    app = Flask("old")
    routes.register(app, make_services(), table)
    app.register_error_handler(Exception, envelope.error_response)
    return app, table


@pytest.mark.parametrize(("sunset", "status"), [(SOON, 200), (GONE, 410)])
def test_a_deprecated_route_announces_its_sunset_and_is_gone_afterwards(
    acme: Api, sunset: datetime, status: int
) -> None:
    """interface: Versioning 5; Type gone; Requests"""
    app, table = with_old_route(sunset)
    headers = {"User-Agent": "x/1", "Authorization": f"Bearer {acme.token}"}
    response = app.test_client().get("/api/v1/old", headers=headers)
    assert response.status_code == status
    assert response.headers["Deprecation"] == "true"
    assert response.headers["Sunset"] == sunset.strftime("%a, %d %b %Y %H:%M:%S GMT")
    if status == 410:
        assert error(response)["type"] == "gone"
    described = document(table, "test")["paths"]["/api/v1/old"]["get"]
    assert described["deprecated"] is True
    assert "410" in described["responses"]


def test_every_operation_that_returns_a_deprecated_field_announces_it(
    acme: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """interface: Versioning 5"""
    fields = schemas.SCHEMAS["OrgView"]["properties"]
    monkeypatch.setitem(fields, "name", schemas.ending(fields["name"], GONE))
    app = Flask("old")
    routes.register(app, make_services())
    headers = {"User-Agent": "x/1", "Authorization": f"Bearer {acme.token}"}
    response = app.test_client().get("/api/v1/orgs/me", headers=headers)
    assert (response.status_code, response.headers["Deprecation"]) == (200, "true"), "only the field ends"
    assert "Sunset" in response.headers
    assert "Deprecation" not in app.test_client().get("/api/v1/assets", headers=headers).headers
    described = document(OPERATIONS, "test")
    assert described["components"]["schemas"]["OrgView"]["properties"]["name"]["deprecated"] is True
    assert "Sunset" in described["paths"]["/api/v1/orgs/me"]["get"]["responses"]["200"]["headers"]


def test_nothing_is_deprecated_today() -> None:
    """interface: Versioning 5"""
    assert not [one.name for one in OPERATIONS if one.sunset]
    assert not [name for name, answer in schemas.ANSWERS.items() if schemas.earliest_sunset(answer)]
