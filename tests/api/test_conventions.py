"""Rules for every request and response (interface: Service 8, 9; Conventions; Errors)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from edge.api.envelope import KINDS
from edge.api.operations import OPERATIONS, Operation
from edge.errors import Unavailable
from tests.api.conftest import AGENT, Api, codes, data, error

ULID = re.compile("[0-9A-HJKMNP-TV-Z]{26}")
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PATCH, DELETE, OPTIONS",
    "Access-Control-Allow-Headers": "Content-Type, Authorization, X-Request-ID, Idempotency-Key",
    "Access-Control-Max-Age": "3600",
}
LIBRARIES = [
    *("Python-urllib/3.11", "python-requests/2.32.3", "python-httpx/0.27.0", "Python/3.11 aiohttp/3.9.5"),
    *("python-urllib3/2.2.1", "urllib3/1.26", "curl/8.5.0", "Wget/1.21.4", "Go-http-client/1.1", "Java/17.0.1"),
    *("Apache-HttpClient/4.5.14 (Java/17)", "okhttp/4.12.0", "axios/1.7.2", "node", "node-fetch", "undici"),
    *("libwww-perl/6.77", "Ruby", "CURL/8.5.0", "Java-http-client/17.0.1", "Wget/1.21.4 (linux-gnu)"),
]


def url(operation: Operation, number: int = 12345) -> str:
    return re.sub(r"\{\w+\}", str(number), operation.path)


def ids(operation: Operation) -> str:
    return operation.name


@pytest.mark.parametrize("operation", OPERATIONS, ids=ids)
def test_every_response_carries_cors_request_id_and_rate_limit(acme: Api, operation: Operation) -> None:
    """interface: Service 9; Authentication 9; Requests"""
    for headers in ({}, {"Authorization": "Bearer x"}, {"User-Agent": ""}):
        response = acme.call(operation.method, url(operation), {}, headers=headers)
        assert CORS.items() <= dict(response.headers).items()
        assert ULID.fullmatch(response.headers["X-Request-ID"])
        assert response.headers["RateLimit-Policy"] == "100000;w=100"
        assert response.headers["X-RateLimit-Limit"] == "100000"


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.method == "GET"], ids=ids)
def test_head_answers_like_get_without_a_body(acme: Api, operation: Operation) -> None:
    """interface: Service 9"""
    head, get = acme.call("HEAD", url(operation)), acme.call("GET", url(operation))
    assert (head.status_code, head.data, head.mimetype) == (get.status_code, b"", get.mimetype)
    if get.status_code == 200:
        assert head.headers["Content-Length"] == str(len(get.data))


def test_head_is_refused_like_get_without_a_body(acme: Api) -> None:
    """interface: Service 9"""
    for path, headers in (
        ("/nope", {}),
        ("/assets/0", {}),
        ("/assets/1", {}),
        ("/assets?nope=1", {}),
        ("/assets", {"Authorization": "x"}),
        ("/assets", {"User-Agent": ""}),
        ("/oauth/token", {}),
    ):
        sent = {"User-Agent": AGENT, "Authorization": f"Bearer {acme.token}"} | headers
        head, get = (acme.client.open(f"/api/v1{path}", method=method, headers=sent) for method in ("HEAD", "GET"))
        assert (head.status_code, head.data) == (get.status_code, b"")
        for name in ("Content-Type", "Content-Length", "Allow", "WWW-Authenticate", "Access-Control-Allow-Origin"):
            assert head.headers.get(name) == get.headers.get(name)


VERBS = ("PUT", "TRACE", "CONNECT", "PROPFIND", "DELETE", "GET", "POST", "PATCH")
REAL = {path: {one.method for one in OPERATIONS if one.path == path} for path in {one.path for one in OPERATIONS}}


@pytest.mark.parametrize(
    ("path", "method"), [(path, verb) for path in sorted(REAL) for verb in VERBS if verb not in REAL[path]]
)
def test_an_unsupported_verb_is_405_with_the_real_methods(acme: Api, path: str, method: str) -> None:
    """interface: Service 9; Type method_not_allowed; Endpoints"""
    real = REAL[path]
    response = acme.call(method, re.sub(r"\{\w+\}", "1", path), headers={"Authorization": ""})
    allow = ", ".join(sorted(real | ({"HEAD"} if "GET" in real else set())))
    assert (response.status_code, response.headers["Allow"]) == (405, allow)
    if method != "HEAD":
        refusal = error(response)
        assert (refusal["type"], refusal["title"]) == ("method_not_allowed", "Method not allowed")
        assert allow in refusal["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nope"),
        ("PUT", "/nope"),
        ("TRACE", "/nope"),
        ("GET", "/assets/"),
        ("GET", "/assets/1/"),
        ("GET", "/assets//1"),
        ("GET", "/assets/%2e%2e/assets"),
        ("GET", "/assets/1%2Fhistory"),
        ("PUT", "/assets/1%2Fhistory"),
        ("PUT", "//assets"),
        ("GET", "/Assets"),
        ("GET", "/assets/1/tags/2/3"),
        ("GET", "/../v1/assets"),
        ("GET", "/assets/1%00/history"),
    ],
)
def test_an_unknown_path_is_404_in_the_envelope_also_without_a_token(acme: Api, method: str, path: str) -> None:
    """interface: Endpoints"""
    if "%00" in path:
        assert codes(acme.call(method, path)) == [("asset_id", "invalid_value")]
        return
    response = acme.call(method, path, headers={"Authorization": ""})
    assert (error(response)["type"], response.status_code) == ("not_found", 404)


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v2/assets", "/api/v1"])
def test_an_unknown_path_next_to_v1_is_404_in_the_envelope(app: Flask, path: str) -> None:
    """interface: Endpoints"""
    assert error(app.test_client().get(path, headers={"User-Agent": AGENT}))["instance"] == path


@pytest.mark.parametrize("agent", ["", "   ", *LIBRARIES])
def test_a_default_user_agent_is_refused_without_an_envelope(acme: Api, agent: str) -> None:
    """interface: Service 8; Requests"""
    for path in ("/assets", "/nope"):
        response = acme.call("GET", path, headers={"User-Agent": agent}) if path == "/assets" else _plain(acme, agent)
        assert (response.status_code, response.mimetype) == (403, "text/plain")
        assert b"User-Agent" in response.data
        assert len(response.text.splitlines()) == 1
        assert CORS.items() <= dict(response.headers).items()


def _plain(acme: Api, agent: str) -> TestResponse:
    return acme.client.get("/api/v1/nope", headers={"User-Agent": agent})


@pytest.mark.parametrize(
    "agent", ["acme-wms/1.0", "Mozilla/5.0 (X11)", "nodered-flow/2", "rubytron", "curl/8.5.0 acme-wms/1.0"]
)
def test_a_user_agent_that_names_an_application_is_welcome(acme: Api, agent: str) -> None:
    """interface: Service 8"""
    assert acme.call("GET", "/assets", headers={"User-Agent": agent}).status_code == 200


def test_the_request_id_of_the_client_is_used_if_it_is_printable_ascii(acme: Api) -> None:
    """interface: Envelope request_id; Requests"""
    for given in ("a", "trace 42/ä".replace("ä", "x"), "x" * 128):
        assert acme.call("GET", "/assets", headers={"X-Request-ID": given}).headers["X-Request-ID"] == given
    for refused in ("x" * 129, "tab\tbed", "ä"):
        response = acme.call("GET", "/assets/0", headers={"X-Request-ID": refused})
        assert ULID.fullmatch(error(response)["request_id"])


def test_the_instance_is_the_path_without_the_query(acme: Api) -> None:
    """interface: Envelope instance; Requests"""
    assert error(acme.get("/assets/0", a="b"))["instance"] == "/api/v1/assets/0"


def test_titles_are_fixed() -> None:
    """interface: Envelope title; Requests"""
    assert {kind: title for kind, (_, title) in KINDS.items()} == {
        "bad_request": "Bad request",
        "validation_error": "Validation failed",
        "unauthorized": "Unauthorized",
        "forbidden": "Forbidden",
        "not_found": "Not found",
        "method_not_allowed": "Method not allowed",
        "conflict": "Conflict",
        "gone": "Gone",
        "payload_too_large": "Payload too large",
        "unsupported_media_type": "Unsupported media type",
        "rate_limited": "Rate limited",
        "internal_error": "Internal server error",
        "service_unavailable": "Service unavailable",
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0", "too_small"),
        ("-1", "too_small"),
        ("-9223372036854775808", "too_small"),
        ("abc", "invalid_value"),
        ("1.0", "invalid_value"),
        ("+1", "invalid_value"),
        ("1e3", "invalid_value"),
        ("٣", "invalid_value"),
        ("9223372036854775808", "invalid_value"),
        ("-9223372036854775809", "invalid_value"),
        ("9" * 5000, "invalid_value"),
    ],
)
def test_a_path_id_that_is_no_positive_int64_is_400(acme: Api, text: str, code: str) -> None:
    """interface: Conventions 2; Code too_small; Ids and numbers"""
    for operation in OPERATIONS:
        if operation.path_names:
            path = operation.path.replace("{" + operation.path_names[-1] + "}", text)
            response = acme.call(operation.method, re.sub(r"\{\w+\}", "1", path), {"name": "x"})
            if operation.body is None or operation.method == "PATCH":
                assert (operation.path_names[-1], code) in codes(response)


def test_an_id_beyond_int64_gets_both_bounds(acme: Api) -> None:
    """interface: Ids and numbers"""
    for text in (2**63, -(2**63) - 1):
        assert error(acme.get(f"/assets/{text}"))["fields"][0]["params"] == {"min": 1, "max": 2**63 - 1}


@pytest.mark.parametrize("number", [1, 2**53, 2**63 - 1])
def test_a_valid_id_that_does_not_resolve_is_404(acme: Api, number: int) -> None:
    """interface: Conventions 2; Type not_found; Ids and numbers"""
    for path in ("/assets", "/locations"):
        assert error(acme.get(f"{path}/{number}"))["type"] == "not_found"


def test_the_order_of_checks_is_fixed(acme: Api, with_scopes: Any) -> None:
    """User-Agent, path, method, token, scope, rate, media type, query and path, body, record; Order of
    answers"""
    weak = with_scopes("assets:read")
    bad: dict[str, str] = {"User-Agent": "", "Authorization": "Bearer x", "Content-Type": "text/plain"}
    assert acme.call("PATCH", "/assets/0", raw=b"[", headers=bad).status_code == 403
    del bad["User-Agent"]
    assert acme.call("PUT", "/assets/0", headers=bad).status_code == 405
    assert acme.call("PATCH", "/assets/0", raw=b"[", headers=bad, nope=1).status_code == 401
    del bad["Authorization"]
    assert weak.call("PATCH", "/assets/0", raw=b"[", headers=bad, nope=1).status_code == 403
    assert acme.call("PATCH", "/assets/0", raw=b"[", headers=bad, nope=1).status_code == 415
    assert codes(acme.call("PATCH", "/assets/1", raw=b"[", nope=1)) == [("nope", "unknown_field")]
    assert codes(acme.call("PATCH", "/assets/0", raw=b"[")) == [("asset_id", "too_small")]
    assert error(acme.call("PATCH", "/assets/1", raw=b"["))["type"] == "bad_request"
    assert codes(acme.patch("/assets/1", {"name": ""})) == [("name", "too_short")]
    assert error(acme.patch("/assets/1", {"name": "x"}))["type"] == "not_found"


def test_every_missing_scope_is_403(with_scopes: Any) -> None:
    """interface: Authentication 7; Type forbidden"""
    for operation in OPERATIONS:
        if operation.scope:
            others = {one.scope for one in OPERATIONS if one.scope} - {operation.scope}
            weak = with_scopes(*sorted(others))
            refusal = error(weak.call(operation.method, url(operation), {}))
            assert (refusal["type"], operation.scope in refusal["detail"]) == ("forbidden", True)


def test_a_body_over_one_mebibyte_is_413(acme: Api) -> None:
    """interface: Type payload_too_large; Requests"""
    body = b'{"name":"x","description":"' + b"y" * 1024 * 1024 + b'"}'
    assert error(acme.call("POST", "/assets", raw=body))["type"] == "payload_too_large"


@pytest.mark.parametrize(
    ("method", "content_type", "expected"),
    [
        ("POST", "application/json", 201),
        ("POST", "application/json; charset=utf-8", 201),
        ("POST", 'Application/JSON; charset="UTF-8"; x=y', 201),
        ("POST", "application/json; charset=latin-1", 415),
        ("POST", "application/merge-patch+json", 415),
        ("POST", "text/plain", 415),
        ("POST", "", 415),
        ("PATCH", "application/merge-patch+json", 200),
        ("PATCH", "application/merge-patch+json;charset=UTF-8", 200),
        ("PATCH", "application/json", 415),
        ("PATCH", "", 415),
    ],
)
def test_each_method_has_its_media_type(acme: Api, method: str, content_type: str, expected: int) -> None:
    """interface: Conventions 5, 6; Type unsupported_media_type; Endpoints"""
    path = "/assets" if method == "POST" else f"/assets/{acme.make('/assets')['id']}"
    response = acme.call(method, path, {"name": "x"}, headers={"Content-Type": content_type})
    assert response.status_code == expected


def test_a_content_encoding_is_415(acme: Api) -> None:
    """interface: Endpoints"""
    gzip = acme.post("/assets", {"name": "x"}, headers={"Content-Encoding": "gzip"})
    assert error(gzip)["type"] == "unsupported_media_type"
    assert acme.post("/assets", {"name": "x"}, headers={"Content-Encoding": "identity"}).status_code == 201


def test_a_delete_with_a_body_is_accepted(acme: Api) -> None:
    """interface: Endpoints"""
    assert acme.call("DELETE", f"/assets/{acme.make('/assets')['id']}", raw=b"[nonsense").status_code == 204


def test_a_failure_is_an_internal_error_without_its_reason(
    acme: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """interface: Type internal_error"""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("edge.records.record.Kind.list_page", fail)
    response = acme.get("/assets")
    assert error(response)["type"] == "internal_error"
    assert "secret" not in response.text
    assert response.headers["X-Request-ID"] in caplog.text


def test_a_store_that_cannot_write_is_503_with_the_time_to_wait(acme: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """interface: Type service_unavailable; Requests"""

    def fail(*_: object, **__: object) -> None:
        raise Unavailable("The disk is full; free disk space and try again")

    monkeypatch.setattr("edge.records.record.Kind.create", fail)
    response = acme.post("/assets", {"name": "x"})
    assert (response.status_code, error(response)["type"]) == (503, "service_unavailable")
    assert int(response.headers["Retry-After"]) > 0


def test_a_page_of_a_list_has_exactly_its_four_keys(acme: Api) -> None:
    """interface: Conventions 1; Versioning 4"""
    acme.make("/assets")
    assert list(acme.get("/assets").json or {}) == ["data", "limit", "offset", "total_count"]
    assert data(acme.get("/assets"))[0]["name"] == "thing"


@pytest.mark.parametrize("path", ["/nope", "/assets", "/assets/1/tags/2/3", "/assets/", "//assets", "/assets/1%2Fx"])
def test_options_is_204_on_every_path_so_that_browsers_show_the_real_answer(acme: Api, path: str) -> None:
    """interface: Service 9"""
    answer = acme.client.open(f"/api/v1{path}", method="OPTIONS", headers={"User-Agent": AGENT})
    assert (answer.status_code, answer.data, answer.headers.get("Allow")) == (204, b"", None)
    assert {name: answer.headers[name] for name in CORS} == CORS


@pytest.mark.parametrize("path", ["/api/v1/assets", "/api/v1/nope", "/api/openapi.json", "/openapi.yaml", "/api/docs"])
def test_browsers_do_not_guess_the_media_type(acme: Api, path: str) -> None:
    answer = acme.client.get(path, headers={"User-Agent": AGENT})
    assert answer.headers.getlist("X-Content-Type-Options") == ["nosniff"]
