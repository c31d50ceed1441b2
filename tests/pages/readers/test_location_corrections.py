"""A technician corrects history on the page of a reader: first a preview, then one click."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.audit.trail import recent
from edge.clock import SECOND
from edge.ingest.messages import Message
from edge.people.people import Role
from edge.readers import location_corrections, readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking.report import AssetLocationFilter, list_asset_locations
from tests.conftest import Cast
from tests.ingest.site import csl, pipeline, seen
from tests.pages.conftest import Browser

EPC = "30AC00000000000000000001"


@pytest.fixture
def wrong(cast: Cast) -> dict[str, int]:
    """A pallet that was read for a minute by a reader with the wrong location."""
    actor = shell(cast.acme)
    yard, dock = (locations.create(actor, name=name).id for name in ("Yard", "Dock 9"))
    reader = readers.add_reader(actor, name="gate", topic="g/reads", format="csl", location_id=yard).id
    assets.create(actor, name="Pallet 9", tags=[NewTag("rfid", EPC)])
    line, now = pipeline(), clock.now() // SECOND * SECOND
    for second in range(-60, 0):
        at = now + second * SECOND
        line.handle([Message("g/reads", csl(seen(EPC, at)), at)])
    return {"yard": yard, "dock": dock, "reader": reader}


def where(organization_id: int) -> list[str | None]:
    page = list_asset_locations(organization_id, AssetLocationFilter(), limit=9)
    return [row.location_external_key for row in page.rows]


def test_a_preview_changes_nothing_and_a_click_corrects(admin: Browser, cast: Cast, wrong: dict[str, int]) -> None:
    path = f"/readers/{wrong['reader']}/correct"
    since = datetime.fromtimestamp(clock.now() / 1e6 - 3600, UTC).isoformat()
    values = {"port": "", "was": str(wrong["yard"]), "right": str(wrong["dock"]), "since": since, "until": ""}
    before = where(cast.acme)
    assert "Preview" in admin.get(path).text
    page = admin.get(path, query_string=values).text
    assert "1 row of history and" in page
    assert "1 current location of 1 asset would change" in page
    assert where(cast.acme) == before
    assert admin.post(path, dict(values)).status_code == 303
    assert where(cast.acme) == [locations.get(cast.acme, wrong["dock"]).external_key]
    assert "history_corrected" in str(recent(cast.acme, 1)[0])
    assert "Nothing to change" in admin.get(path, query_string=values).text


def test_missing_and_invalid_values_are_named(admin: Browser, wrong: dict[str, int]) -> None:
    path = f"/readers/{wrong['reader']}/correct"
    values = {"was": str(wrong["yard"]), "right": str(wrong["yard"]), "since": "2026-01-01T00:00"}
    assert "Both locations are the same" in admin.get(path, query_string=values).text
    assert "Choose a location" in admin.get(path, query_string={**values, "was": ""}).text
    answer = admin.post(path, {**values, "since": "yesterday"})
    assert answer.status_code == 400
    assert "Enter a day and a time" in answer.text


def test_only_administrators_of_the_organization_correct_locations(
    sign_in_as: Callable[..., Browser], cast: Cast, wrong: dict[str, int]
) -> None:
    path = f"/readers/{wrong['reader']}/correct"
    values = {"was": str(wrong["yard"]), "right": str(wrong["dock"]), "since": "2020-01-01T00:00"}
    before = where(cast.acme)
    assert sign_in_as(Role.EDITOR).post(path, dict(values)).status_code == 403
    theirs = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    assert theirs.post(path, dict(values)).status_code in (400, 404)
    assert where(cast.acme) == before


def test_changing_a_location_offers_to_correct_earlier_reads(admin: Browser, cast: Cast, wrong: dict[str, int]) -> None:
    path = f"/readers/{wrong['reader']}"
    before = where(cast.acme)
    reader = readers.get_reader(cast.acme, wrong["reader"])
    form = {"name": "gate", "topic": "g/reads", "format": "csl", "clock_setting": "auto", "is_enabled": "1"}
    unchanged = admin.edit(f"{path}/edit", {**form, "name": "gate 1", "location_id": str(reader.location_id)})
    assert "If that was wrong" not in admin.get(unchanged.location).text
    saved = admin.edit(f"{path}/edit", {**form, "location_id": str(wrong["dock"])})
    page = admin.get(saved.location).text
    assert "Saved." in page
    assert "Earlier reads are recorded at <b>Yard</b>. If that was wrong" in page
    assert where(cast.acme) == before  # an offer changes nothing
    assert "1 row of history and" in admin.get(offered(page, wrong["reader"])).text
    assert "If that was wrong" not in admin.get(path).text


def test_giving_an_antenna_a_location_offers_to_correct_its_reads(admin: Browser, wrong: dict[str, int]) -> None:
    path = f"/readers/{wrong['reader']}/antennas"
    others = admin.post(path, {"port": "2", "location_id": str(wrong["dock"]), "is_enabled": "1"})
    assert "If that was wrong" not in admin.get(others.location).text  # it has no reads
    saved = admin.post(path, {"port": "1", "location_id": str(wrong["dock"]), "is_enabled": "1"})
    page = admin.get(saved.location).text
    assert "Earlier reads of antenna 1 are recorded at <b>Yard</b>" in page
    preview = offered(page, wrong["reader"])
    assert "port=1" in preview
    assert "1 row of history and" in admin.get(preview).text


def test_corrections_too_large_for_a_request_are_left_to_the_command(
    admin: Browser, cast: Cast, wrong: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/readers/{wrong['reader']}/correct"
    values = {"was": str(wrong["yard"]), "right": str(wrong["dock"]), "since": "2020-01-01T00:00"}
    before = where(cast.acme)
    monkeypatch.setattr(location_corrections, "MOST_ROWS_OF_REQUEST", 0)
    for page in (admin.get(path, query_string=values), admin.post(path, dict(values))):
        assert "edge reader correct gate --was" in page.text
        assert "Correct history</button>" not in page.text
    assert where(cast.acme) == before


def offered(page: str, reader_id: int) -> str:
    """Return the address of the preview."""
    match = re.search(rf'href="(/readers/{reader_id}/correct\?was[^"]*|/readers/{reader_id}/correct\?port[^"]*)"', page)
    assert match, page
    return unescape(match[1])
