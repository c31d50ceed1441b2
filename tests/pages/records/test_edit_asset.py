"""Concurrent edits, double clicks, sessions that expire during input, and restoring a retired asset."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import pytest
from flask import Flask

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.events.log import KINDS
from edge.pages import double_submit
from edge.pages.cookies import FORM as FORM_COOKIE
from edge.pages.kept_values import KeptValues
from edge.people import people
from edge.people.people import Role
from edge.people.sign_in import csrf_token
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import board
from edge.tracking.board import BoardFilter
from tests.conftest import Cast
from tests.pages.conftest import Browser, SignIn, Site, opened_with, see


class TestTwoEditors:
    def test_the_second_save_sees_both_values_and_wipes_nothing(
        self, sign_in_as: SignIn, cast: Cast, site: Site
    ) -> None:
        path, first, second = f"/assets/{site.pallet.id}/edit", sign_in_as(Role.EDITOR), sign_in_as(Role.EDITOR)
        opened = {"external_key": "ASSET-0001", "opened": opened_with(second.get(path).text), "is_active": "on"}
        assert first.post(path, {**opened, "name": "Hers"}).status_code == 303
        answer = second.post(path, {**opened, "name": "His", "description": "typed"})
        assert answer.status_code == 409
        assert "saved: <b>Hers</b>" in answer.text
        assert 'value="His"' in answer.text
        assert ">typed</textarea>" in answer.text
        assert assets.get(cast.acme, site.pallet.id).name == "Hers"
        again = {**opened, "name": "His", "description": "typed", "opened": opened_with(answer.text)}
        assert second.post(path, again).status_code == 303
        assert assets.get(cast.acme, site.pallet.id).name == "His"

    def test_fields_changed_by_one_editor_are_merged(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        path, browser = f"/assets/{site.pallet.id}/edit", sign_in_as(Role.EDITOR)
        opened = {"name": "Pallet 1", "external_key": "ASSET-0001", "opened": opened_with(browser.get(path).text)}
        assets.patch(shell(cast.acme), site.pallet.id, {"description": "by the API"})
        assets.attach_tag(shell(cast.acme), site.pallet.id, NewTag("ble", "AA:BB"))
        assert browser.post(path, {**opened, "name": "Mine", "is_active": "on"}).status_code == 303
        asset = assets.get(cast.acme, site.pallet.id)
        assert (asset.name, asset.description, len(asset.tags)) == ("Mine", "by the API", 2)

    def test_only_fields_changed_by_both_are_asked_for(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        """The form already has their description, and a field that both changed to the same value is no conflict."""
        path, browser = f"/assets/{site.pallet.id}/edit", sign_in_as(Role.EDITOR)
        opened = {"external_key": "ASSET-0001", "opened": opened_with(browser.get(path).text)}
        theirs = {"name": "Theirs", "description": "their text", "is_active": False}
        assets.patch(shell(cast.acme), site.pallet.id, theirs)
        answer = browser.post(path, {**opened, "name": "Mine"})  # the box "In use" is not ticked here either
        assert answer.status_code == 409
        assert re.findall(r"<dt>([^<]+)</dt><dd>saved: <b>([^<]+)</b>", answer.text) == [("Name", "Theirs")]
        assert ">their text</textarea>" in answer.text

    def test_edits_of_a_location_and_its_parent_are_merged(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        browser, path = sign_in_as(Role.EDITOR), f"/locations/{site.dock.id}/edit"
        opened = {"name": "Dock 1", "external_key": "DOCK-1", "is_active": "on"}
        opened["opened"] = opened_with(browser.get(path).text)
        assert browser.post(path, {**opened, "parent_id": site.rack.id}).status_code == 303
        assert browser.post(path, {**opened, "name": "Dock One", "parent_id": site.hall.id}).status_code == 303
        dock = locations.get(cast.acme, site.dock.id)
        assert (dock.name, dock.parent_id) == ("Dock One", site.rack.id)  # only the first editor changed the parent
        answer = browser.post(path, opened)
        assert answer.status_code == 409
        assert "saved: <b>RACK-A</b>" in answer.text
        assert "saved: <b>Dock One</b>" not in answer.text  # this form did not change the name

    def test_a_form_without_its_original_values_overwrites_nothing(
        self, sign_in_as: SignIn, cast: Cast, site: Site
    ) -> None:
        assets.patch(shell(cast.acme), site.cage.id, {"description": "by the API"})
        for opened in ("", "[]", "[" * 9999, "nonsense"):
            entered = {"name": "Mine", "external_key": "ASSET-0002", "opened": opened}
            answer = sign_in_as(Role.EDITOR).post(f"/assets/{site.cage.id}/edit", entered)
            assert answer.status_code == 409
            assert "saved: <b>by the API</b>" in answer.text


class TestDoubleClick:
    def test_a_form_that_is_sent_twice_is_done_once(self, sign_in_as: SignIn, cast: Cast) -> None:
        browser = sign_in_as(Role.EDITOR)
        entered = {"name": "Once", "once": "a-form"}
        clients = [Browser(browser.client.application, browser.token) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda client: client.post("/assets/new", entered), clients))
        assert len({answer.location for answer in answers}) == 1
        assert board.board(cast.acme, BoardFilter(), limit=10).total_count == 1

    def test_a_form_that_was_refused_can_be_sent_again(self, sign_in_as: SignIn, cast: Cast) -> None:
        browser = sign_in_as(Role.EDITOR)
        assert browser.post("/assets/new", {"name": "", "once": "b"}).status_code == 400
        assert browser.post("/assets/new", {"name": "Now", "once": "b"}).status_code == 303

    def test_an_unknown_form_name_is_not_remembered(self, sign_in_as: SignIn, cast: Cast) -> None:
        browser = sign_in_as(Role.EDITOR)
        for _ in range(2):
            browser.post("/assets/new", {"name": "Twice", "once": "x" * 100_000})
        assert board.board(cast.acme, BoardFilter(), limit=10).total_count == 2

    def test_a_person_and_a_reader_are_created_once(self, admin: Browser) -> None:
        for path, entered in (
            ("/people/new", {"name": "Twin", "role": "operator"}),
            ("/readers/new", {"name": "Twin", "topic": "a/twin", "format": "csl"}),
        ):
            assert {admin.post(path, {**entered, "once": "twin"}).status_code for _ in range(2)} == {303}
            assert admin.get(path.removesuffix("/new")).text.count(">Twin<") == 1

    @pytest.mark.parametrize(
        ("path", "entered"),
        [
            ("/keys/new", {"name": "Twin", "assets": "read"}),
            ("/devices", {"name": "Twin"}),
            ("/sync/sites", {"name": "Twin", "code": "TWIN"}),
            (
                "/event-destinations/new",
                {"name": "Twin", "url": "https://a.test", "events": list(KINDS)},
            ),
        ],
    )
    def test_a_record_with_a_secret_is_created_once_and_shows_it_twice(
        self, admin: Browser, monkeypatch: pytest.MonkeyPatch, path: str, entered: dict[str, object]
    ) -> None:
        first, second = (admin.post(path, {**entered, "once": path}) for _ in range(2))
        assert (first.status_code, second.status_code) == (200, 200)
        assert first.text == second.text
        assert execute("SELECT count(*) FROM audit WHERE subject_name = 'Twin'").fetchone() == (1,)
        later = time.monotonic() + double_submit.PAGE_SECONDS + 1
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert "This form was already sent" in admin.post(path, {**entered, "once": path}).text

    @pytest.mark.parametrize(
        "path",
        [
            *("/assets/new", "/locations/new", "/people/new", "/readers/new"),
            *("/keys/new", "/devices", "/sync", "/event-destinations/new"),
        ],
    )
    def test_every_form_that_is_opened_has_its_own_name(self, admin: Browser, path: str) -> None:
        names = {re.findall(r'name="once" value="([^"]+)"', admin.get(path).text)[0] for _ in range(2)}
        assert len(names) == 2


class TestSessionThatEnded:
    def post(self, browser: Browser, path: str, entered: dict[str, object], origin: str = "http://localhost"):  # type: ignore[no-untyped-def]
        return browser.client.post(path, data=entered, headers={"Origin": origin})

    def test_an_origin_that_is_none_keeps_nothing(self, app: Flask) -> None:
        answer = self.post(Browser(app), "/assets/new", {"name": "x"}, origin="http://[")
        assert (answer.status_code, 'name="kept"' in answer.text) == (401, False)

    def test_input_is_preserved_by_a_new_sign_in(self, app: Flask, cast: Cast, site: Site) -> None:
        browser = Browser(app)
        typed = {"name": 'The "long" <story>', "csrf": "of an ended session", "external_key": "KEPT-1"}
        answer = self.post(browser, "/assets/new", typed)
        assert answer.status_code == 401
        kept = unescape(re.findall(r'name="kept" value="([^"]+)"', answer.text)[0])
        assert "of an ended session" not in kept
        cookie = browser.client.get_cookie(FORM_COOKIE)
        assert cookie
        form = {"csrf": csrf_token(cookie.value), "kept": kept, "email": "ed@acme.example", "password": "wrong"}
        refused = browser.client.post("/sign-in", data=form)
        assert "KEPT-1" in refused.text
        assert browser.client.post("/sign-in", data={**form, "continue": "1"}).status_code == 200

    def test_a_form_of_the_previous_session_can_be_sent(self, sign_in_as: SignIn, cast: Cast) -> None:
        browser = sign_in_as(Role.EDITOR)
        answer = self.post(browser, "/assets/new", {"name": "Still here", "csrf": "stale"})
        assert answer.status_code == 403
        assert 'name="name" value="Still here"' in answer.text
        assert browser.post("/assets/new", {"name": "Still here"}).status_code == 303

    def test_nothing_of_another_site_is_stored(self, sign_in_as: SignIn, anybody: Browser) -> None:
        for browser in (anybody, sign_in_as(Role.EDITOR)):
            answer = self.post(browser, "/assets/new", {"name": "Evil words"}, "http://evil.example")
            assert answer.status_code in (401, 403)
            assert "Evil words" not in answer.text

    def test_no_secret_is_carried_along(self, anybody: Browser) -> None:
        typed = {"present": "old-secret", "password": "new-secret", "again": "new-secret"}
        assert "secret" not in self.post(anybody, "/account", typed).text


class TestRestoring:
    def test_a_retired_asset_comes_back_with_its_tags(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        detached = assets.attach_tag(shell(cast.acme), site.pallet.id, NewTag("barcode", "DETACHED"))
        assets.detach_tag(shell(cast.acme), site.pallet.id, detached.id)
        browser = sign_in_as(Role.EDITOR)
        browser.post(f"/assets/{site.pallet.id}/retire")
        assert "4006381333931" in browser.get(f"/assets/{site.pallet.id}").text
        assert browser.post(f"/assets/{site.pallet.id}/restore").status_code == 303
        asset = assets.get(cast.acme, site.pallet.id)
        assert [tag.value for tag in asset.tags] == ["4006381333931"]
        assert board.board(cast.acme, BoardFilter(q="4006381333931"), limit=1).total_count == 1

    def test_not_while_another_has_its_key_or_tag(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        browser = sign_in_as(Role.EDITOR)
        for asset in (site.pallet, site.cage):
            browser.post(f"/assets/{asset.id}/retire")
        assets.create(shell(cast.acme), name="New", external_key=site.pallet.external_key)
        assets.create(
            shell(cast.acme), name="Other", external_key="OTHER", tags=[NewTag("rfid", "E28011700000020A7B2C3D4E")]
        )
        key = browser.post(f"/assets/{site.pallet.id}/restore")
        tag = browser.post(f"/assets/{site.cage.id}/restore")
        assert (key.status_code, tag.status_code) == (409, 409)
        assert "ASSET-0001" in key.text
        assert "belongs to another record" in tag.text

    def test_a_viewer_and_another_organization_do_not(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        assets.delete(shell(cast.acme), site.pallet.id)
        path = f"/assets/{site.pallet.id}/restore"
        assert sign_in_as(Role.OPERATOR).post(path).status_code == 403
        assert sign_in_as(Role.EDITOR, organization_id=cast.rival).post(path).status_code == 404


def test_a_form_without_its_original_values_changes_nothing(admin: Browser, cast: Cast, site: Site) -> None:
    reader = readers.add_reader(shell(cast.acme), name="Portal", topic="t", format="edge")
    person = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    for path, entered in {
        f"/assets/{site.pallet.id}/edit": {"name": "Other", "external_key": site.pallet.external_key},
        f"/locations/{site.dock.id}/edit": {"name": "Other", "external_key": site.dock.external_key},
        f"/readers/{reader.id}/edit": {"name": "Other", "topic": "t", "format": "edge"},
        f"/people/{person.id}/edit": {"name": "Other", "role": "operator"},
    }.items():
        answer = admin.post(path, {**entered})
        assert (answer.status_code, "saved: <b>" in answer.text) == (409, True), path


class TestEditing:
    def test_an_asset_is_created_with_its_tag(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        browser = sign_in_as(Role.EDITOR)
        entered = {"name": "New one", "is_active": "on", "tag_type": "barcode", "tag_value": "4711"}
        made = browser.post("/assets/new", entered)
        asset = assets.get(cast.acme, int(made.location.split("?")[0].rsplit("/", 1)[1]))
        assert (asset.name, asset.external_key, [tag.value for tag in asset.tags]) == (
            "New one",
            "ASSET-0003",
            ["4711"],
        )

    @pytest.mark.parametrize(
        ("entered", "status", "fault"),
        [
            ({"name": ""}, 400, "name must"),
            ({"name": "ok", "external_key": "not ok"}, 400, "external_key"),
            ({"name": "ok", "external_key": "ASSET-0001"}, 409, "already exists"),
            ({"name": "ok", "tag_type": "barcode", "tag_value": "4006381333931"}, 409, "already exists"),
            ({"name": "ok", "tag_type": "smell", "tag_value": "x"}, 400, "tag_type"),
        ],
    )
    def test_the_rules_are_those_of_the_api(
        self, sign_in_as: SignIn, cast: Cast, site: Site, entered: dict[str, str], status: int, fault: str
    ) -> None:
        answer = sign_in_as(Role.EDITOR).post("/assets/new", entered)
        assert answer.status_code == status
        assert fault in answer.text
        assert board.board(cast.acme, BoardFilter(), limit=10).total_count == 2

    def test_an_asset_is_changed_and_renamed_together_or_not_at_all(
        self, sign_in_as: SignIn, cast: Cast, site: Site
    ) -> None:
        browser, path = sign_in_as(Role.EDITOR), f"/assets/{site.pallet.id}/edit"
        entered = {"name": "Changed", "description": "two\r\nlines", "external_key": "ASSET-0002"}
        entered["opened"] = opened_with(browser.get(path).text)
        assert browser.post(path, entered).status_code == 409
        assert assets.get(cast.acme, site.pallet.id).name == "Pallet 1"
        assert browser.post(path, {**entered, "external_key": "P-1"}).status_code == 303
        asset = assets.get(cast.acme, site.pallet.id)
        fields = (asset.name, asset.description, asset.external_key, bool(asset.is_active))
        assert fields == ("Changed", "two\nlines", "P-1", False)

    def test_a_retired_asset_disappears_and_its_tag_is_free(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        browser = sign_in_as(Role.EDITOR)
        assert browser.post(f"/assets/{site.pallet.id}/retire").status_code == 303
        assert "retired" in browser.get(f"/assets/{site.pallet.id}").text
        assert "Pallet 1" not in browser.get("/").text
        assert "Pallet 1" in browser.get("/?show=retired&q=pallet").text
        assert browser.get(f"/assets/{site.pallet.id}/edit").status_code == 404
        entered = {"tag_type": "barcode", "value": "4006381333931"}
        assert browser.post(f"/assets/{site.cage.id}/tags", entered).status_code == 303

    def test_a_location_with_assets_is_not_retired(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        see(cast.acme, site.cage.id, site.rack.id, clock.now())
        browser = sign_in_as(Role.EDITOR)
        assert "placed at it" in browser.post(f"/locations/{site.rack.id}/retire").text
        assert "descendant" in browser.post(f"/locations/{site.hall.id}/retire").text
        assert browser.post(f"/locations/{site.dock.id}/retire").status_code == 303

    def test_a_location_cannot_be_put_into_itself(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        browser, path = sign_in_as(Role.EDITOR), f"/locations/{site.hall.id}/edit"
        assert f'<option value="{site.rack.id}"' not in browser.get(path).text
        entered = {"name": "Hall 1", "external_key": "HALL-1", "parent_id": site.rack.id}
        entered["opened"] = opened_with(browser.get(path).text)
        answer = browser.post(path, entered)
        assert answer.status_code == 409
        assert "ycle" in answer.text


METADATA = '{"size_mm":[800,720],"rate":1.50,"by":{"x":1},"maker":"Wanzl"}'


def test_metadata_is_changed_as_fields(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    assets.patch(shell(cast.acme), site.cage.id, {"metadata": METADATA})
    editor, path = sign_in_as(Role.EDITOR), f"/assets/{site.cage.id}"
    form = editor.get(f"{path}/edit").text
    assert 'name="metadata.size_mm"' in form
    assert 'name="metadata.by"' not in form
    entered = {"name": "Roll cage", "external_key": site.cage.external_key, "is_active": "on"}
    metadata = {"metadata.size_mm": "800\r\n720", "metadata.rate": "1.50", "metadata.maker": "Brix", "metadata.by": "x"}
    assert editor.edit(f"{path}/edit", {**entered, **metadata}).status_code == 303
    assert assets.get(cast.acme, site.cage.id).metadata == METADATA.replace("Wanzl", "Brix")
    refused = editor.edit(f"{path}/edit", {**entered, **metadata, "metadata.rate": "much"})
    assert refused.status_code == 400
    assert "Enter a number" in refused.text
    assert 'value="much"' in refused.text


def test_metadata_of_a_client_is_not_overwritten_by_an_open_form(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    assets.patch(shell(cast.acme), site.cage.id, {"metadata": METADATA})
    editor, path = sign_in_as(Role.EDITOR), f"/assets/{site.cage.id}/edit"
    opened = opened_with(editor.get(path).text)
    by_client = METADATA.replace("1.50", "2").replace("{", '{"new":"a",', 1)
    assets.patch(shell(cast.acme), site.cage.id, {"metadata": by_client})
    entered = {"opened": opened, "name": "Roll cage", "external_key": site.cage.external_key, "is_active": "on"}
    metadata = {"metadata.size_mm": "800\n720", "metadata.rate": "1.50", "metadata.maker": "Brix"}
    assert editor.post(path, {**entered, **metadata}).status_code == 303
    assert assets.get(cast.acme, site.cage.id).metadata == by_client.replace("Wanzl", "Brix")
    clash = editor.post(path, {**entered, **metadata, "metadata.rate": "3"})
    assert clash.status_code == 409
    assert "saved: <b>2</b>" in clash.text


def test_few_pages_are_kept_for_a_second_submission(admin: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """They show secrets, and an administrator could fill the memory with those of 2,000 forms."""
    pages_kept: KeptValues[str] = KeptValues(double_submit.PAGE_SECONDS, 2)
    monkeypatch.setattr(double_submit, "_pages", pages_kept)
    forms: list[dict[str, object]] = [{"name": f"Handheld {number}", "once": f"kept {number}"} for number in range(3)]
    pages = [admin.post("/devices", form).text for form in forms]
    assert "This form was already sent" in admin.post("/devices", forms[0]).text
    assert [admin.post("/devices", form).text for form in forms[1:]] == pages[1:]
    later = time.monotonic() + double_submit.PAGE_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    admin.post("/devices", {"name": "Handheld 4", "once": "kept 4"})
    assert len(pages_kept._values) == 1, "older pages are dropped at once"


GERMAN = {"Accept-Language": "de"}


class TestLanguages:
    def test_the_form_and_its_errors_are_in_the_language_of_the_browser(self, sign_in_as: SignIn, site: Site) -> None:
        browser = sign_in_as(Role.EDITOR)
        path = "/assets/new"
        assert "<h1>Neues Objekt</h1>" in browser.get(path, headers=GERMAN).text
        form = {"name": "", "external_key": "not a key", "is_active": "on"}
        german = browser.client.post(path, data={"csrf": csrf_token(browser.token), **form}, headers=GERMAN).text
        assert "Name darf nicht leer sein" in german
        assert "Kennung: nur Buchstaben ohne Umlaute, Ziffern und Bindestriche" in german
        english = browser.post(path, form).text
        assert "name must have at least 1 character" in english
        assert "external_key may contain letters, digits and hyphens only" in english

    def test_a_taken_key_is_named_in_each_language_at_its_field(self, sign_in_as: SignIn, site: Site) -> None:
        browser = sign_in_as(Role.EDITOR)
        form = {"csrf": csrf_token(browser.token), "name": "Box", "external_key": "ASSET-0001"}
        page = browser.client.post("/assets/new", data=form, headers=GERMAN).text
        assert '<p class="error" id="external_key-error">Die Kennung ASSET-0001 gibt es schon.</p>' in page

    def test_clashes_are_shown_in_the_language_of_the_browser(self, sign_in_as: SignIn, cast: Cast, site: Site) -> None:
        path, browser = f"/assets/{site.pallet.id}/edit", sign_in_as(Role.EDITOR)
        opened = {"external_key": "ASSET-0001", "opened": opened_with(browser.get(path).text), "name": "Pallet 1"}
        assets.patch(shell(cast.acme), site.pallet.id, {"name": "Theirs"})
        form = {"csrf": csrf_token(browser.token), **opened, "name": "Mine", "is_active": "on"}
        page = browser.client.post(path, data=form, headers=GERMAN).text
        assert "Jemand anderes hat dasselbe Feld geändert" in page
        assert "gespeichert: <b>Theirs</b>" in page

    def test_metadata_and_numbers_are_as_usual_in_the_language(
        self, sign_in_as: SignIn, cast: Cast, site: Site
    ) -> None:
        assets.patch(shell(cast.acme), site.pallet.id, {"metadata": '{"fragile":true,"seals":[{"intact":false}]}'})
        browser = sign_in_as(Role.EDITOR)
        page = browser.get(f"/assets/{site.pallet.id}", headers=GERMAN).text
        assert '<dd class="lines">ja</dd>' in page
        assert "Intact: nein" in page
        assert '<dd class="lines">yes</dd>' in browser.get(f"/assets/{site.pallet.id}").text

    def test_unsaved_input_names_its_fields_in_the_language(self, sign_in_as: SignIn, site: Site) -> None:
        browser, form = sign_in_as(Role.EDITOR), {"csrf": "of another session", "name": "Box", "external_key": "K-1"}
        headers = {"Origin": "http://localhost"}
        page = browser.client.post("/assets/new", data=form, headers={**headers, **GERMAN}).text
        assert "<h1>Nicht gespeicherte Eingaben</h1>" in page
        assert "<dt>Kennung</dt><dd>K-1</dd>" in page
        assert (
            "<dt>External key</dt><dd>K-1</dd>" in browser.client.post("/assets/new", data=form, headers=headers).text
        )
