"""Short run of `hostile.py`; the long run takes hours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge.people.people import Role
from tests.pages.conftest import Browser
from tests.security.hostile import run, serving


def test_odd_requests_are_answered(store: object) -> None:
    with serving() as site:
        assert site.bearer
        result = run(site, requests=1_000, seed=1)
    assert {"200", "400", "404"} <= result.statuses.keys()


@pytest.mark.parametrize("at", ["0001-01-01", "0001-01-01T00:00", "1969-12-31T23:59", "9999-12-31T23:59"])
def test_times_outside_the_calendar_are_no_server_error(sign_in_as: Callable[..., Browser], at: str) -> None:
    """Regression: links to the previous day were built from a time outside the calendar."""
    browser = sign_in_as(Role.VIEWER)
    assert browser.get(f"/past?at={at}").status_code == 200
    assert browser.get(f"/export/past.csv?at={at}").status_code == 200
