"""Every field of assets and locations is in the API, the audit, the export, imports and the form with two editors.

A new column or a new field of a request body fails here until each of these has it, or is excepted with a reason.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from edge.api import schemas
from edge.audit import trail
from edge.audit.actors import shell
from edge.bulk.import_columns import COLUMNS
from edge.people.people import Role
from edge.records import assets, locations
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.validation import bodies
from tests.conftest import Cast
from tests.pages.conftest import Browser, SignIn, Site, opened_with
from tests.pages.records.test_csv_import import run

NOON, LATER = 1_772_452_800_000_000, 2_214_302_400_000_000  # 2026-03-02 and 2040-03-02, before and after any test


class Sample(NamedTuple):
    """A value that is new for a field, and that value in a table and in the form.

    `form` None: the form does not have the field.
    """

    new: object
    cell: str
    form: object


def _common() -> dict[str, Sample]:
    return {
        "external_key": Sample("NEW-1", "NEW-1", "NEW-1"),
        "name": Sample("New name", "New name", "New name"),
        "description": Sample("Blue", "Blue", "Blue"),
        "is_active": Sample(False, "no", ""),
        "valid_from": Sample(NOON, "2026-03-02 12:00:00Z", None),
        "valid_to": Sample(LATER, "2040-03-02 12:00:00Z", None),
    }


SAMPLES = {
    "asset": _common() | {"metadata": Sample('{"color":"red"}', '{"color":"red"}', "red")},
    "location": _common() | {"parent_external_key": Sample("RACK-A", "RACK-A", "")},
}
ROWS = {"asset": AssetRow, "location": LocationRow}
PATCHES = {"asset": bodies.ASSET_PATCH, "location": bodies.LOCATION_PATCH}
CREATES = {"asset": bodies.ASSET_CREATE, "location": bodies.LOCATION_CREATE}
VIEWS = {"asset": "AssetView", "location": "LocationView"}
# Set by edge, or with tests of their own. The id of a parent is written as its key.
EXCEPTED = {*bodies.SERVER_MANAGED, "tags", "parent_id"}


def each_field(is_meant: Callable[[str, str], bool]) -> pytest.MarkDecorator:
    cases = [(kind, field) for kind in SAMPLES for field in SAMPLES[kind] if is_meant(kind, field)]
    return pytest.mark.parametrize(("kind", "field"), cases)


EVERY = each_field(lambda *_: True)


class Record:
    """The record `kind` of the site, with each field changed and read as people do."""

    def __init__(self, kind: str, site: Site, cast: Cast) -> None:
        self.kind, self.organization_id, self.site = kind, cast.acme, site
        self.actor = shell(cast.acme)
        self.id = site.pallet.id if kind == "asset" else site.dock.id
        if kind == "asset":
            assets.patch(self.actor, self.id, {"metadata": '{"color":"blue"}'})

    @property
    def row(self) -> AssetRow | LocationRow:
        read = assets.get if self.kind == "asset" else locations.get
        return read(self.organization_id, self.id)

    def value(self, field: str) -> object:
        value = getattr(self.row, field)
        return bool(value) if field == "is_active" else value

    def change(self, field: str) -> None:
        """Change the field as a client of the API does."""
        new: Any = SAMPLES[self.kind][field].new
        module: Any = assets if self.kind == "asset" else locations
        if field == "external_key":
            module.rename(self.actor, self.id, new)
        elif field == "parent_external_key":
            locations.patch(self.actor, self.id, {"parent_external_key": new})
        else:
            module.patch(self.actor, self.id, {field: new})

    def exported(self, browser: Browser) -> dict[str, str]:
        text = browser.get(f"/export/records/{self.kind}.csv").text.lstrip("\ufeff")
        rows = csv.DictReader(io.StringIO(text))
        (mine,) = [row for row in rows if row["external_key"] == self.row.external_key]
        return mine

    def form(self) -> dict[str, object]:
        """Return what the form sends when nothing is changed."""
        row = self.row
        sent = {
            "name": row.name,
            "external_key": row.external_key,
            "description": row.description or "",
            "is_active": "on",
        }
        return sent | ({"metadata.color": "blue"} if self.kind == "asset" else {"parent_id": self.site.hall.id})

    def form_with(self, field: str) -> dict[str, object]:
        """Return what the form sends when the field is changed."""
        form = self.form()
        if field == "is_active":
            del form[field]
        elif field == "parent_external_key":
            form["parent_id"] = self.site.rack.id
        else:
            form["metadata.color" if field == "metadata" else field] = SAMPLES[self.kind][field].form
        return form

    @property
    def path(self) -> str:
        return f"/{self.kind}s/{self.id}/edit"


@pytest.fixture
def record(request: pytest.FixtureRequest, site: Site, cast: Cast) -> Record:
    return Record(request.node.callspec.params["kind"], site, cast)


@pytest.mark.parametrize("kind", list(SAMPLES))
def test_every_field_has_a_sample(kind: str) -> None:
    of_api = {name for name, field in PATCHES[kind].fields.items() if not field.compare}
    for fields in (ROWS[kind]._fields, of_api, CREATES[kind].fields):
        missing = set(fields) - EXCEPTED - set(SAMPLES[kind])
        assert not missing, "write a sample of the new field"


@EVERY
def test_the_api_shows_and_takes_it(kind: str, field: str) -> None:
    assert field in CREATES[kind].fields
    assert field in PATCHES[kind].fields
    assert field in schemas.SCHEMAS[VIEWS[kind]]["properties"]


@EVERY
def test_its_change_is_in_the_audit_and_in_the_export(
    kind: str, field: str, record: Record, sign_in_as: SignIn
) -> None:
    before = record.value(field)
    record.change(field)
    assert record.value(field) == SAMPLES[kind][field].new != before
    detail = json.dumps(trail.recent(record.organization_id, 1)[0].detail)
    assert field.removesuffix("_external_key") in detail
    assert field in COLUMNS[kind]
    cell = record.exported(sign_in_as(Role.EDITOR))[field]
    assert without_zone(field, cell) == SAMPLES[kind][field].cell


def without_zone(field: str, cell: str) -> str:
    """Return a cell of an export; a time in UTC, since it is in the zone of the box."""
    if not field.startswith("valid_"):
        return cell
    return f"{datetime.fromisoformat(cell).astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


@each_field(lambda _, field: field != "external_key")  # by which an import finds its record
def test_an_import_changes_it_and_leaves_it_if_it_is_absent(
    kind: str, field: str, record: Record, sign_in_as: SignIn
) -> None:
    key = record.row.external_key
    editor = sign_in_as(Role.EDITOR)
    table = io.StringIO()
    csv.writer(table).writerows([("external_key", field), (key, SAMPLES[kind][field].cell)])
    assert "Done." in run(editor, table.getvalue().encode(), kind)
    assert record.value(field) == SAMPLES[kind][field].new
    other = "description" if field == "name" else "name"
    assert "Done." in run(editor, f"external_key,{other}\n{key},Other\n".encode(), kind)
    assert record.value(field) == SAMPLES[kind][field].new


@EVERY
def test_an_edit_in_the_form_saves_it(kind: str, field: str, record: Record, sign_in_as: SignIn) -> None:
    editor = sign_in_as(Role.EDITOR)
    opened = opened_with(editor.get(record.path).text)
    answer = editor.post(record.path, {**record.form_with(field), "opened": opened})
    assert answer.status_code == 303
    is_in_form = SAMPLES[kind][field].form is not None
    assert (record.value(field) == SAMPLES[kind][field].new) is is_in_form


@EVERY
def test_an_open_form_does_not_undo_the_change_of_somebody_else(
    kind: str, field: str, record: Record, sign_in_as: SignIn
) -> None:
    editor = sign_in_as(Role.EDITOR)
    opened = opened_with(editor.get(record.path).text)
    sent = {**record.form(), "description": "Mine", "opened": opened}
    if field == "description":
        sent["name"] = "Mine"
        sent["description"] = ""
    record.change(field)
    assert editor.post(record.path, sent).status_code == 303
    assert record.value(field) == SAMPLES[kind][field].new


# A choice of two values cannot be changed to a third.
@each_field(lambda kind, field: SAMPLES[kind][field].form is not None and field != "is_active")
def test_two_that_change_it_are_asked(kind: str, field: str, record: Record, sign_in_as: SignIn) -> None:
    editor = sign_in_as(Role.EDITOR)
    opened = opened_with(editor.get(record.path).text)
    third: dict[str, object] = {"external_key": "THIRD", "parent_id": "", "metadata.color": "green"}
    name = {"metadata": "metadata.color", "parent_external_key": "parent_id"}.get(field, field)
    record.change(field)
    sent = {**record.form(), "name": "Dock 1" if kind == "location" else "Pallet 1", "description": ""}
    sent |= {"external_key": "DOCK-1" if kind == "location" else "ASSET-0001", name: third.get(name, "Third")}
    answer = editor.post(record.path, {**sent, "opened": opened})
    assert answer.status_code == 409
    assert record.value(field) == SAMPLES[kind][field].new
