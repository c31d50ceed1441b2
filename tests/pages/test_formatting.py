"""Times of the site, numbers, and the address on labels."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from flask import Flask

from edge import clock
from edge.audit.actors import shell
from edge.errors import Unavailable
from edge.pages import charts, formatting
from edge.people import sessions
from edge.people.people import Role
from edge.records import assets
from edge.tracking.flows import Span
from edge.validation import bodies
from edge.validation.body import decode
from tests.application import change, make_app
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


@pytest.mark.parametrize(("number", "text"), [(0.0, "0"), (0.2, "<1"), (1.0, "1"), (7.6, "8"), (1234.5, "1,234")])
def test_rates_have_no_decimals(number: float, text: str) -> None:
    assert formatting.rate(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (2465.0, "2,465"), (2465, "2,465"), (1.5, "1.5"), (10**6, "1,000,000")]
)
def test_numbers_are_grouped_and_whole_ones_have_no_decimals(number: float, text: str) -> None:
    assert formatting.count(number) == text


@pytest.mark.parametrize(
    ("language", "number", "size", "offset", "duration"),
    [
        ("en", "1,234,567.5", "1.5 GB", "+3.2 s", "2 d 4 h"),
        ("de", "1.234.567,5", "1,5 GB", "+3,2 s", "2 T 4 h"),
        ("es", "1.234.567,5", "1,5 GB", "+3,2 s", "2 d 4 h"),
        ("fr", "1\u202f234\u202f567,5", "1,5 Go", "+3,2 s", "2 j 4 h"),
        ("pl", "1\u00a0234\u00a0567,5", "1,5 GB", "+3,2 s", "2 d 4 h"),
    ],
)
def test_numbers_are_as_usual_in_the_language_of_the_page(
    app: Flask, language: str, number: str, size: str, offset: str, duration: str
) -> None:
    with app.test_request_context(headers={"Accept-Language": language}):
        assert formatting.count(1234567.5) == number
        assert formatting.size(1_500_000_000) == size
        assert formatting.clock_offset(3_200_000) == offset
        assert formatting.duration(2 * 86400 + 4 * 3600) == duration


@pytest.mark.parametrize(
    ("zone", "shown"), [("Europe/Berlin", "2026-03-02 09:15"), ("America/New_York", "2026-03-02 03:15")]
)
def test_times_are_those_of_the_site(cast: Cast, zone: str, shown: str) -> None:
    app = make_app(pages_time_zone=zone)
    moment = clock.to_micros(clock.to_datetime(0).replace(year=2026, month=3, day=2, hour=8, minute=15))
    with app.app_context():
        assert shown in formatting.at(moment)


@pytest.mark.parametrize(
    ("language", "shown"), [("en", "2026-03-02"), ("de", "02.03.2026"), ("fr", "02/03/2026"), ("pl", "02.03.2026")]
)
def test_dates_are_written_as_usual_in_the_language(app: Flask, language: str, shown: str) -> None:
    moment = clock.to_micros(clock.to_datetime(0).replace(year=2026, month=3, day=2, hour=8, minute=15))
    with app.test_request_context(headers={"Accept-Language": language}):
        assert (formatting.day(moment), formatting.moment(moment)) == (shown, f"{shown} 08:15")
        assert charts.names_of([moment, moment + clock.DAY, moment + 2 * clock.DAY])[0] == shown
        assert formatting.day_of_form(moment) == "2026-03-02"
        span = Span(moment, moment + clock.DAY, 0, 0, 0, 0)
        assert charts.presence([span], [shown]).labels[0].startswith("2")


def test_a_page_with_times_names_their_zone(sign_in_as: SignIn, site: Site) -> None:
    assert "Times are in UTC" in sign_in_as(Role.VIEWER).get(f"/assets/{site.pallet.id}").text


@pytest.mark.parametrize(
    ("zone", "is_one"), [("Europe/Berlin", True), ("Europe", False), ("../etc", False), ("", False)]
)
def test_valid_time_zones(zone: str, is_one: bool) -> None:
    assert clock.is_zone(zone) is is_one


def test_labels_carry_the_address_that_was_set(app: Flask, sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.VIEWER)
    paths = {f"/assets/{site.pallet.id}/label": "a/ASSET-0001", f"/locations/{site.dock.id}/label": "l/DOCK-1"}
    change(app, own_address="https://edge-hall7.local")
    assert all(f"https://edge-hall7.local/{code}" in browser.get(path).text for path, code in paths.items())
    change(app, http_public_url="https://edge.nord.example")
    assert all(f"https://edge.nord.example/{code}" in browser.get(path).text for path, code in paths.items())


def test_a_page_that_is_not_there_keeps_the_navigation(sign_in_as: SignIn, anybody: Browser) -> None:
    assert 'href="/locations"' in sign_in_as(Role.VIEWER).get("/no-such-page").text
    assert 'href="/locations"' not in anybody.get("/no-such-page").text


def test_a_large_number_in_the_metadata_is_shown_unchanged(sign_in_as: SignIn, cast: Cast) -> None:
    number = "12345678901234567890123456789"
    values = decode(bodies.ASSET_CREATE, f'{{"name": "Safe", "metadata": {{"n": {number}, "x": 1e308}}}}'.encode())
    text = sign_in_as(Role.VIEWER).get(f"/assets/{assets.create(shell(cast.acme), **values).id}").text
    assert f">{number}</dd>" in text
    assert ">1e308</dd>" in text


@pytest.mark.parametrize(
    ("zone", "window"),
    [
        ("Europe/Berlin", {"valid_to": "9999-12-31T23:59:59Z"}),
        ("America/New_York", {"valid_from": "0001-01-01T00:00:01Z"}),
    ],
)
def test_a_window_at_the_ends_of_the_calendar_is_shown(
    app: Flask, sign_in_as: SignIn, cast: Cast, zone: str, window: dict[str, str]
) -> None:
    change(app, pages_time_zone=zone)
    asset = assets.create(
        shell(cast.acme), **decode(bodies.ASSET_CREATE, msgspec.json.encode({"name": "Safe", **window}))
    )
    answer = sign_in_as(Role.VIEWER).get(f"/assets/{asset.id}")
    assert answer.status_code == 200
    assert next(iter(window.values()))[:10] in answer.text


def test_a_missing_page_is_reported_even_without_a_database(
    sign_in_as: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_hash: bytes) -> None:
        raise Unavailable("The disk cannot be read or written")

    browser = sign_in_as(Role.VIEWER)
    monkeypatch.setattr(sessions, "find_session", refuse)
    busy = browser.get("/readers")
    assert (busy.status_code, busy.headers["Retry-After"]) == (503, "5")
    answer = browser.get("/nothing/here")
    assert (answer.status_code, "Page not found" in answer.text) == (404, True)
