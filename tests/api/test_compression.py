"""Gzip compression of long responses (interface: Additions)."""

from __future__ import annotations

import gzip

import msgspec
import pytest
from flask import Flask
from werkzeug.test import TestResponse

from edge.api.middleware import MIN_SIZE
from tests.api.conftest import AGENT, Api
from tests.api.contract import DOCUMENT, resolve


@pytest.fixture
def shelf(acme: Api) -> Api:
    for _ in range(5):
        acme.make("/assets")
    return acme


def ask(api: Api, path: str = "/assets", accept: str | None = "gzip", method: str = "GET") -> TestResponse:
    headers = {"User-Agent": AGENT, "Authorization": f"Bearer {api.token}"}
    headers |= {"Accept-Encoding": accept} if accept is not None else {}
    return api.client.open(f"/api/v1{path}", method=method, headers=headers)


def test_a_long_response_is_compressed_for_clients_that_accept_it(shelf: Api) -> None:
    plain = ask(shelf, accept=None)
    assert len(plain.data) > MIN_SIZE
    for accept in ("gzip", "GZIP", "br, gzip, deflate", "gzip;q=0.5, identity", "*"):
        packed = ask(shelf, accept=accept)
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.data) == plain.data
        assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data)
        assert packed.headers["Content-Type"] == "application/json"


def test_other_clients_get_it_uncompressed_with_a_vary_header(shelf: Api) -> None:
    for accept in (None, "", "identity", "br", "gzip;q=0", "*;q=0"):
        plain = ask(shelf, accept=accept)
        assert "Content-Encoding" not in plain.headers
        assert plain.headers["Vary"] == "Accept-Encoding"
        assert int(plain.headers["Content-Length"]) == len(plain.data)
        assert msgspec.json.decode(plain.data)["total_count"] == 5


def test_a_short_response_is_not_compressed(acme: Api) -> None:
    answer = ask(acme)
    assert len(answer.data) <= MIN_SIZE
    assert "Content-Encoding" not in answer.headers
    assert "Vary" not in answer.headers


def test_the_limit_is_1_kib(acme: Api) -> None:
    path = f"/assets/{acme.make('/assets', description='x')['id']}"
    shortest = len(ask(acme, path).data)
    for size, is_packed in ((MIN_SIZE, False), (MIN_SIZE + 1, True)):
        acme.patch(path, {"description": "x" * (size - shortest + 1)})
        assert len(ask(acme, path, accept=None).data) == size
        assert ("Content-Encoding" in ask(acme, path).headers) == is_packed


@pytest.mark.parametrize("accept", ["gzip", None])
def test_head_has_the_headers_of_get(shelf: Api, accept: str | None) -> None:
    get, head = ask(shelf, accept=accept), ask(shelf, accept=accept, method="HEAD")
    assert head.data == b""
    for name in ("Content-Length", "Content-Encoding", "Vary", "Content-Type"):
        assert head.headers.get(name) == get.headers.get(name)


def test_a_long_refusal_and_the_document_are_compressed_too(shelf: Api, app: Flask) -> None:
    refused = ask(shelf, "/assets?" + "&".join(f"nope{number}=1" for number in range(50)))
    assert refused.status_code == 400
    assert len(msgspec.json.decode(gzip.decompress(refused.data))["error"]["fields"]) == 50
    for kind in ("json", "yaml"):
        headers = {"User-Agent": AGENT, "Accept-Encoding": "gzip"}
        packed = app.test_client().get(f"/api/openapi.{kind}", headers=headers)
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed.data)


def test_responses_stored_for_an_idempotency_key_are_not_compressed(acme: Api) -> None:
    body = {"name": "Pallet", "description": "x" * 1000}
    first = acme.post("/assets", body, headers={"Idempotency-Key": "k", "Accept-Encoding": "gzip"})
    again = acme.post("/assets", body, headers={"Idempotency-Key": "k"})
    assert gzip.decompress(first.data) == again.data


def test_requests_stay_plain(acme: Api) -> None:
    headers = {"Content-Encoding": "gzip"}
    assert acme.post("/assets", None, raw=gzip.compress(b'{"name":"x"}'), headers=headers).status_code == 415


def test_pages_are_not_touched(app: Flask) -> None:
    answer = app.test_client().get("/sign-in", headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in answer.headers


def test_the_document_describes_compression() -> None:
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            for described in map(resolve, operation["responses"].values()):
                assert ("Content-Encoding" in described["headers"]) == ("content" in described)
