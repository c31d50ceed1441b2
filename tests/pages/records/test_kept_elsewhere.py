"""A record that is kept on another box: its page names the box, and no form here changes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge.audit.actors import shell
from edge.database.connection import execute
from edge.people.people import Role
from edge.records import assets, csv_import, locations
from edge.records.csv_import import NewRecord
from edge.validation.packed_texts import unpack
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site

SignIn = Callable[..., Browser]


@pytest.fixture
def mirrored(site: Site) -> Site:
    for record in (site.cage, site.dock):
        execute("INSERT INTO mirror (record_id, peer, home) VALUES (?, 1, 'BER')", (record.id,))
    return site


def test_its_page_names_the_home(sign_in_as: SignIn, mirrored: Site) -> None:
    browser = sign_in_as(Role.EDITOR)
    for path in (f"/assets/{mirrored.cage.id}", f"/locations/{mirrored.dock.id}"):
        page = browser.get(path).text
        assert "kept at BER" in page
        assert f"{path}/edit" not in page
    assert f"/assets/{mirrored.pallet.id}/edit" in browser.get(f"/assets/{mirrored.pallet.id}").text


def test_no_form_changes_it(sign_in_as: SignIn, cast: Cast, mirrored: Site) -> None:
    browser = sign_in_as(Role.EDITOR)
    tag = mirrored.cage.tags[0].id
    form: dict[str, object] = {"name": "Mine", "external_key": "MINE", "tag_type": "ble", "value": "mine"}
    for path in ("edit", "retire", "restore", "tags", f"tags/{tag}/detach"):
        refused = browser.post(f"/assets/{mirrored.cage.id}/{path}", form)
        assert (refused.status_code, "This record is kept at BER; change it there." in refused.text) == (409, True)
    for path in ("edit", "retire", "tags"):
        assert browser.post(f"/locations/{mirrored.dock.id}/{path}", form).status_code == 409
    assert browser.get(f"/assets/{mirrored.cage.id}/edit").status_code == 409
    assert assets.get(cast.acme, mirrored.cage.id) == mirrored.cage
    assert locations.get(cast.acme, mirrored.dock.id) == mirrored.dock


def test_an_import_names_the_row_and_changes_nothing(sign_in_as: SignIn, cast: Cast, mirrored: Site) -> None:
    execute("UPDATE asset SET external_key = 'CAGE' WHERE id = ?", (mirrored.cage.id,))
    record = NewRecord(2, "CAGE", {"name": "Mine"})
    [outcome] = csv_import.write_records(shell(cast.acme), "asset", [record])
    assert (outcome.result, "kept at BER" in unpack(outcome.reason)) == ("faulty", True)
