"""Language of a page: chosen by the person, else set on the device, else requested by the browser.

Texts are marked with `_()` in templates, `gettext` in code and `t()` in scripts. The catalogs are in
`edge/translations`. A page includes the translations for its scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from babel.messages.pofile import read_po
from flask import Flask, abort, g, jsonify, redirect, request
from flask_babel import Babel, get_locale
from werkzeug.wrappers import Response

from edge.pages import cookies
from edge.pages.forms import json_object
from edge.pages.guard import actor, is_own_path, open_to_all, pages, wants_json
from edge.people import people

LANGUAGES = {"en": "English", "de": "Deutsch", "es": "Español", "fr": "Français", "pl": "Polski"}
SOURCE = "en"  # language of the source texts
FOLDER = Path(__file__).resolve().parent.parent / "translations"
SCRIPTS = "web/static/"

Forms = str | list[str]


def register(app: Flask) -> None:
    Babel(app, locale_selector=chosen, default_translation_directories=str(FOLDER))
    app.jinja_env.globals.update(LANGUAGES=LANGUAGES, language=language, texts_of_scripts=texts_of_scripts)


def chosen() -> str:
    session = g.get("session")
    for one in (session.language if session else None, cookies.read(cookies.LANGUAGE)):
        if one in LANGUAGES:
            return str(one)
    wishes = (wish.partition("-")[0].lower() for wish in request.accept_languages.values())
    return next((wish for wish in wishes if wish in LANGUAGES), SOURCE)


def language() -> str:
    """Return the language of the current page."""
    locale = get_locale()
    return locale.language if locale else SOURCE


@cache
def texts_of_scripts(of: str) -> dict[str, Forms]:
    """Return the translations of script texts by English text, with all plural forms. Empty for English."""
    if of == SOURCE:
        return {}
    with (FOLDER / of / "LC_MESSAGES" / "messages.po").open("rb") as file:
        catalog = read_po(file, locale=of)
    return {
        (message.id if isinstance(message.id, str) else message.id[0]): _forms(message.string)
        for message in catalog
        if message.string and any(path.startswith(SCRIPTS) for path, _ in message.locations)
    }


@pages.post("/language")
@open_to_all
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


def _forms(translated: str | Sequence[str] | None) -> Forms:
    return translated if isinstance(translated, str) else list(translated or ())
