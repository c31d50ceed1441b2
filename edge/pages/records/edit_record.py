"""Creation, editing and retirement of assets and locations, their tags and labels, by the rules of the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from flask import abort, redirect, render_template, request

from edge.epcis import places
from edge.errors import Conflict
from edge.pages import record_links
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import (
    MOST_DIGITS,
    Errors,
    Overtaken,
    multiline,
    new_tag,
    opened_with,
    save_merged,
    text,
    values_of,
)
from edge.pages.guard import Answer, actor, current_session, editors, viewers
from edge.pages.notices import done
from edge.pages.readers.antennas import KIND_NAMES
from edge.pages.records.kept_elsewhere import home_editors
from edge.pages.translation import gettext, translated
from edge.readers.antenna_kinds import kind_of_location
from edge.records import assets, locations, lookup, metadata_fields
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.record import Changes, Kind
from edge.rules.rule_assets import locations_below
from edge.tracking import location_board
from edge.validation import bodies
from edge.validation.body import Body
from edge.validation.values import TAG_TYPE_NAMES

Values = dict[str, Any]


class Form(NamedTuple):
    """The forms of a kind of record, with its own fields.

    `saved` returns its saved values, `entered` those of the form, `changes` the columns of its part of the form, and
    `more` other values of its template. `back`: the page after retirement.
    """

    kind: Kind[Any]
    create: Body
    patch: Body
    blank: Callable[[], Values]
    saved: Callable[[Any], Values]
    entered: Callable[[], Values]
    changes: Callable[[Any, Values], Changes]
    more: Callable[[Any], Values]
    back: str

    def row(self, record_id: int) -> Any:
        return self.kind.get(current_session().organization_id, record_id)


def _blank_asset() -> Values:
    return {"tag_value": request.args.get("tag", ""), "tag_type": request.args.get("type", "rfid")}


def _metadata(asset: AssetRow) -> Values:
    """Return the saved values of the metadata that the form can change, by the names of its fields."""
    return {metadata_fields.form_name(field.name): field.value for field in metadata_fields.fields(asset.metadata)}


def _entered_metadata() -> Values:
    prefix = metadata_fields.form_name("")
    return {name: multiline(value) for name, value in request.form.items() if name.startswith(prefix)}


def _changed_metadata(asset: AssetRow, values: Values) -> Changes:
    """Take the values of metadata out of those of the form."""
    prefix = metadata_fields.form_name("")
    names = [name for name in values if name.startswith(prefix)]
    metadata = metadata_fields.change(asset, {name.removeprefix(prefix): values.pop(name) for name in names})
    return {} if metadata is None else {"metadata": metadata}


def _of_asset(asset: AssetRow | None) -> Values:
    return {"fields": metadata_fields.fields(asset.metadata) if asset else [], "of_metadata": metadata_fields}


def _blank_location() -> Values:
    return {"parent_id": request.args.get("parent", ""), "is_active": "1"}


def _entered_parent() -> Values:
    parent = request.form.get("parent_id", "")
    is_id = parent.isascii() and parent.isdigit() and len(parent) <= MOST_DIGITS
    return {"parent_id": (int(parent) if is_id else parent) or None}


def _of_location(location: LocationRow | None) -> Values:
    organization_id = current_session().organization_id
    hidden = locations_below(location.id) if location else ()
    return {
        "parents": [one for one in location_board.choices(organization_id) if one.id not in hidden],
        "kind_names": {name: gettext(title) for name, title in KIND_NAMES.items()},
        "kind": kind_of_location(organization_id, location.id) if location else None,
        "epcis": places.find(organization_id, "location", location.id) if location else None,
        "steps": places.STEPS,
        "dispositions": places.DISPOSITIONS,
    }


ASSET = Form(
    assets.KIND,
    bodies.ASSET_CREATE,
    bodies.ASSET_PATCH,
    _blank_asset,
    _metadata,
    _entered_metadata,
    _changed_metadata,
    _of_asset,
    back="/",
)
LOCATION = Form(
    locations.KIND,
    bodies.LOCATION_CREATE,
    bodies.LOCATION_PATCH,
    _blank_location,
    lambda location: {"parent_id": location.parent_id},
    _entered_parent,
    lambda *_: {},
    _of_location,
    back="/locations",
)


def _new(form: Form) -> Answer:
    entered = _entered(form)
    if not entered["external_key"]:
        del entered["external_key"]
    if value := text(request.form, "tag_value"):
        entered["tags"] = [{"tag_type": request.form.get("tag_type", ""), "value": value}]
    values = values_of(form.create, entered)
    tags = [new_tag(tag) for tag in values.pop("tags", [])]
    row = form.kind.create(actor(), **values, tags=tags)
    return done(f"/{form.kind.owner}s/{row.id}", "made")


def _edit(form: Form, record_id: int) -> Answer:
    """Save the form: a rename for the key and a patch for the other fields, in one transaction."""

    def saved(row: Any) -> Values:
        metadata = metadata_fields.form_name("")
        return {name: one for name, one in _saved(form, row).items() if name in request.form or metadata not in name}

    def save(values: Values, check: Callable[[Any], None]) -> None:
        renamed = values_of(bodies.ASSET_RENAME, {"external_key": values.pop("external_key")})
        row = form.row(record_id)
        own = form.changes(row, values)
        changes = {**values_of(form.patch, values), **own}
        check(row)
        form.kind.edit(actor(), record_id, changes, renamed["external_key"], check)

    try:
        save_merged(lambda: form.row(record_id), saved, _entered(form), save)
    except Overtaken as error:
        if "parent_id" in error.meanwhile:
            error.meanwhile["parent_id"] = error.row.parent_external_key or gettext("(nothing)")
        return _page(form, {}, error.row, error.form, error.meanwhile), 409
    return done(f"/{form.kind.owner}s/{record_id}", "changed")


def _attach_tag(form: Form, record_id: int) -> Answer:
    entered = {"tag_type": request.form.get("tag_type", ""), "value": text(request.form, "value")}
    form.kind.attach_tag(actor(), record_id, new_tag(entered))
    return done(f"/{form.kind.owner}s/{record_id}/edit", "tagged")


def _saved(form: Form, row: Any) -> Values:
    """Return the saved values of the form's fields."""
    common = {"name": row.name, "description": row.description, "is_active": bool(row.is_active)}
    return {**common, "external_key": row.external_key, **form.saved(row)}


def _entered(form: Form) -> Values:
    return {
        "name": text(request.form, "name"),
        "description": text(request.form, "description") or None,
        "is_active": "is_active" in request.form,
        "external_key": text(request.form, "external_key"),
        **form.entered(),
    }


def _page(form: Form, errors: Errors, row: Any, values: Any = None, meanwhile: Mapping[str, str] | None = None) -> str:
    """Return the form with `values`, or else with what was entered, is saved, or proposed for a new record."""
    owner = form.kind.owner
    present = {**row._asdict(), **form.saved(row), "value": request.form.get("value", "")} if row else form.blank()
    common: Values = {
        owner: row,
        "values": values or (request.form if "name" in request.form else present),
        "errors": errors,
        "meanwhile": meanwhile,
        "opened": opened_with(_saved(form, row)) if row else None,
        "types": [(name, gettext(title)) for name, title in TAG_TYPE_NAMES.items()],
    }
    return render_template(f"records/edit-{owner}.html", **common, **form.more(row))


def _register(form: Form) -> None:
    """Add the views of a kind of record."""
    owner = form.kind.owner
    every, one, manual = f"/{owner}s", f"/{owner}s/<int:{owner}_id>", f"office#{owner}s"

    def add(register: Callable[[Any], Any], name: str, view: Callable[..., Any]) -> None:
        view.__name__ = f"{name}_{owner}"  # names the endpoint
        register(view)

    def again(errors: Errors, **ids: int) -> str:
        return _page(form, errors, form.row(*ids.values()) if ids else None)

    def label(**ids: int) -> str:
        row = form.row(*ids.values())
        link = record_links.link(owner, row.external_key)
        return record_links.page(row.name, row.external_key, link, f"{every}/{row.id}")

    def labelled(external_key: str) -> Answer:
        """Redirect from the link in the QR code of a label."""
        record = lookup.by_key(owner, current_session().organization_id, external_key) or abort(404)
        return redirect(f"{every}/{record.id}", 303)

    add(viewers.get(f"{one}/label", "office#labels"), "label", label)
    add(viewers.get(f"/{owner[0]}/<external_key>"), "labelled", labelled)
    add(editors.form(f"{every}/new", again, manual), "new", once(lambda: _new(form)))
    add(home_editors.form(f"{one}/edit", again, manual), "edit", lambda **ids: _edit(form, *ids.values()))
    add(home_editors.post(f"{one}/tags", again=again), "tag", lambda **ids: _attach_tag(form, *ids.values()))
    add_action(home_editors, f"{one}/retire", form.kind.delete, form.back, "retired", again)
    detach = f"{one}/tags/<int:tag_id>/detach"
    add_action(home_editors, detach, form.kind.detach_tag, f"{every}/{{{owner}_id}}/edit", "untagged")


_register(ASSET)
_register(LOCATION)


@home_editors.post("/assets/<int:asset_id>/restore")
def restore_asset(asset_id: int) -> Answer:
    """Restore a retired asset. Possible on pages only; for the API, it remains deleted."""
    try:
        assets.restore(actor(), asset_id)
    except Conflict as error:
        abort(409, gettext("%(problem)s. Change the other one first.") % {"problem": translated(error.args[0])})
    return done(f"/assets/{asset_id}", "restored")
