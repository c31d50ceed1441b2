"""Creation, editing and retirement of assets and their tags, with the functions and rules of the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import abort, render_template, request

from edge.errors import Conflict, EdgeError
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import Errors, Overtaken, errors_of, multiline, new_tag, opened_with, save_merged, text, values_of
from edge.pages.guard import Answer, actor, current_session, editors
from edge.pages.notices import done
from edge.pages.records.kept_elsewhere import home_editors
from edge.pages.translation import gettext, translated
from edge.records import assets, metadata_fields
from edge.records.assets import AssetRow
from edge.validation import bodies
from edge.validation.values import TAG_TYPE_NAMES


@editors.get("/assets/new", manual="office#assets")
def new_asset_form() -> str:
    return _form(None, {"tag_value": request.args.get("tag", ""), "tag_type": request.args.get("type", "rfid")}, {})


@editors.post("/assets/new")
@once
def new_asset() -> Answer:
    entered = _entered()
    if key := text(request.form, "external_key"):
        entered["external_key"] = key
    if value := text(request.form, "tag_value"):
        entered["tags"] = [{"tag_type": request.form.get("tag_type", ""), "value": value}]
    try:
        values = values_of(bodies.ASSET_CREATE, entered)
        values["tags"] = [new_tag(tag) for tag in values.get("tags", [])]
        asset = assets.create(actor(), **values)
    except EdgeError as error:
        return _form(None, request.form, errors_of(error)), 400
    return done(f"/assets/{asset.id}", "made")


@home_editors.get("/assets/<int:asset_id>/edit", manual="office#assets")
def edit_asset_form(asset_id: int) -> str:
    asset = assets.get(current_session().organization_id, asset_id)
    return _form(asset, asset._asdict() | _metadata(asset), {})


@home_editors.post("/assets/<int:asset_id>/edit")
def edit_asset(asset_id: int) -> Answer:
    """Save the form: a rename for the key and a patch for the other fields, in one transaction."""
    organization_id = current_session().organization_id

    def saved(asset: AssetRow) -> dict[str, Any]:
        metadata = {name: value for name, value in _metadata(asset).items() if name in request.form}
        return _editable(asset) | metadata

    def save(values: dict[str, Any], check: Callable[[AssetRow], None]) -> None:
        renamed = values_of(bodies.ASSET_RENAME, {"external_key": values.pop("external_key")})
        asset = assets.get(organization_id, asset_id)
        metadata = metadata_fields.change(asset, _split_metadata(values))
        changes = values_of(bodies.ASSET_PATCH, values)
        if metadata is not None:
            changes["metadata"] = metadata
        check(asset)
        assets.edit(actor(), asset_id, changes, renamed["external_key"], check)

    entered = {**_entered(), "external_key": text(request.form, "external_key"), **_entered_metadata()}
    try:
        save_merged(lambda: assets.get(organization_id, asset_id), saved, entered, save)
    except Overtaken as error:
        return _form(error.row, error.form, {}, error.meanwhile), 409
    except EdgeError as error:
        return _form(assets.get(organization_id, asset_id), request.form, errors_of(error)), 400
    return done(f"/assets/{asset_id}", "changed")


add_action(home_editors, "/assets/<int:asset_id>/retire", assets.delete, "/", "retired")


@home_editors.post("/assets/<int:asset_id>/restore")
def restore_asset(asset_id: int) -> Answer:
    """Restore a retired asset. Possible on pages only; for the API, it remains deleted."""
    try:
        assets.restore(actor(), asset_id)
    except Conflict as error:
        abort(409, gettext("%(problem)s. Change the other one first.") % {"problem": translated(error.args[0])})
    return done(f"/assets/{asset_id}", "restored")


@home_editors.post("/assets/<int:asset_id>/tags")
def attach_asset_tag(asset_id: int) -> Answer:
    asset = assets.get(current_session().organization_id, asset_id)
    entered = {"tag_type": request.form.get("tag_type", ""), "value": text(request.form, "value")}
    try:
        assets.attach_tag(actor(), asset_id, new_tag(entered))
    except EdgeError as error:
        entered_values = asset._asdict() | _metadata(asset) | {"value": entered["value"]}
        return _form(asset, entered_values, errors_of(error)), 400
    return done(f"/assets/{asset_id}/edit", "tagged")


add_action(
    home_editors,
    "/assets/<int:asset_id>/tags/<int:tag_id>/detach",
    assets.detach_tag,
    "/assets/{asset_id}/edit",
    "untagged",
)


def _editable(asset: AssetRow) -> dict[str, Any]:
    """Return the saved values of the form's fields."""
    return {
        "name": asset.name,
        "description": asset.description,
        "is_active": bool(asset.is_active),
        "external_key": asset.external_key,
    }


def _metadata(asset: AssetRow) -> dict[str, str]:
    """Return the saved values of the metadata that the form can change, by the names of its fields."""
    return {metadata_fields.form_name(field.name): field.value for field in metadata_fields.fields(asset.metadata)}


def _entered_metadata() -> dict[str, str]:
    prefix = metadata_fields.form_name("")
    return {name: multiline(value) for name, value in request.form.items() if name.startswith(prefix)}


def _split_metadata(values: dict[str, Any]) -> dict[str, str]:
    """Take the values of metadata out of those of the form, by the names that clients use."""
    prefix = metadata_fields.form_name("")
    names = [name for name in values if name.startswith(prefix)]
    return {name.removeprefix(prefix): values.pop(name) for name in names}


def _entered() -> dict[str, Any]:
    return {
        "name": text(request.form, "name"),
        "description": text(request.form, "description") or None,
        "is_active": "is_active" in request.form,
    }


def _form(asset: AssetRow | None, values: Any, errors: Errors, meanwhile: Mapping[str, str] | None = None) -> str:
    return render_template(
        "records/edit-asset.html",
        asset=asset,
        values=values,
        errors=errors,
        meanwhile=meanwhile,
        opened=opened_with(_editable(asset) | _metadata(asset)) if asset else None,
        fields=metadata_fields.fields(asset.metadata) if asset else [],
        of_metadata=metadata_fields,
        types=[(name, gettext(title)) for name, title in TAG_TYPE_NAMES.items()],
    )
