"""The way of a scan through the code stays short. A change that needs more raises a number and says why."""

from __future__ import annotations

from edge import clock
from edge.people.people import Role
from tests import ways
from tests.pages.conftest import SignIn, Site


def test_a_scan_with_a_handheld(sign_in_as: SignIn, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    numbers = iter(range(10))

    def scan() -> None:
        number, now = next(numbers), clock.now() // 1000
        item = {"id": f"scan-no-{number}", "code": "4006381333931", "location": site.dock.id}
        item["at"] = now - 1000 * (10 - number)  # each later than the last: a late one goes another way
        browser.send("/scan/batch", {"sent_at": now, "items": [item]})

    files, functions = ways.of(scan)
    assert files <= 34
    assert functions <= 122
