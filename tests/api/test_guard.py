"""Rate limits: a budget for each credential and for each address that requests tokens."""

from __future__ import annotations

import pytest

from edge import clock
from edge.api import middleware
from edge.audit import quotas
from edge.rate_limits import Buckets
from tests.api.conftest import AGENT, error, sign_up
from tests.application import make_app
from tests.conftest import Cast


def test_each_credential_has_a_budget_that_runs_out(store: object, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """interface: Type rate_limited; Requests"""
    monkeypatch.setattr(middleware.clock, "now", lambda: 1_700_000_000 * clock.SECOND)
    client = make_app(rate_per_second=1, rate_burst=3).test_client()
    acme, rival = sign_up(client, cast.acme), sign_up(client, cast.rival)
    left = [acme.get("/assets").headers["X-RateLimit-Remaining"] for _ in range(3)]
    assert left == ["2", "1", "0"]
    refused = acme.get("/assets")
    assert (refused.status_code, error(refused)["type"]) == (429, "rate_limited")
    assert (refused.headers["Retry-After"], refused.headers["X-RateLimit-Reset"]) == ("1", "1700000003")
    assert refused.headers["RateLimit-Policy"] == "3;w=3"
    assert rival.get("/assets").status_code == 200
    assert acme.call("GET", "/nope").status_code == 404, "an unknown path costs nothing"


def test_the_rate_is_checked_after_the_scope_and_before_the_media_type(store: object, cast: Cast) -> None:
    """interface: Order of answers"""
    client = make_app(rate_per_second=1, rate_burst=1).test_client()
    api = sign_up(client, cast.acme, ["assets:read"])
    assert api.get("/assets").status_code == 200
    plain = {"Content-Type": "text/plain"}
    assert api.call("POST", "/assets", raw=b"[", headers=plain).status_code == 403
    assert api.call("POST", "/assets", raw=b"[", headers={"Authorization": "Bearer x"}).status_code == 401
    assert api.get("/assets", nope=1).status_code == 429


def test_the_token_endpoint_is_limited_by_address(store: object, cast: Cast) -> None:
    """interface: Requests"""
    client = make_app(rate_per_second=1, rate_burst=2).test_client()
    api = sign_up(client, cast.acme)
    assert api.exchange(client_secret="wrong").status_code == 401
    assert api.exchange().status_code == 429


def test_the_token_endpoint_is_limited_by_network(store: object, cast: Cast) -> None:
    """An attacker has as many addresses of IPv6 as it likes, but they are in one network."""
    client = make_app(rate_per_second=1, rate_burst=2).test_client()
    key = sign_up(client, cast.acme).key
    body = {"grant_type": "client_credentials", "client_id": key.id, "client_secret": "wrong"}

    def status_from(address: str) -> int:
        return client.post(
            "/api/v1/oauth/token", json=body, headers={"User-Agent": AGENT}, environ_base={"REMOTE_ADDR": address}
        ).status_code

    neighbors = [status_from(f"2001:db8:1:2::{number:x}") for number in range(3)]
    assert neighbors == [401, 401, 429]
    assert status_from("2001:db8:1:3::1") == 401
    assert [status_from(address) for address in ("::ffff:192.0.2.7", "192.0.2.7", "192.0.2.7")] == [401, 401, 429]


def test_a_key_that_adds_too_much_data_gets_a_time_to_retry(
    store: object, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "_of_key", Buckets(2_000, 1))
    api = sign_up(make_app().test_client(), cast.acme)
    answers = [api.post("/assets", {"name": "Pallet"}) for _ in range(4)]
    assert answers[0].status_code == 201
    refused = answers[-1]
    assert (refused.status_code, error(refused)["type"]) == (429, "rate_limited")
    assert int(refused.headers["Retry-After"]) > 1
    assert api.get("/assets").json["total_count"] == sum(answer.status_code == 201 for answer in answers)
