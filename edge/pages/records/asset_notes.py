"""Notes and photos on the page of an asset."""

from __future__ import annotations

import secrets

from flask import Response, request

from edge import clock
from edge.errors import EdgeError
from edge.pages.actions import add_action
from edge.pages.forms import errors_of, multiline
from edge.pages.guard import Answer, actor, current_session, editors, operators, viewers
from edge.pages.notices import done
from edge.pages.records.asset import asset_page
from edge.records import asset_notes, asset_photos


@operators.post("/assets/<int:asset_id>/notes")
def add_note(asset_id: int) -> Answer:
    note_id = request.form.get("note_id", "")[:64] or secrets.token_hex(16)  # of the form: submitted twice, stored once
    try:
        asset_notes.add(actor(), note_id, asset_id, multiline(request.form.get("text", "")), clock.now())
    except EdgeError as error:
        return asset_page(asset_id, errors=errors_of(error), note=request.form.get("text", "")), 400
    return done(f"/assets/{asset_id}#notes", "made")


add_action(
    editors, "/assets/<int:asset_id>/notes/<note_id>/remove", asset_notes.remove, "/assets/{asset_id}", "note-removed"
)


@viewers.get("/assets/<int:asset_id>/photos/<photo_id>")
def asset_photo(asset_id: int, photo_id: str) -> Response:
    """Return a photo, which never changes."""
    content = asset_photos.content(current_session().organization_id, asset_id, photo_id)
    response = Response(content, mimetype="image/jpeg")
    response.headers["Cache-Control"] = "private, max-age=86400"
    return response


add_action(
    editors,
    "/assets/<int:asset_id>/photos/<photo_id>/remove",
    asset_photos.remove,
    "/assets/{asset_id}",
    "photo-removed",
)
