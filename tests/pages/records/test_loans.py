"""Lending and returning on the page of an asset."""

from __future__ import annotations

import pytest

from edge import clock
from edge.people.people import Role
from edge.records import loans
from tests.conftest import Cast
from tests.pages.conftest import SignIn, Site
from tests.records.lending import lend_until_yesterday


def test_an_operator_lends_and_returns(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    operator, path = sign_in_as(Role.OPERATOR), f"/assets/{site.cage.id}"
    today = f"{clock.to_datetime(clock.now()):%Y-%m-%d}"
    assert operator.post(f"{path}/loan", {"borrower": "Workshop", "due": today}).location == f"{path}?done=lent"
    loan = loans.find(cast.acme, site.cage.id)
    assert loan
    assert loan.last_moment
    assert not loan.is_overdue
    shown = operator.get(path).text
    assert "Workshop" in shown
    assert today in shown
    assert operator.post(f"{path}/loan/end").location == f"{path}?done=returned"
    assert "Workshop" not in operator.get(path).text


def test_wrong_input_stays_in_the_form(sign_in_as: SignIn, site: Site) -> None:
    operator, path = sign_in_as(Role.OPERATOR), f"/assets/{site.cage.id}"
    answer = operator.post(f"{path}/loan", {"borrower": "Workshop", "due": "2020-01-01"})
    assert answer.status_code == 400
    assert 'value="Workshop"' in answer.text
    assert "Choose a day from today on" in answer.text
    assert "Choose a day<" in operator.post(f"{path}/loan", {"borrower": "Workshop", "due": "soon"}).text


def test_lists_show_overdue_assets(sign_in_as: SignIn, cast: Cast, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    lend_until_yesterday(monkeypatch, cast.acme, site.cage.id)
    viewer = sign_in_as(Role.VIEWER)
    for path in ("/", "/board/rows", "/?show=overdue", f"/assets/{site.cage.id}"):
        assert '<span class="pill bad">overdue</span>' in viewer.get(path).text
    assert "Pallet 1" not in viewer.get("/?show=overdue").text
    assert "ASSET-0002" in viewer.get("/export/board.csv?show=overdue").text
    assert "Lend" not in viewer.get(f"/assets/{site.pallet.id}").text


def test_overdue_loans_are_on_the_home_page(
    sign_in_as: SignIn, cast: Cast, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = sign_in_as(Role.VIEWER)
    assert "Overdue loans" not in viewer.get("/home").text
    lend_until_yesterday(monkeypatch, cast.acme, site.cage.id)
    assert "Overdue loans" in viewer.get("/home").text
