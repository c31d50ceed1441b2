"""The page Sync of a hub: decisions of a person, made with the mouse."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute, writing
from edge.people.secrets import hash_secret
from edge.records import assets
from edge.sync import batch_format, enrollment, preview
from edge.sync.store import site_health, sites
from edge.sync.store.exchange import AssetRecord
from edge.sync.store.site_health import SiteHealth
from tests.browser.conftest import PHONE, Site
from tests.sync.world import apply_records

pytestmark = pytest.mark.browser
Enter = Callable[..., Page]


def test_a_conflict_ends_by_renaming_and_a_site_goes_after_a_question(enter: Enter, site: Site) -> None:
    ours = site.assets[0]
    ham = sites.add_site(shell(site.organization_id), "HAM", "Hamburg", hash_secret("code"))
    theirs = AssetRecord(7, ours.external_key, "Theirs", None, 1, "{}", 1, None, 1, 1, None, ())
    with writing():
        apply_records(ham.peer, theirs)
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


@pytest.mark.parametrize("viewport", [PHONE, {"width": 1440, "height": 900}])
def test_before_joining_the_clashes_are_shown_and_their_keys_prefixed(
    enter: Enter, site: Site, monkeypatch: pytest.MonkeyPatch, viewport: ViewportSize
) -> None:
    first, second = site.assets[:2]

    def ask(body: bytes) -> Any:
        found = [
            record for record in batch_format.unpack(body) if record[2] in (first.external_key, second.external_key)
        ]
        clashes = [[record[0], record[1], "key", record[2], "Theirs", "BER", False] for record in found]
        return {"code": "HAM", "hub_name": "Head office", "hub_id": "", "clashes": clashes}

    def compare(organization_id: int, _: enrollment.JoinCode, seconds: float, *_network: object) -> preview.Preview:
        return preview.compare(organization_id, ask, seconds)

    monkeypatch.setattr("edge.sync.enrollment.compare", compare)
    page = enter("ada", "/sync", viewport=viewport)
    page.get_by_label("Join code").fill(enrollment.write_code(enrollment.JoinCode("https://hub.example", "secret", "")))
    page.get_by_role("button", name="Show what clashes").click()
    expect(page.get_by_role("heading", name="Join Head office as HAM")).to_be_visible()
    expect(page.locator("#clashes tbody tr")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/preview-{viewport['width']}.png", full_page=True)
    assert page.get_by_label("Prefix").input_value() == "HAM-"
    page.get_by_role("button", name="Prefix keys").click()
    expect(page.get_by_text("Keys changed: 2.")).to_be_visible()
    expect(page.locator("#clashes")).to_have_count(0)
    assert assets.get(site.organization_id, first.id).external_key == f"HAM-{first.external_key}"


def test_a_site_is_renamed_and_retired_with_the_mouse(enter: Enter, site: Site) -> None:
    for code, name in (("HAM", "Hamburg"), ("BER", "Berlin")):
        sites.add_site(shell(site.organization_id), code, name, hash_secret(code))
    page = enter("ada", "/sync", viewport=PHONE)
    page.get_by_role("link", name="Edit Hamburg").click()
    page.get_by_label("Name", exact=True).fill("Hamburg Port")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="Edit Hamburg Port").click()
    if folder := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=f"{folder}/edit-site-390.png", full_page=True)
    page.get_by_role("button", name="Retire site").click()
    expect(page.get_by_text("retired", exact=True)).to_be_visible()


@pytest.mark.parametrize("width", [390, 1440])
def test_the_health_of_sites_fits_and_is_readable(enter: Enter, site: Site, width: int) -> None:
    now = clock.now() // clock.SECOND
    reports = {
        "Berlin": ({}, 0.2),
        "Hamburg, a site with a long name at the harbor": ({"backup": 2, "clock-kept": 1, "reader-qos": 1}, 0.2),
        "Munich": ({"disk": 1}, 30 * 24.0),
    }
    for number, (name, (findings, hours)) in enumerate(reports.items()):
        made = sites.add_site(shell(site.organization_id), f"S{number}", name, name.encode())
        sites.join(name.encode(), name.encode())
        sites.note_contact(made.no, {}, 100)
        health = SiteHealth("0.2.0", findings, now, now + 40 * 86400, now - int(hours * 3600), 12_000, 3400)
        site_health.keep(made.no, health)
    with writing():
        execute("UPDATE site SET last_contact_at = ? WHERE code = 'S2'", (clock.now() - 5 * clock.HOUR,))
    page = enter("ada", "/sync", viewport={"width": width, "height": 900})
    rows = page.locator("#health tbody tr")
    expect(rows.first).to_contain_text("silent since")
    expect(rows.nth(1)).to_contain_text("Hamburg")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
