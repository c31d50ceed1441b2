"""Access rules of all routes. `who_may.txt` repeats them, and each route is tried with each credential."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.routing import Rule

from edge.api.operations import OPERATIONS
from edge.people import api_keys
from edge.people.api_keys import SCOPES, SYNC_SCOPE
from edge.people.people import RANK, Role
from tests.api.conftest import AGENT, Api
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

TABLE = Path(__file__).with_name("who_may.txt")
READ = {"assets:read", "locations:read", "tracking:read"}
PLACEHOLDERS = {"{asset_id}": "1", "{location_id}": "1", "{tag_id}": "1"}
KEY_SETS = [*((scope,) for scope in SCOPES), SCOPES, (SYNC_SCOPE,), (*SCOPES, SYNC_SCOPE)]


def least() -> dict[tuple[str, str], str]:
    """Return the permitted callers by (method, path)."""
    rules, who = {}, ""
    for line in TABLE.read_text().splitlines():
        if line.startswith("["):
            who = line.strip("[]")
        elif line and not line.startswith("#"):
            methods, path = line.split()
            rules |= {(method, path): who for method in methods.split("+")}
    return rules


def routes(app: Flask) -> Iterator[tuple[str, str, Rule]]:
    """Return all routes except the v1 API, as the table names them."""
    for rule in app.url_map.iter_rules():
        if not rule.endpoint.startswith("api."):
            for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
                yield method, rule.rule.replace("<int:", "<"), rule


def bearer(api: Api) -> dict[str, str]:
    return {"Authorization": f"Bearer {api.token}", "User-Agent": AGENT}


def test_the_table_names_every_route_and_no_other(app: Flask) -> None:
    assert {(method, path) for method, path, _ in routes(app)} == set(least())


def test_every_page_requires_the_role_in_the_table(app: Flask) -> None:
    table = least()
    for method, path, rule in routes(app):
        if rule.endpoint.startswith("pages."):
            asked = getattr(app.view_functions[rule.endpoint], "required_role", "nothing")
            assert (asked or "everybody") == table[method, path], (method, path)


@pytest.mark.parametrize("scopes", KEY_SETS, ids="+".join)
def test_a_key_opens_exactly_the_operations_of_its_scopes(
    with_scopes: Callable[..., Api], scopes: tuple[str, ...]
) -> None:
    api = with_scopes(*scopes)
    for operation in OPERATIONS:
        if not operation.is_open:
            assert is_let_in(api, operation.method, operation.path) == (
                operation.scope is None or operation.scope in scopes
            ), f"{operation.method} {operation.path}"


def is_let_in(api: Api, method: str, path: str) -> bool:
    for name, value in PLACEHOLDERS.items():
        path = path.replace(name, value)
    status = api.call(method, path, {}).status_code
    assert status not in (401, 429), path
    return status != 403


@pytest.mark.parametrize("role", Role)
def test_a_session_token_opens_exactly_the_operations_of_the_role(
    acme: Api, sign_in_as: Callable[..., Browser], role: Role
) -> None:
    acme.token = sign_in_as(role).send("/account/token", {}).json["access_token"]  # type: ignore[index]
    for operation in OPERATIONS:
        if operation.scope:
            may = operation.scope in READ or RANK[role] >= RANK[Role.EDITOR]
            assert is_let_in(acme, operation.method, operation.path) == may, operation.path


def test_sync_routes_accept_only_keys_of_sites(
    app: Flask, with_scopes: Callable[..., Api], sign_in_as: Callable[..., Browser]
) -> None:
    boss = sign_in_as(Role.ADMINISTRATOR)
    token = boss.send("/account/token", {}).json["access_token"]  # type: ignore[index]
    doors = [path for (_, path), who in least().items() if who == "a site's key"]
    assert doors
    for path in doors:
        assert app.test_client().post(path).status_code == 401, path
        assert boss.post(path).status_code == 401, path
        of_a_session = {"Authorization": f"Bearer {token}", "User-Agent": AGENT}
        assert app.test_client().post(path, headers=of_a_session).status_code == 401, path
        for scopes in (SCOPES, (SYNC_SCOPE,)):  # a key with that scope that was not created by joining
            assert app.test_client().post(path, headers=bearer(with_scopes(*scopes))).status_code == 403, path


def test_the_event_stream_requires_a_tracking_or_asset_scope(
    app: Flask, with_scopes: Callable[..., Api], sign_in_as: Callable[..., Browser], anybody: Browser
) -> None:
    assert anybody.get("/events").status_code == 401
    for role in Role:
        assert sign_in_as(role).get("/events").status_code == 200, role
    for scopes in KEY_SETS:
        status = app.test_client().get("/events", headers=bearer(with_scopes(*scopes))).status_code
        assert status == (200 if set(scopes) & {"tracking:read", "assets:read"} else 403), scopes


def test_no_page_opens_to_a_token(app: Flask, acme: Api, site: Site) -> None:
    for method, path, rule in routes(app):
        if getattr(app.view_functions[rule.endpoint], "required_role", None) and not rule.arguments:
            answer = app.test_client().open(path, method=method, headers=bearer(acme))
            assert answer.status_code in (303, 401), path


def test_nobody_can_create_a_key_with_the_scope_of_a_site(cast: Cast, sign_in_as: Callable[..., Browser]) -> None:
    form = {"name": "x", "assets": "read", "sync": "write", "scope": SYNC_SCOPE, "scopes": SYNC_SCOPE}
    assert sign_in_as(Role.ADMINISTRATOR).post("/keys/new", form).status_code == 200
    assert [list(key.scopes) for key in api_keys.list_keys(cast.acme)] == [["assets:read"]]
