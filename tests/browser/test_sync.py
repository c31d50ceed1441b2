"""The page Sync of a hub: what only a person can decide, decided with the mouse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge.audit.actors import shell
from edge.database.connection import writing
from edge.people.secrets import hash_secret
from edge.records import assets
from edge.sync.store import mirrors, sites
from edge.sync.store.exchange import AssetRecord
from tests.browser.conftest import PHONE, Site

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]


def test_a_conflict_ends_by_renaming_and_a_site_goes_after_a_question(enter: Enter, site: Site) -> None:
    ours = site.assets[0]
    ham = sites.add_site(shell(site.organization_id), "HAM", "Hamburg", hash_secret("code"))
    theirs = AssetRecord(7, ours.external_key, "Theirs", None, 1, "{}", 1, None, 1, 1, None, ())
    with writing():
        mirrors.apply(ham.peer, [theirs], [])
    page = enter("ada", "/sync", viewport=PHONE)
    page.get_by_label(f"New key of {ours.name}").fill("OUR-1")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_text("Conflicts")).to_have_count(0)
    assert assets.get(site.organization_id, ours.id).external_key == "OUR-1"
    page.get_by_role("link", name="Remove Hamburg").click()
    page.get_by_role("link", name="Cancel").click()
    assert sites.list_sites(site.organization_id)
    page.get_by_role("link", name="Remove Hamburg").click()
    page.get_by_role("button", name="Remove site").click()
    expect(page.get_by_text("No sites yet")).to_be_visible()
    assert not sites.list_sites(site.organization_id)
