"""Badges scanned on the scan page are not recorded, and their owners cannot be guessed there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.pages.handhelds import scanned_badges
from edge.people import passwords, people
from edge.people.people import Role
from edge.rate_limits import Buckets
from edge.records import assets
from edge.records.tags import NewTag
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site
from tests.pages.handhelds.test_scan import item, send

SignIn = Callable[..., Browser]
EPC = "3034257BF7194E4000001A85"
BADGE = "BADGE-0815"


@pytest.fixture
def otto(cast: Cast) -> people.PersonRow:
    return people.add_person(shell(cast.acme), "Otto", Role.OPERATOR, badge_hash=passwords.hash_badge(BADGE))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanned_badges, "_answers", Buckets(burst=3, per_second=0.001))


def everything() -> str:
    """Return all rows of all tables as text."""
    tables = [name for (name,) in execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()]
    return str([execute(f"SELECT * FROM {table}").fetchall() for table in tables])


def test_a_badge_in_the_queue_of_a_device_is_stored_nowhere(sign_in_as: SignIn, otto: object, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    unknown = item("2", "NOBODY-KNOWS", site.dock.id)
    assert [row["result"] for row in send(browser, item("1", BADGE, site.dock.id), unknown)] == ["badge", "unknown"]
    assert [row["result"] for row in send(browser, item("1", BADGE, site.dock.id))] == ["badge"]
    assert BADGE not in everything()
    assert "NOBODY-KNOWS" in everything()


def test_many_badges_reveal_and_store_nothing(sign_in_as: SignIn, otto: object, site: Site) -> None:
    browser = sign_in_as(Role.OPERATOR)
    results = [send(browser, item(str(number), BADGE, site.dock.id))[0]["result"] for number in range(5)]
    assert results == ["badge", "badge", "badge", "unknown", "unknown"]
    assert browser.send("/scan/badge", {"code": BADGE}).status_code == 429
    assert BADGE not in everything()


def test_a_device_asks_before_it_stores_a_code(sign_in_as: SignIn, otto: people.PersonRow, cast: Cast) -> None:
    browser = sign_in_as(Role.OPERATOR)
    assert browser.get("/scan/state").json["badges"]["marks"] == []
    answers = [browser.send("/scan/badge", {"code": code}).json for code in (BADGE, "NOBODY-KNOWS")]
    assert answers == [{"badge": True, "person": otto.id}, {"badge": False, "person": None}]
    assert browser.get("/scan/state").json["badges"] == {
        "salt": passwords.badge_mark_salt(),
        "marks": [passwords.badge_mark(BADGE) % 1024],
        "epcs": [],
    }
    like_an_epc = people.add_person(
        shell(cast.acme),
        "Epc",
        Role.OPERATOR,
        badge_hash=passwords.hash_badge(EPC),
        badge_mark=passwords.badge_mark(EPC),
    )
    assert browser.get("/scan/state").json["badges"]["epcs"] == [passwords.badge_mark(EPC) % 1024]
    people.disable_person(shell(cast.acme), like_an_epc.id)
    people.disable_person(shell(cast.acme), otto.id)
    assert browser.get("/scan/state").json["badges"]["marks"] == []


def test_a_badge_of_another_organization_is_not_a_badge_here(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    people.add_person(shell(cast.rival), "Spy", Role.OPERATOR, badge_hash=passwords.hash_badge(BADGE))
    browser = sign_in_as(Role.OPERATOR)
    assert browser.send("/scan/badge", {"code": BADGE}).json == {"badge": False, "person": None}
    assert send(browser, item("1", BADGE, site.dock.id))[0]["result"] == "unknown"


def test_a_tag_that_is_also_a_badge_stays_a_tag(sign_in_as: SignIn, otto: object, cast: Cast, site: Site) -> None:
    assets.attach_tag(shell(cast.acme), site.pallet.id, NewTag("barcode", BADGE))
    assert send(sign_in_as(Role.OPERATOR), item("1", BADGE, site.dock.id))[0]["result"] == "recorded"


def test_marks_are_spread_evenly(store: object) -> None:
    marks = [passwords.badge_mark(str(number)) for number in range(100_000, 110_000)]
    assert {mark // 1024 for mark in marks} == {2}
    assert len(set(marks)) > 1000
    assert max(marks.count(mark) for mark in set(marks)) < 40
