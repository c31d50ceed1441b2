"""Times of the site, numbers, and the address on labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from flask import Flask

from edge import clock
from edge.app import create_app
from edge.ops.health import Health
from edge.pages import words
from edge.store.people import Role
from tests.conftest import Cast
from tests.pages.conftest import SETTINGS, Browser, Site, give

SignIn = Callable[..., Browser]


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (2465.0, "2,465"), (2465, "2,465"), (1.5, "1.5"), (10**6, "1,000,000")]
)
def test_numbers_are_grouped_and_whole_ones_have_no_decimals(number: float, text: str) -> None:
    assert words.count(number) == text


def test_what_may_be_a_year_or_a_serial_number_stays_as_it_is() -> None:
    assert [words.fact(value) for value in ("x", 2026, 2465.0, True, None, [1])] == [
        *("x", "2026", "2,465", "true", "null", "[1]"),
    ]


@pytest.mark.parametrize(
    ("zone", "shown"), [("Europe/Berlin", "2026-03-02 09:15"), ("America/New_York", "2026-03-02 03:15")]
)
def test_times_are_those_of_the_site(cast: Cast, zone: str, shown: str) -> None:
    app = create_app(replace(SETTINGS, time_zone=zone), Health())
    moment = clock.to_micros(clock.to_datetime(0).replace(year=2026, month=3, day=2, hour=8, minute=15))
    with app.app_context():
        assert shown in words.at(moment)


def test_a_page_with_times_names_their_zone(sign_in_as: SignIn, site: Site) -> None:
    assert "Times are those of UTC" in sign_in_as(Role.VIEWER).get(f"/assets/{site.pallet.id}").text


@pytest.mark.parametrize(
    ("zone", "is_one"), [("Europe/Berlin", True), ("Europe", False), ("../etc", False), ("", False)]
)
def test_what_is_a_zone(zone: str, is_one: bool) -> None:
    assert clock.is_zone(zone) is is_one


def test_labels_carry_the_address_that_was_set(app: Flask, sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.VIEWER)
    paths = {f"/assets/{site.pallet.id}/label": "a/ASSET-0001", f"/locations/{site.dock.id}/label": "l/DOCK-1"}
    assert all(f"http://localhost/{code}" in browser.get(path).text for path, code in paths.items())
    give(app, public_url="https://edge.nord.example")
    assert all(f"https://edge.nord.example/{code}" in browser.get(path).text for path, code in paths.items())


def test_a_page_that_is_not_there_keeps_the_navigation(sign_in_as: SignIn, anybody: Browser) -> None:
    assert 'href="/locations"' in sign_in_as(Role.VIEWER).get("/no-such-page").text
    assert 'href="/locations"' not in anybody.get("/no-such-page").text
