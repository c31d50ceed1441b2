"""CORS headers are on every response (interface: Service 9)."""

from __future__ import annotations

import pytest
from flask import Flask

from edge import metrics
from edge.api.operations import OPERATIONS, Operation
from tests.api.conftest import Api
from tests.api.test_conventions import CORS, ids, url


@pytest.mark.parametrize("operation", OPERATIONS, ids=ids)
def test_options_answers_204_without_body_and_without_allow(acme: Api, operation: Operation) -> None:
    """interface: Service 9"""
    response = acme.call("OPTIONS", url(operation))
    assert (response.status_code, response.data) == (204, b"")
    assert "Allow" not in response.headers
    assert "Content-Type" not in response.headers
    assert CORS.items() <= dict(response.headers).items()


def test_a_preflight_needs_no_user_agent(app: Flask) -> None:
    """interface: Requests"""
    headers = {"User-Agent": "", "Origin": "https://x.example", "Access-Control-Request-Method": "PATCH"}
    assert app.test_client().options("/api/v1/assets/1", headers=headers).status_code == 204


def test_pages_carry_no_cors(app: Flask) -> None:
    """interface: Requests"""
    assert "Access-Control-Allow-Origin" not in app.test_client().get("/").headers


def test_requests_of_browsers_are_measured_like_others(acme: Api) -> None:
    """CORS and metrics are both hooks that run after a request."""
    for headers in ({}, {"Origin": "https://x.example"}):
        before = _requests_measured()
        response = acme.call("GET", "/orgs/me", headers=headers)
        assert CORS.items() <= dict(response.headers).items()
        assert _requests_measured() == before + 1


def _requests_measured() -> float:
    labels = {"method": "GET", "route": "/api/v1/orgs/me", "status": "200"}
    return metrics._registry.get_sample_value("edge_http_request_seconds_count", labels) or 0
