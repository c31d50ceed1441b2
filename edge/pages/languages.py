"""The choice of a language: saved for the signed-in person, or for this device."""

from __future__ import annotations

from flask import abort, g, jsonify, redirect, request
from werkzeug.wrappers import Response

from edge.pages import cookies
from edge.pages.forms import json_object
from edge.pages.guard import actor, is_own_path, public, wants_json
from edge.pages.translation import LANGUAGES
from edge.people import people


@public.post("/language")
def choose_language() -> Response:
    """Save the language of the signed-in person, or of this device without a session."""
    entered = json_object() if request.is_json else request.form
    code = entered.get("language")
    if not isinstance(code, str) or code not in LANGUAGES:
        abort(400, "language: one of " + ", ".join(LANGUAGES))
    back = request.values.get("next", "")
    response = jsonify(language=code) if wants_json() else redirect(back if is_own_path(back) else "/", 303)
    if g.session is not None:
        people.update_person(actor(), g.session.person_id, language=code)
    else:
        cookies.write(response, cookies.LANGUAGE, code, cookies.LONGEST_SECONDS)
    return response
