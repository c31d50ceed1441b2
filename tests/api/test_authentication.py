"""Credentials and tokens, and their expiry and revocation (interface: Authentication)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from flask import Flask

from edge import clock
from edge.api import tokens as endpoint
from edge.api.operations import OPERATIONS
from edge.audit import actors
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.database.instance import signing_key
from edge.people import api_keys, people, sessions, tokens
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.validation import form, strict_json
from tests.api.conftest import Api, codes, data, error, refresh, sign_up, works
from tests.application import make_app
from tests.conftest import Cast

AGENT = {"User-Agent": "acme-wms/1.4"}
ISSUED = {"iss": "edge-production", "aud": "edge-api-production"}


def test_the_pair_has_exactly_its_four_fields(acme: Api) -> None:
    """interface: Authentication 3; Limit access token"""
    pair = acme.exchange().json or {}
    assert list(pair) == ["access_token", "refresh_token", "token_type", "expires_in"]
    assert (pair["token_type"], pair["expires_in"]) == ("Bearer", 900)


def test_the_access_token_has_the_claims_of_the_contract(acme: Api) -> None:
    """interface: Authentication 3; Authentication"""
    claims = jwt.decode(acme.token, signing_key(), ["HS256"], audience=ISSUED["aud"])
    assert {"iss", "aud", "sub", "org", "scope", "iat", "exp", "jti"} <= claims.keys()
    assert (claims["sub"], claims["org"], claims["exp"] - claims["iat"]) == (acme.key.id, acme.organization_id, 900)
    assert "production" in claims["iss"]
    assert "production" in claims["aud"]


def test_orgs_me_echoes_the_scopes_and_the_key(with_scopes: Callable[..., Api]) -> None:
    """interface: Tracking rows Organization; Authentication 7"""
    api = with_scopes("tracking:read", "assets:read")
    me = data(api.get("/orgs/me"))
    assert me == {
        "id": api.organization_id,
        "name": "Acme",
        "scopes": ["assets:read", "tracking:read"],
        "api_key_id": api.key.id,
    }


@pytest.mark.parametrize("media_type", ["application/json", "application/x-www-form-urlencoded"])
def test_credentials_have_a_small_body(acme: Api, media_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a token, a body of 1 MiB with 120,000 values took 50 ms of processor time, 50 times a second."""
    monkeypatch.setattr(strict_json, "parse", lambda _: pytest.fail("parsed"))
    monkeypatch.setattr(form, "parse", lambda *_: pytest.fail("parsed"))
    body = b"[" + b"0," * (endpoint.MAX_BODY // 2) + b"0]"
    response = acme.client.post("/api/v1/oauth/token", data=body, content_type=media_type, headers=AGENT)
    assert (response.status_code, error(response)["type"]) == (413, "payload_too_large")
    assert str(endpoint.MAX_BODY) in error(response)["detail"]
    document = acme.client.get("/api/openapi.json", headers=AGENT).json or {}
    assert "413" in document["paths"]["/api/v1/oauth/token"]["post"]["responses"]


@pytest.mark.parametrize(
    "changes",
    [
        {"client_secret": "edge_" + "0" * 64},
        {"client_id": "12c39d71-ddee-4c9b-92ca-8821367ffb68"},
        {"client_id": "not a uuid"},
        {"client_id": ""},
        {"client_secret": "\u0000"},
    ],
)
def test_a_wrong_pair_is_401(acme: Api, changes: dict[str, str]) -> None:
    """interface: Authentication 8; Type unauthorized; Authentication"""
    response = acme.exchange(**changes)
    assert (response.status_code, error(response)["detail"]) == (401, "Invalid client credentials")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="api"'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, [("grant_type", "required")]),
        ({"grant_type": "password"}, [("grant_type", "invalid_value")]),
        ({"grant_type": None}, [("grant_type", "invalid_value")]),
        ({"grant_type": 1}, [("grant_type", "invalid_value")]),
        ({"grant_type": "client_credentials"}, [("client_id", "required"), ("client_secret", "required")]),
        ({"grant_type": "refresh_token"}, [("refresh_token", "required")]),
        ({"grant_type": "refresh_token", "refresh_token": None}, [("refresh_token", "invalid_value")]),
        ({"grant_type": "refresh_token", "token": "x"}, [("token", "unknown_field")]),
    ],
)
def test_a_token_body_is_validated(acme: Api, body: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """interface: Authentication 2; Authentication"""
    assert codes(acme.post("/oauth/token", body)) == expected


@pytest.mark.parametrize("content_type", ["text/plain", "", "multipart/form-data; boundary=x"])
def test_the_token_endpoint_takes_json_and_forms_only(acme: Api, content_type: str) -> None:
    """interface: Authentication 2; Additions"""
    response = acme.call("POST", "/oauth/token", {}, headers={"Content-Type": content_type})
    assert error(response)["type"] == "unsupported_media_type"
    assert "application/json or application/x-www-form-urlencoded" in error(response)["detail"]


def test_an_unknown_grant_type_gets_the_list_of_known_ones(acme: Api) -> None:
    """interface: Authentication"""
    fault = error(acme.post("/oauth/token", {"grant_type": "x"}))["fields"][0]
    assert fault["params"]["allowed_values"] == ["client_credentials", "refresh_token"]


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({}, "Missing authorization header"),
        ({"X-API-Key": "x"}, "Use Authorization: Bearer <token>"),
        ({"X-Auth-Token": "x"}, "Use Authorization: Bearer <token>"),
        ({"Authorization": "Basic eDp5"}, "Use Authorization: Bearer <token>"),
        ({"Authorization": "x.y.z"}, "Use Authorization: Bearer <token>"),
        ({"Authorization": "Bearer"}, "Use Authorization: Bearer <token>"),
        ({"Authorization": "Bearer "}, "Use Authorization: Bearer <token>"),
        ({"Authorization": "Bearer x"}, "Invalid or expired token"),
        ({"Authorization": "Bearer x y"}, "Invalid or expired token"),
        ({"Authorization": "Bearer " + "x" * 100_000}, "Invalid or expired token"),
        ({"Authorization": "Bearer \u00e4"}, "Invalid or expired token"),
    ],
)
def test_a_missing_or_malformed_credential_is_401(app: Flask, headers: dict[str, str], detail: str) -> None:
    """interface: Authentication 5, 8; Type unauthorized; Authentication"""
    for operation in OPERATIONS:
        if not operation.is_open:
            path = "/api/v1" + re.sub(r"\{\w+\}", "1", operation.path)
            response = app.test_client().open(path, method=operation.method, headers={"User-Agent": "x/1"} | headers)
            assert (response.status_code, error(response)["detail"]) == (401, detail)
            assert response.headers["WWW-Authenticate"] == 'Bearer realm="api"'


@pytest.mark.parametrize("header", ["X-Authorization", "Proxy-Authorization", "Authentication", "X-JWT", "X-Acme"])
@pytest.mark.parametrize("scheme", ["", "Bearer "])
def test_a_token_in_any_other_header_is_401_with_advice(acme: Api, header: str, scheme: str) -> None:
    """interface: Authentication 5"""
    sent = {"User-Agent": "x/1", header: scheme + acme.token}
    response = acme.client.get("/api/v1/assets", headers=sent)
    assert (response.status_code, error(response)["detail"]) == (401, "Use Authorization: Bearer <token>")


def test_the_scheme_name_is_case_insensitive(acme: Api) -> None:
    """interface: Authentication"""
    for scheme in ("bearer", "BEARER"):
        assert acme.call("GET", "/assets", headers={"Authorization": f"{scheme} {acme.token}"}).status_code == 200


def test_a_client_secret_is_no_bearer_token(acme: Api) -> None:
    """interface: Authentication 6"""
    assert not works(acme, acme.secret)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "edge-api-preview"},
        {"iss": "edge-preview"},
        {"exp": None},
        {"exp": 1},
        {"exp": "tomorrow"},
        {"exp": 1e300},
        {"sub": None},
        {"family": 99},
        {"family": None},
        {"family": "1; DROP"},
        {"sub": "someone else"},
        {"kind": "session"},
        {"kind": "session", "sub": "12"},
        {"exp": 4_000_000_000},
        {"iat": 1_700_000_000},
    ],
)
def test_a_token_with_other_claims_is_401(acme: Api, claims: dict[str, Any]) -> None:
    """interface: Authentication 8; Authentication"""
    real = jwt.decode(acme.token, signing_key(), ["HS256"], audience=ISSUED["aud"])
    forged = {name: value for name, value in (real | claims).items() if value is not None}
    assert works(acme, jwt.encode(real, signing_key(), "HS256"))
    assert not works(acme, jwt.encode(forged, signing_key(), "HS256"))


@pytest.mark.parametrize("end", ["=", "==", "!", "%", ".", ",", " x"])
def test_a_token_followed_by_anything_is_401(acme: Api, end: str) -> None:
    """interface: Authentication 8"""
    assert not works(acme, acme.token + end)


def test_another_algorithm_or_key_is_401(acme: Api) -> None:
    """interface: Authentication"""
    real = jwt.decode(acme.token, signing_key(), ["HS256"], audience=ISSUED["aud"])
    assert not works(acme, jwt.encode(real, None, "none"))
    assert not works(acme, jwt.encode(real, signing_key() * 2, "HS512"))
    assert not works(acme, jwt.encode(real, b"x" * 32, "HS256"))


def test_a_token_of_another_environment_is_401_with_the_same_key(acme: Api) -> None:
    """interface: Service 6; Authentication"""
    preview = make_app(environment="preview").test_client()
    headers = {"User-Agent": "x/1", "Authorization": f"Bearer {acme.token}"}
    assert preview.get("/api/v1/assets", headers=headers).status_code == 401


def test_an_access_token_works_for_15_minutes(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """interface: Authentication 3; Limit access token"""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + 898 * clock.SECOND)
    assert works(acme)
    monkeypatch.setattr(clock, "now", lambda: now + 900 * clock.SECOND)
    assert not works(acme)


def test_a_key_that_another_process_revokes_ends_its_tokens_at_once(acme: Api) -> None:
    """interface: Authentication"""
    assert works(acme)
    execute("UPDATE api_key SET revoked_at = 1")
    assert not works(acme)


def test_revoking_a_key_ends_its_tokens_at_once(acme: Api) -> None:
    """interface: Authentication 8; Authentication"""
    pair = acme.exchange().json or {}
    api_keys.revoke_key(shell(acme.organization_id), acme.key.id)
    assert not works(acme)
    assert acme.exchange().status_code == 401
    assert refresh(acme, pair["refresh_token"]).status_code == 401


def test_an_expired_key_is_as_good_as_none(app: Flask, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.now()
    key = api_keys.add_key(
        shell(cast.acme), "brief", api_keys.SCOPES, hash_secret("s"), expires_at=now + clock.SECOND * 60
    )
    api = Api(app.test_client(), cast.acme, key, "s")
    assert works(api)
    monkeypatch.setattr(clock, "now", lambda: now + clock.SECOND * 60)
    assert not works(api)
    assert api.exchange().status_code == 401


def test_secrets_are_stored_as_hashes_only(acme: Api, store: Any) -> None:
    """interface: Authentication 1; Authentication"""
    refresh_token = (acme.exchange().json or {})["refresh_token"]
    content = b"".join(file.read_bytes() for file in store.iterdir())
    for secret in (acme.secret, refresh_token, acme.token):
        assert secret.encode() not in content
    assert re.fullmatch("edge_[0-9a-f]{64}", acme.secret)


def test_a_token_answer_is_not_to_be_stored(acme: Api) -> None:
    assert acme.exchange().headers["Cache-Control"] == "no-store"


def session_token_of(person: people.PersonRow) -> str:
    """Return a token of a session that has just begun."""
    cookie = f"cookie of {person.id}"
    actor = actors.person(person.organization_id, person.id, person.name)
    sessions.add_session(actor, hash_secret(cookie), clock.now() + clock.HOUR)
    session = sessions.find_session(hash_secret(cookie))
    assert session
    return tokens.session_token("production", session, cookie)


@pytest.mark.parametrize("role", Role)
def test_a_session_token_has_the_scopes_of_the_role_but_not_orgs_me(app: Flask, cast: Cast, role: Role) -> None:
    """interface: Authentication 6; Authentication"""
    person = people.add_person(shell(cast.acme), role.value, role)
    api = sign_up(app.test_client(), cast.acme)
    api.token = session_token_of(person)
    assert error(api.get("/orgs/me"))["type"] == "unauthorized"
    assert api.get("/assets").status_code == 200
    may_write = role in (Role.ADMINISTRATOR, Role.EDITOR)
    assert api.post("/assets", {"name": "x"}).status_code == (201 if may_write else 403)


def test_a_session_token_ends_with_the_person(app: Flask, cast: Cast) -> None:
    person = people.add_person(shell(cast.acme), "Ann", Role.EDITOR)
    api = sign_up(app.test_client(), cast.acme)
    api.token = session_token_of(person)
    people.update_person(shell(cast.acme), person.id, role=Role.VIEWER)
    assert api.post("/assets", {"name": "x"}).status_code == 403
    people.disable_person(shell(cast.acme), person.id)
    assert api.get("/assets").status_code == 401
