"""The board of a hub shows all sites or one; its download has the same rows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from edge import clock
from edge.audit import actors
from edge.people import people, sessions
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.sync.store import sites
from tests.application import make_app
from tests.pages.conftest import Browser
from tests.sync.test_hub import Company
from tests.sync.world import Hub

HOUR = clock.HOUR


def sign_in(hub: Hub) -> Browser:
    person = people.add_person(hub.actor, "Ann", Role.VIEWER)
    actor = actors.person(hub.organization_id, person.id, person.name)
    sessions.add_session(actor, hash_secret("token"), clock.now() + HOUR)
    return Browser(make_app(), "token")


def text_of(browser: Browser, path: str) -> str:
    with closing(browser.get(path)) as answer:  # a download holds one of the person's slots until it is complete
        return answer.text


def test_the_board_and_its_csv_show_the_site_that_was_chosen(tmp_path: Path) -> None:
    company = Company(tmp_path)
    at_ber, at_ham = company.ber.add_asset("P-BER"), company.ham.add_asset("P-HAM")
    company.ber.scan(at_ber, 0, clock.now() - HOUR)
    company.ham.scan(at_ham, 1, clock.now() - HOUR)
    company.settle()
    with company.hub.in_use() as hub:
        browser = sign_in(company.hub)
        ber, ham = (sites.find_by_code(hub.organization_id, code).location_id for code in ("BER", "HAM"))
        for path in ("/", "/board/rows", "/export/board.csv"):
            shown = {
                site: [key for key in ("P-BER", "P-HAM") if key in text_of(browser, f"{path}?site={site or ''}")]
                for site in (None, ber, ham)
            }
            assert shown == {None: ["P-BER", "P-HAM"], ber: ["P-BER"], ham: ["P-HAM"]}, path
        assert "BER-DOCK-0" in text_of(browser, f"/export/board.csv?site={ber}")
        assert f"/export/board.csv?site={ber}" in text_of(browser, f"/?site={ber}")
