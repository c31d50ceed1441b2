"""Notes, photos and the loan on the page of an asset."""

from __future__ import annotations

import secrets

from flask import Response, request

from edge import clock
from edge.errors import Invalid
from edge.pages.actions import add_action
from edge.pages.dates import begin_of_day
from edge.pages.forms import Errors, multiline, typable
from edge.pages.guard import Answer, actor, current_session, editors, operators, viewers
from edge.pages.notices import done
from edge.pages.records.asset import asset_page
from edge.records import asset_notes, asset_photos, loans
from edge.texts import N_


def _note_again(errors: Errors, asset_id: int) -> str:
    return asset_page(asset_id, errors=errors)


@operators.post("/assets/<int:asset_id>/notes", again=_note_again)
def add_note(asset_id: int) -> Answer:
    note_id = request.form.get("note_id", "")[:64] or secrets.token_hex(16)  # of the form: submitted twice, stored once
    asset_notes.add(actor(), note_id, asset_id, multiline(request.form.get("text", "")), clock.now())
    return done(f"/assets/{asset_id}#notes", "made")


_NOTE, _PHOTO = "/assets/<int:asset_id>/notes/<note_id>", "/assets/<int:asset_id>/photos/<photo_id>"
add_action(editors, f"{_NOTE}/remove", asset_notes.remove, "/assets/{asset_id}", "note-removed")
add_action(editors, f"{_PHOTO}/remove", asset_photos.remove, "/assets/{asset_id}", "photo-removed")


@viewers.get(_PHOTO)
def asset_photo(asset_id: int, photo_id: str) -> Response:
    """Return a photo, which never changes."""
    content = asset_photos.content(current_session().organization_id, asset_id, photo_id)
    response = Response(content, mimetype="image/jpeg")
    response.headers["Cache-Control"] = "private, max-age=86400"
    return response


def _loan_again(errors: Errors, asset_id: int) -> str:
    return asset_page(asset_id, loan_errors=errors)


@operators.post("/assets/<int:asset_id>/loan", again=_loan_again)
def lend_asset(asset_id: int) -> Answer:
    """Store the borrower and the last day, or change them."""
    borrower, due = typable(request.form.get("borrower", "")), request.form.get("due", "").strip()
    due_at = begin_of_day(due, 1) if due else None
    if due and due_at is None:
        raise Invalid.one("due", "invalid_value", N_("Choose a day"))
    loans.lend(actor(), asset_id, borrower, due_at)
    return done(f"/assets/{asset_id}", "lent")


add_action(operators, "/assets/<int:asset_id>/loan/end", loans.take_back, "/assets/{asset_id}", "returned")
