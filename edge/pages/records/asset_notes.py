"""Notes and photos on the page of an asset."""

from __future__ import annotations

import secrets

from flask import Response, request
from werkzeug.wrappers import Response as AnyResponse

from edge import clock
from edge.errors import EdgeError
from edge.pages.forms import errors_of, multiline
from edge.pages.guard import actor, current_session, pages, require_role
from edge.pages.notices import done
from edge.pages.records.asset import asset_page
from edge.people.people import Role
from edge.records import asset_notes, asset_photos


@pages.post("/assets/<int:asset_id>/notes")
@require_role(Role.OPERATOR)
def add_note(asset_id: int) -> AnyResponse | tuple[str, int]:
    note_id = request.form.get("note_id", "")[:64] or secrets.token_hex(16)  # of the form: submitted twice, stored once
    try:
        asset_notes.add(actor(), note_id, asset_id, multiline(request.form.get("text", "")), clock.now())
    except EdgeError as error:
        return asset_page(asset_id, errors=errors_of(error), note=request.form.get("text", "")), 400
    return done(f"/assets/{asset_id}#notes", "made")


@pages.post("/assets/<int:asset_id>/notes/<note_id>/remove")
@require_role(Role.EDITOR)
def remove_note(asset_id: int, note_id: str) -> AnyResponse:
    asset_notes.remove(actor(), asset_id, note_id)
    return done(f"/assets/{asset_id}", "note-removed")


@pages.get("/assets/<int:asset_id>/photos/<photo_id>")
@require_role(Role.VIEWER)
def asset_photo(asset_id: int, photo_id: str) -> Response:
    """Return a photo, which never changes."""
    content = asset_photos.content(current_session().organization_id, asset_id, photo_id)
    response = Response(content, mimetype="image/jpeg")
    response.headers["Cache-Control"] = "private, max-age=86400"
    return response


@pages.post("/assets/<int:asset_id>/photos/<photo_id>/remove")
@require_role(Role.EDITOR)
def remove_photo(asset_id: int, photo_id: str) -> AnyResponse:
    asset_photos.remove(actor(), asset_id, photo_id)
    return done(f"/assets/{asset_id}", "photo-removed")
