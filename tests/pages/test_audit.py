"""The audit log for administrators, and the history of changes of one record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from flask import Flask

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.people import api_keys, devices, people, sessions
from edge.people.people import Role
from edge.readers import readers
from edge.records import assets
from tests.application import change
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


@pytest.fixture
def admin(sign_in_as: SignIn) -> Browser:
    return sign_in_as(Role.ADMINISTRATOR)


def test_changes_by_a_page_a_form_and_a_shell_are_shown_with_their_actor(
    admin: Browser, cast: Cast, site: Site
) -> None:
    admin.edit(f"/assets/{site.pallet.id}/edit", {"name": "Box", "external_key": "ASSET-0001", "is_active": "on"})
    assets.delete(shell(cast.acme, "root"), site.cage.id)
    page = admin.get("/audit").text
    for expected in ("Asset changed", "name: Pallet 1 → Box", "administrator 1", "Asset deleted", "Shell (root)"):
        assert expected in page


def test_filters_narrow_the_list(admin: Browser, cast: Cast, site: Site) -> None:
    me = people.list_people(cast.acme)[0].id
    admin.post("/assets/new", {"name": "Crate"})
    assert "Crate" in admin.get(f"/audit?actor=person:{me}").text
    assert "Roll cage" not in admin.get(f"/audit?actor=person:{me}").text
    assert "Crate" not in admin.get("/audit?actor=shell:").text
    assert "Roll cage" in admin.get("/audit?kind=asset&q=cage").text
    assert "No matches" in admin.get("/audit?kind=reader").text
    today = clock.rfc3339(clock.now() - clock.DAY)[:10]
    assert "Crate" in admin.get(f"/audit?since={today}").text
    assert "No matches" in admin.get("/audit?until=2001-02-03").text
    assert admin.get("/audit?since=nonsense&until=99999-01-01&offset=-3&actor=x&id=%00").status_code == 200


def test_every_record_links_to_its_history_of_changes(admin: Browser, cast: Cast, site: Site) -> None:
    reader = readers.add_reader(shell(cast.acme), name="Portal", topic="p", format="edge")
    key = api_keys.add_key(shell(cast.acme), "WMS", ["assets:read"], b"hash")
    device = devices.invite(shell(cast.acme), "Gun 1")[0]
    person = people.list_people(cast.acme)[0]
    for shown, kind, record_id in (
        (f"/assets/{site.pallet.id}", "asset", site.pallet.id),
        (f"/locations/{site.dock.id}", "location", site.dock.id),
        (f"/readers/{reader.id}", "reader", reader.id),
        (f"/people/{person.id}/edit", "person", person.id),
        ("/keys", "key", key.id),
        ("/devices", "device", device.id),
    ):
        link = f"/audit?kind={kind}&amp;id={record_id}"
        assert link in admin.get(shown).text
        assert f"{kind} created" in admin.get(link.replace("&amp;", "&")).text.lower()


def test_the_page_is_in_the_language_of_the_browser_with_texts_for_its_scripts(admin: Browser, site: Site) -> None:
    execute("UPDATE audit SET actor_kind = 'api_key', actor_name = 'WMS' WHERE no = (SELECT max(no) FROM audit)")
    page = admin.get("/audit", headers={"Accept-Language": "de"}).text
    for expected in ("<h1>Änderungsprotokoll</h1>", "Alle Änderungen, und von wem.", ">API-Schlüssel<"):
        assert expected in page
    assert re.search(r"1 bis (\d+) von \1 Änderungen", page)
    assert "API-Schlüssel WMS" in page
    texts = json.loads(page.split('id="texts">')[1].split("</script>")[0])
    assert texts["Copied"] == "Kopiert"
    assert "Where are you scanning?" not in texts  # of handhelds
    assert 'id="texts"' not in admin.get("/audit").text


def test_only_administrators_are_led_there(sign_in_as: SignIn, site: Site) -> None:
    editor = sign_in_as(Role.EDITOR)
    assert "/audit" not in editor.get(f"/assets/{site.pallet.id}").text
    assert editor.get("/audit").status_code == 403


def test_nothing_of_another_organization_is_shown(admin: Browser, cast: Cast) -> None:
    theirs = assets.create(shell(cast.rival), name="Their secret")
    assert "Their secret" not in admin.get("/audit").text
    assert "No matches" in admin.get(f"/audit?id={theirs.id}").text


def test_wrong_passwords_of_unknown_accounts_are_under_this_box(admin: Browser) -> None:
    sessions.refuse(None, None, "10.9.8.7")
    page = admin.get("/audit?kind=box").text
    assert "Person sign in refused" in page
    assert "10.9.8.7" in page


def test_long_lists_come_in_pages_that_keep_the_filter(admin: Browser, cast: Cast) -> None:
    for number in range(60):
        assets.create(shell(cast.acme), name=f"Thing {number:02}")
    first = admin.get("/audit?kind=asset").text
    assert "1 to 50 of 60 changes" in first
    assert "/audit?kind=asset&amp;offset=50" in first
    assert "51 to 60 of 60 changes" in admin.get("/audit?kind=asset&offset=50").text


def test_names_are_escaped(admin: Browser, cast: Cast) -> None:
    assets.create(shell(cast.acme, "<b>"), name="<script>alert(1)</script>", description="<img src=x>")
    page = admin.get("/audit?q=%3Cscript").text
    assert "&lt;script&gt;" in page
    assert "<script>alert" not in page
    assert "<img" not in page


def test_days_of_the_audit_are_those_of_the_site(app: Flask, admin: Browser, cast: Cast, site: Site) -> None:
    """The last Sunday in March has 23 hours in Berlin and begins an hour before the day in UTC."""
    for hour, name in ((-2, "Before"), (0, "First"), (22, "Last"), (23, "After")):
        moment = clock.to_micros(datetime(2026, 3, 28, 23, tzinfo=UTC)) + hour * clock.HOUR
        assets.create(shell(cast.acme), name=name)
        execute("UPDATE audit SET at = ? WHERE no = (SELECT max(no) FROM audit)", (moment,))
    change(app, pages_time_zone="Europe/Berlin")
    text = admin.get("/audit?since=2026-03-29&until=2026-03-29").text
    assert [name for name in ("Before", "First", "Last", "After") if f">{name}" in text] == ["First", "Last"]
    assert admin.get("/audit?since=0001-01-01&until=9999-12-31").status_code == 200
