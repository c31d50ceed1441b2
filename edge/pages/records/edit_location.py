"""Creation, editing and retirement of locations and their tags, with the functions and rules of the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import render_template, request

from edge.epcis import places
from edge.errors import Conflict, EdgeError
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import (
    MOST_DIGITS,
    Errors,
    Overtaken,
    errors_of,
    new_tag,
    opened_with,
    save_merged,
    text,
    values_of,
)
from edge.pages.guard import Answer, actor, current_session, editors
from edge.pages.notices import done
from edge.pages.readers.antennas import KIND_NAMES
from edge.pages.records.kept_elsewhere import home_editors
from edge.pages.translation import gettext
from edge.readers.antenna_kinds import kind_of_location
from edge.records import locations
from edge.records.locations import LocationRow
from edge.tracking import location_board
from edge.validation import bodies
from edge.validation.values import TAG_TYPE_NAMES


@editors.get("/locations/new", manual="office#locations")
def new_location_form() -> str:
    return _form(None, {"parent_id": request.args.get("parent", ""), "is_active": "1"}, {})


@editors.post("/locations/new")
@once
def new_location() -> Answer:
    entered = _entered()
    if key := text(request.form, "external_key"):
        entered["external_key"] = key
    try:
        values = values_of(bodies.LOCATION_CREATE, entered)
        location = locations.create(actor(), **values)
    except EdgeError as error:
        return _form(None, request.form, errors_of(error)), 400
    return done(f"/locations/{location.id}", "made")


@home_editors.get("/locations/<int:location_id>/edit", manual="office#locations")
def edit_location_form(location_id: int) -> str:
    location = locations.get(current_session().organization_id, location_id)
    return _form(location, location._asdict(), {})


@home_editors.post("/locations/<int:location_id>/edit")
def edit_location(location_id: int) -> Answer:
    organization_id = current_session().organization_id

    def save(values: dict[str, Any], check: Callable[[LocationRow], None]) -> None:
        renamed = values_of(bodies.LOCATION_RENAME, {"external_key": values.pop("external_key")})
        changes = values_of(bodies.LOCATION_PATCH, values)
        locations.edit(actor(), location_id, changes, renamed["external_key"], check)

    entered = {**_entered(), "external_key": text(request.form, "external_key")}
    try:
        save_merged(lambda: locations.get(organization_id, location_id), _editable, entered, save)
    except Overtaken as error:
        if "parent_id" in error.meanwhile:
            error.meanwhile["parent_id"] = error.row.parent_external_key or gettext("(nothing)")
        return _form(error.row, error.form, {}, error.meanwhile), 409
    except EdgeError as error:
        return _form(locations.get(organization_id, location_id), request.form, errors_of(error)), 400
    return done(f"/locations/{location_id}", "changed")


@home_editors.post("/locations/<int:location_id>/retire")
def retire_location(location_id: int) -> Answer:
    location = locations.get(current_session().organization_id, location_id)
    try:
        locations.delete(actor(), location_id)
    except Conflict as error:
        return _form(location, location._asdict(), errors_of(error)), 409
    return done("/locations", "retired")


@home_editors.post("/locations/<int:location_id>/tags")
def attach_location_tag(location_id: int) -> Answer:
    location = locations.get(current_session().organization_id, location_id)
    entered = {"tag_type": request.form.get("tag_type", ""), "value": text(request.form, "value")}
    try:
        locations.attach_tag(actor(), location_id, new_tag(entered))
    except EdgeError as error:
        return _form(location, location._asdict() | {"value": entered["value"]}, errors_of(error)), 400
    return done(f"/locations/{location_id}/edit", "tagged")


add_action(
    home_editors,
    "/locations/<int:location_id>/tags/<int:tag_id>/detach",
    locations.detach_tag,
    "/locations/{location_id}/edit",
    "untagged",
)


def _editable(location: LocationRow) -> dict[str, Any]:
    """Return the saved values of the form's fields."""
    return {
        "name": location.name,
        "description": location.description,
        "is_active": bool(location.is_active),
        "parent_id": location.parent_id,
        "external_key": location.external_key,
    }


def _entered() -> dict[str, Any]:
    parent = request.form.get("parent_id", "")
    return {
        "name": text(request.form, "name"),
        "description": text(request.form, "description") or None,
        "is_active": "is_active" in request.form,
        "parent_id": (int(parent) if parent.isascii() and parent.isdigit() and len(parent) <= MOST_DIGITS else parent)
        or None,
    }


def _form(location: LocationRow | None, values: Any, errors: Errors, meanwhile: Mapping[str, str] | None = None) -> str:
    branches = location_board.tree(current_session().organization_id)
    own = {branch.id for branch in location_board.inside(branches, location.id)} if location else set()
    parents = [branch for branch in branches if branch.id not in own]
    return render_template(
        "records/edit-location.html",
        location=location,
        values=values,
        errors=errors,
        meanwhile=meanwhile,
        opened=opened_with(_editable(location)) if location else None,
        types=[(name, gettext(title)) for name, title in TAG_TYPE_NAMES.items()],
        parents=parents,
        kind_names={name: gettext(title) for name, title in KIND_NAMES.items()},
        kind=kind_of_location(current_session().organization_id, location.id) if location else None,
        epcis=places.find(current_session().organization_id, "location", location.id) if location else None,
        steps=places.STEPS,
        dispositions=places.DISPOSITIONS,
    )
