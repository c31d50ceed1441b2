"""Fixtures: API clients that validate each response against the OpenAPI document, one for each organization."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from edge.audit.actors import shell
from edge.people import api_keys
from edge.people.api_keys import SCOPES, KeyRow
from edge.people.secrets import hash_secret, new_client_secret
from tests.api import contract
from tests.application import shared_app
from tests.conftest import Cast

AGENT = "acme-wms/1.4"


class Api:
    """An API client with one credential. Paths begin after `/api/v1`; queries are in the path or keyword arguments."""

    def __init__(self, client: FlaskClient, organization_id: int, key: KeyRow, secret: str) -> None:
        self.client = client
        self.organization_id = organization_id
        self.key = key
        self.secret = secret
        self.token = self.exchange().json["access_token"]  # type: ignore[index]

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> TestResponse:
        sent_headers = {"User-Agent": AGENT}
        if getattr(self, "token", None):
            sent_headers["Authorization"] = f"Bearer {self.token}"
        data = raw
        if method in ("POST", "PATCH"):
            sent_headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
            data = json.dumps(body).encode() if raw is None else raw
        sent_headers |= headers or {}
        path, _, written = f"/api/v1{path}".partition("?")
        response = self.client.open(path, method=method, data=data, headers=sent_headers, query_string=written or query)
        contract.check(method, path, response)
        return response

    def get(self, path: str, **query: Any) -> TestResponse:
        return self.call("GET", path, **query)

    def post(self, path: str, body: Any, **options: Any) -> TestResponse:
        return self.call("POST", path, body, **options)

    def patch(self, path: str, body: Any, **options: Any) -> TestResponse:
        return self.call("PATCH", path, body, **options)

    def delete(self, path: str, **options: Any) -> TestResponse:
        return self.call("DELETE", path, **options)

    def make(self, path: str, **body: Any) -> dict[str, Any]:
        """Create a record and return its data. The create must succeed."""
        response = self.post(path, {"name": "thing", **body})
        assert response.status_code == 201, response.text
        return data(response)

    def exchange(self, **changes: Any) -> TestResponse:
        body = {"grant_type": "client_credentials", "client_id": self.key.id, "client_secret": self.secret}
        return self.post("/oauth/token", body | changes)


def data(response: TestResponse) -> Any:
    assert response.status_code < 300, response.text
    assert response.json is not None
    return response.json["data"]


def error(response: TestResponse) -> dict[str, Any]:
    assert response.json is not None
    content: dict[str, Any] = response.json["error"]
    assert content["status"] == response.status_code
    assert content["request_id"] == response.headers["X-Request-ID"]
    return content


def codes(response: TestResponse) -> list[tuple[str, str]]:
    """Return field and code of each validation error."""
    content = error(response)
    assert (response.status_code, content["type"]) == (400, "validation_error"), response.text
    return [(fault["field"], fault["code"]) for fault in content["fields"]]


def sign_up(client: FlaskClient, organization_id: int, scopes: Sequence[str] = SCOPES) -> Api:
    secret = new_client_secret()
    key = api_keys.add_key(shell(organization_id), "test", scopes, hash_secret(secret))
    return Api(client, organization_id, key, secret)


@pytest.fixture
def app(store: object) -> Flask:
    return shared_app()


@pytest.fixture
def acme(app: Flask, cast: Cast) -> Api:
    return sign_up(app.test_client(), cast.acme)


@pytest.fixture
def rival(app: Flask, cast: Cast) -> Api:
    return sign_up(app.test_client(), cast.rival)


@pytest.fixture
def with_scopes(app: Flask, cast: Cast) -> Callable[..., Api]:
    """Return a client of Acme that has only these scopes."""
    return lambda *scopes: sign_up(app.test_client(), cast.acme, scopes)


def refresh(api: Api, token: str) -> Any:
    return api.post("/oauth/token", {"grant_type": "refresh_token", "refresh_token": token})


def works(api: Api, token: str | None = None) -> bool:
    response = api.call("GET", "/orgs/me", headers={"Authorization": f"Bearer {token or api.token}"})
    assert response.status_code in (200, 401)
    return response.status_code == 200
