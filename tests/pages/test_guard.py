"""Access rules of all pages, taken from the routes themselves, so a new page is always covered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from werkzeug.routing import IntegerConverter, Rule

from edge.pages.cookies import SESSION as SESSION_COOKIE
from edge.pages.guard import RANK
from edge.pages.static_files import web_folder
from edge.people.people import Role
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]
# Several organizations share this box, so its settings are available in the shell only.
OF_THE_BOX = (
    "pages.download_backup",
    "pages.form /status/settings/<name>",
    "pages.change_setting",
    "pages.reset_setting",
)


def routes(app: Flask) -> Iterator[tuple[Rule, str]]:
    for rule in app.url_map.iter_rules():
        if rule.endpoint.startswith("pages."):
            for method in sorted((rule.methods or set()) & {"GET", "POST"}):
                yield rule, method


def path_of(rule: Rule) -> str:
    """Return a number for numeric parameters, else a word."""
    values = {name: 1 if isinstance(kind, IntegerConverter) else "x" for name, kind in rule._converters.items()}
    return rule.build(values, append_unknown=False)[1]  # type: ignore[index]


def ask(browser: Browser, rule: Rule, method: str) -> int:
    if method == "GET":  # as a browser, because the API reference is behind the User-Agent filter
        return browser.get(path_of(rule), headers={"User-Agent": "Mozilla/5.0"}).status_code
    return browser.post(path_of(rule)).status_code


def test_every_page_declares_its_role(app: Flask) -> None:
    for rule, _ in routes(app):
        assert hasattr(app.view_functions[rule.endpoint], "required_role"), rule


def test_a_page_without_a_role_is_refused(app: Flask, sign_in_as: SignIn) -> None:
    view = app.view_functions["pages.form /account"]
    del view.required_role  # type: ignore[attr-defined]
    try:
        assert sign_in_as(Role.ADMINISTRATOR).get("/account").status_code == 403
    finally:
        view.required_role = Role.VIEWER  # type: ignore[attr-defined]


def test_every_page_requires_a_sign_in(app: Flask, anybody: Browser) -> None:
    for rule, method in routes(app):
        if app.view_functions[rule.endpoint].required_role is not None:  # type: ignore[attr-defined]
            answer = (anybody.get if method == "GET" else anybody.post)(path_of(rule))
            assert answer.status_code in (303, 401), rule
            assert answer.status_code == 401 or answer.location.startswith("/sign-in"), rule


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.EDITOR])
def test_a_lower_role_is_refused_by_the_server(app: Flask, sign_in_as: SignIn, site: Site, role: Role) -> None:
    browser = sign_in_as(role)
    refused = [
        (rule, method)
        for rule, method in routes(app)
        if (needed := app.view_functions[rule.endpoint].required_role) is not None and RANK[needed] > RANK[role]  # type: ignore[attr-defined]
    ]
    assert refused
    for rule, method in refused:
        assert ask(browser, rule, method) == 403, rule


def test_the_least_role_that_may_is_refused_nowhere(app: Flask, sign_in_as: SignIn, site: Site) -> None:
    for rule, method in routes(app):
        if rule.endpoint not in ("pages.sign_out", "pages.sign_in", *OF_THE_BOX):
            needed = app.view_functions[rule.endpoint].required_role or Role.VIEWER  # type: ignore[attr-defined]
            assert ask(sign_in_as(needed), rule, method) not in (401, 403, 500), rule


def test_every_post_without_the_forms_token_is_refused(app: Flask, sign_in_as: SignIn) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    for rule, method in routes(app):
        if method == "POST":
            for data in ({}, {"csrf": "wrong"}, {"csrf": "wörng"}):
                assert browser.client.post(path_of(rule), data=data).status_code == 403, rule


def test_a_csrf_token_of_another_session_is_refused(sign_in_as: SignIn) -> None:
    mine, other = sign_in_as(Role.ADMINISTRATOR), sign_in_as(Role.ADMINISTRATOR)
    mine.token = other.token
    assert mine.post("/keys/new", {"name": "x", "assets": "read"}).status_code == 403


def test_another_organization_sees_nothing(sign_in_as: SignIn, cast: object, site: Site) -> None:
    stranger = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)  # type: ignore[attr-defined]
    for path in (
        f"/assets/{site.pallet.id}",
        f"/assets/{site.pallet.id}/edit",
        f"/assets/{site.pallet.id}/label",
        f"/locations/{site.dock.id}",
        f"/locations/{site.dock.id}/edit",
        f"/a/{site.pallet.external_key}",
        "/l/DOCK-1",
    ):
        assert stranger.get(path).status_code == 404, path
    assert "Pallet 1" not in stranger.get("/").text
    assert "Hall 1" not in stranger.get("/locations").text
    assert stranger.get("/scan/find?q=4006381333931").json == {"assets": [], "total": 0}
    assert stranger.post(f"/assets/{site.pallet.id}/retire").status_code == 404


def test_own_files_are_served_without_comments_and_indentation_and_others_unchanged(app: Flask) -> None:
    client, files = app.test_client(), app.extensions["static_files"]
    script = client.get(files.url("handhelds/main.js")).text
    assert not [line for line in script.splitlines() if line.strip().startswith(("//", "/*", "*/"))]
    source = (web_folder() / "static/handhelds/main.js").read_text("utf-8").splitlines()
    code = [line.lstrip(" ") for line in source if not line.strip().startswith(("//", "/**"))]
    served = script.splitlines()
    assert len(served) == len(code)
    removed = [whole.removeprefix(line) for whole, line in zip(code, served, strict=True) if whole != line]
    assert removed
    assert all(text.lstrip().startswith("// ") for text in removed)
    assert "https?:" in client.get(files.url("handhelds/scanner.js")).text  # followed by two slashes, as in a comment
    name = "vendor/zxing-wasm/reader/index.js"
    assert client.get(files.url(name)).data == (web_folder() / "static" / name).read_bytes()


def test_a_scan_page_of_release_0_1_gets_the_scripts_that_have_moved(app: Flask) -> None:
    client, files = app.test_client(), app.extensions["static_files"]
    old = client.get("/static/0123456789ab/scan/tools.js")
    assert (old.status_code, old.headers["Cache-Control"]) == (200, "no-cache")
    assert old.data == client.get(files.url("handhelds/tools.js")).data
    assert client.get("/static/0123456789ab/scan/no-such-file.js").status_code == 404


def test_pages_run_no_script_but_their_own(sign_in_as: SignIn) -> None:
    answer = sign_in_as(Role.VIEWER).get("/")
    policy = answer.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert answer.headers["Cache-Control"] == "no-store"
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    assert " on" + "click=" not in answer.text


@pytest.mark.parametrize("target", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"])
def test_signing_in_leads_to_this_site_only(sign_in_as: SignIn, target: str) -> None:
    answer = sign_in_as(Role.VIEWER).get("/sign-in", query_string={"next": target})
    assert answer.location == "/"


def test_the_session_ends_when_the_person_signs_out(sign_in_as: SignIn) -> None:
    browser = sign_in_as(Role.VIEWER)
    answer = browser.post("/sign-out")
    assert SESSION_COOKIE in answer.headers["Set-Cookie"]
    browser.client.set_cookie(SESSION_COOKIE, browser.token)
    assert browser.get("/").status_code == 303


@pytest.mark.parametrize("number", ["9" * 19, "9" * 30, "9" * 5000])
def test_a_number_that_no_record_has_is_nothing_here(sign_in_as: SignIn, site: Site, number: str) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    for path in ("/assets/{}", "/people/{}/edit", "/assets/{}/edit"):
        assert browser.get(path.format(number)).status_code == 404
    assert browser.get(f"/assets/{site.pallet.id}?before={number}").status_code == 200
    assert browser.get(f"/readers/unknown-tags?reader={number}").status_code == 200
    assert browser.post("/locations/new", {"name": "Gate", "parent_id": number}).status_code == 400
    assert browser.post(f"/readers/dead-letters/{number}").status_code == 404
    assert browser.send("/scan/attach", {"id": "scan-no-1", "asset": int(number[:30])}).status_code == 400


def test_large_bodies_are_refused(anybody: Browser, sign_in_as: SignIn) -> None:
    large = "a" * (1024 * 1024 + 1)
    assert anybody.post("/sign-in", {"email": large}).status_code == 413
    assert sign_in_as(Role.OPERATOR).send("/scan/batch", {"items": [{}], "more": large}).status_code == 413


def test_the_navigation_shows_the_present_page(sign_in_as: SignIn) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    for path in (
        "/keys",
        "/keys/new",
        "/people",
        "/status",
        "/export",
        "/account",
        "/manual/office",
        "/import",
        "/plans",
    ):
        assert browser.get(path).text.count('aria-current="page"') >= 1, path


@pytest.mark.parametrize("path", ["/board/rows", "/home/now", "/scan/locations"])
def test_polled_content_is_not_stored_for_others(sign_in_as: SignIn, path: str) -> None:
    first = sign_in_as(Role.OPERATOR).get(path)
    assert (first.status_code, first.headers["Cache-Control"]) == (200, "private, no-cache")
