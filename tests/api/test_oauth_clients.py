"""Requests of standard OAuth clients to the token endpoint (interface: Additions)."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from werkzeug.test import TestResponse

from tests.api.conftest import AGENT, Api, codes, error, works
from tests.api.contract import DOCUMENT, check

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
TOKEN_PATH = "/api/v1/oauth/token"
GRANT = {"grant_type": "client_credentials"}


def basic(name: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{quote_plus(name)}:{quote_plus(secret)}".encode()).decode()


def ask(api: Api, raw: bytes | str, content_type: str = FORM, authorization: str | None = None) -> TestResponse:
    headers = {"User-Agent": AGENT, "Content-Type": content_type}
    headers |= {"Authorization": authorization} if authorization is not None else {}
    response = api.client.post(TOKEN_PATH, data=raw, headers=headers)
    check("POST", TOKEN_PATH, response)
    return response


def form(api: Api, authorization: str | None = None, **fields: str) -> TestResponse:
    return ask(api, urlencode(fields), authorization=authorization)


def own(api: Api) -> dict[str, str]:
    return {"client_id": api.key.id, "client_secret": api.secret}


def own_basic(api: Api) -> str:
    return basic(api.key.id, api.secret)


def pair(response: TestResponse) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    assert list(response.json or {}) == ["access_token", "refresh_token", "token_type", "expires_in"]
    return dict(response.json or {})


def test_a_form_gets_the_same_answer_as_json(acme: Api) -> None:
    response = form(acme, **GRANT, **own(acme))
    assert works(acme, pair(response)["access_token"])
    assert response.headers["Cache-Control"] == "no-store"
    upper = ask(acme, urlencode({**GRANT, **own(acme)}), "Application/X-WWW-Form-Urlencoded; charset=UTF-8")
    assert works(acme, pair(upper)["access_token"])


def test_credentials_may_be_in_the_header(acme: Api) -> None:
    header = own_basic(acme)
    assert works(acme, pair(form(acme, header, **GRANT))["access_token"])
    assert works(acme, pair(form(acme, header.replace("Basic", "bAsIc"), **GRANT))["access_token"])
    assert works(acme, pair(ask(acme, b'{"grant_type":"client_credentials"}', JSON, header))["access_token"])
    assert works(acme, pair(form(acme, header, client_id=acme.key.id, **GRANT))["access_token"])


def test_credentials_in_both_places_are_refused(acme: Api) -> None:
    for header, fields in (
        (own_basic(acme), own(acme)),
        (own_basic(acme), {"client_secret": acme.secret}),
        (own_basic(acme), {"client_id": "somebody-else"}),
        (basic("x", "y"), own(acme)),
    ):
        response = form(acme, header, **GRANT, **fields)
        assert (response.status_code, error(response)["type"]) == (400, "bad_request")


@pytest.mark.parametrize(
    "header",
    [
        basic("12c39d71-ddee-4c9b-92ca-8821367ffb68", "x"),
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic " + base64.b64encode(b"%ff:x").decode(),
        "Basic é",
    ],
)
def test_a_wrong_header_is_401_and_names_both_schemes(acme: Api, header: str) -> None:
    response = ask(acme, urlencode(GRANT), authorization=header.encode().decode("latin-1"))
    assert (response.status_code, error(response)["detail"]) == (401, "Invalid client credentials")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="api", Basic realm="api"'


def test_basic_is_for_the_token_endpoint_only(acme: Api) -> None:
    response = acme.call("GET", "/assets", headers={"Authorization": own_basic(acme)})
    assert (response.status_code, error(response)["detail"]) == (401, "Use Authorization: Bearer <token>")
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="api"'


def test_another_scheme_at_the_token_endpoint_is_ignored_as_before(acme: Api) -> None:
    assert pair(ask(acme, urlencode({**GRANT, **own(acme)}), authorization="Bearer x"))


def test_forms_are_read_as_strictly_as_the_rfc_demands(acme: Api) -> None:
    """RFC 6749 3.2: unknown parameters are ignored, blank ones count as absent, repeated ones are refused."""
    assert pair(form(acme, **GRANT, **own(acme), scope="assets:read", audience="x", resource=""))
    assert codes(form(acme, grant_type="")) == [("grant_type", "required")]
    assert codes(form(acme, **GRANT, client_id="x", client_secret="")) == [("client_secret", "required")]
    assert codes(form(acme, grant_type="password")) == [("grant_type", "invalid_value")]
    assert codes(form(acme, own_basic(acme), grant_type="refresh_token")) == [("refresh_token", "required")]
    twice = urlencode([*GRANT.items(), *own(acme).items(), ("client_id", "x")])
    for raw in (twice, b"grant_type=\xff", "grant_type=%ff", "&".join(f"x{no}=1" for no in range(200))):
        assert error(ask(acme, raw))["type"] == "bad_request"
    assert codes(ask(acme, b"")) == [("grant_type", "required")]
    assert error(ask(acme, b"grant_type=x", f"{FORM}; charset=latin-1"))["type"] == "unsupported_media_type"


def test_a_plus_and_a_percent_are_decoded(acme: Api) -> None:
    encoded = "&".join(
        f"{name}={''.join(f'%{byte:02X}' for byte in text.encode())}" for name, text in own(acme).items()
    )
    assert works(acme, pair(ask(acme, f"grant_type=client%5Fcredentials&{encoded}"))["access_token"])
    percent = base64.b64encode(f"{acme.key.id.replace('-', '%2D')}:{acme.secret.replace('_', '%5F')}".encode()).decode()
    assert works(acme, pair(form(acme, f"Basic {percent}", **GRANT))["access_token"])


def test_a_refresh_as_standard_clients_send_it(acme: Api) -> None:
    """RFC 6749 6: the client's credentials are in the header, in the body, or missing."""
    refresh = {"grant_type": "refresh_token"}
    token = pair(form(acme, **GRANT, **own(acme)))["refresh_token"]
    token = pair(form(acme, own_basic(acme), **refresh, refresh_token=token))["refresh_token"]
    token = pair(form(acme, **refresh, **own(acme), refresh_token=token))["refresh_token"]
    token = pair(form(acme, **refresh, client_id=acme.key.id, refresh_token=token))["refresh_token"]
    token = pair(form(acme, **refresh, refresh_token=token))["refresh_token"]
    assert form(acme, own_basic(acme), **refresh, **own(acme), refresh_token=token).status_code == 400


def test_a_refresh_by_another_client_leaves_the_token_valid(acme: Api, rival: Api) -> None:
    refresh = {"grant_type": "refresh_token"}
    token = pair(form(acme, **GRANT, **own(acme)))["refresh_token"]
    for header, fields in (
        (own_basic(rival), {}),
        (basic(acme.key.id, "wrong"), {}),
        (None, own(rival)),
        (None, {"client_id": acme.key.id, "client_secret": "wrong"}),
    ):
        response = form(acme, header, **refresh, refresh_token=token, **fields)
        assert error(response)["type"] == "unauthorized"
    again = pair(form(acme, own_basic(acme), **refresh, refresh_token=token))
    assert works(acme, again["access_token"]), "the chain was not revoked"


def test_forms_are_for_the_token_endpoint_only(acme: Api) -> None:
    response = acme.call("POST", "/assets", raw=b"name=x", headers={"Content-Type": FORM})
    assert error(response)["type"] == "unsupported_media_type"


def test_the_document_describes_both_bodies_and_both_ways_to_authenticate() -> None:
    operation = DOCUMENT["paths"]["/api/v1/oauth/token"]["post"]
    assert list(operation["requestBody"]["content"]) == [JSON, FORM]
    assert "HTTP Basic" in operation["description"]
    declared = DOCUMENT["components"]["schemas"]["TokenForm"]
    assert set(declared["properties"]) == {"grant_type", "client_id", "client_secret", "refresh_token"}
    assert (declared["required"], declared["additionalProperties"]) == (["grant_type"], True)
