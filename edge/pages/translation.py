"""Translated texts: the language of a page, and the texts of templates, code and scripts in it.

The language is chosen by the person, else set on the device, else requested by the browser. Texts are marked with `_()`
in templates, `gettext` in code and `t()` in scripts. The catalogs are in `edge/translations`. A page includes the
translations for its scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from gettext import NullTranslations, translation
from pathlib import Path
from typing import Any

from flask import Flask, g, has_request_context, request

from edge.pages import cookies
from edge.texts import Count, Filled, Measure
from edge.validation import json_text

LANGUAGES = {"en": "English", "de": "Deutsch", "es": "Español", "fr": "Français", "pl": "Polski"}
SOURCE = "en"  # language of the source texts
FOLDER = Path(__file__).resolve().parent.parent / "translations"

# Between groups of digits and before decimals, by language.
_SEPARATORS = {"de": ".,", "es": ".,", "fr": "\u202f,", "pl": "\u00a0,"}

Forms = str | list[str]


def register(app: Flask) -> None:
    app.jinja_env.add_extension("jinja2.ext.i18n")
    # The extension adds this method, which its types do not have.
    app.jinja_env.install_gettext_callables(gettext, ngettext, newstyle=True)  # type: ignore[attr-defined]
    app.jinja_env.filters.update(translated=translated)
    app.jinja_env.globals.update(LANGUAGES=LANGUAGES, language=language, colon=colon)
    app.jinja_env.globals.update(texts_of_scripts=texts_of_scripts, texts_of_office=texts_of_office)


def language() -> str:
    """Return the language of the current page. It stays the same until the answer is sent."""
    if not has_request_context():
        return SOURCE
    if "language" not in g:
        g.language = _chosen()
    return str(g.language)


def gettext(text: str) -> str:
    return catalog(language()).gettext(text) if text else ""  # for "", a catalog returns its header


def named(choices: Mapping[Any, str]) -> list[tuple[Any, str]]:
    """Return choices with their names in the language of the page, for a form."""
    return [(choice, gettext(name)) for choice, name in choices.items()]


def ngettext(one: str, many: str, number: int) -> str:
    return catalog(language()).ngettext(one, many, number)


def translated(text: str) -> str:
    """Return a text of the program in the language of the page, and any other text unchanged.

    Templates use it as a filter for texts that may contain input: `_()` would not escape them.
    """
    if isinstance(text, Filled):
        shown = gettext(text.template)
        return shown % {name: _value(one) for name, one in text.values.items()} if text.values else shown
    return gettext(text)


def _value(value: Any) -> Any:
    if isinstance(value, Filled):
        return translated(value)
    return localized(str(value)) if isinstance(value, (Count, Measure)) else value


def localized(number: str) -> str:
    """Return an English number with the separators of the language of the page."""
    separators = _SEPARATORS.get(language())
    return number.translate(str.maketrans(",.", separators)) if separators else number


def colon() -> str:
    """Return a colon between a word and its value. In French a space that does not break comes before it."""
    return "\u00a0: " if language() == "fr" else ": "


@cache
def catalog(of: str) -> NullTranslations:
    """Return the translations into a language. English, the language of the source, has none."""
    return translation("messages", FOLDER, [of], fallback=of == SOURCE)


@cache
def texts_of_scripts(of: str) -> dict[str, Forms]:
    """Return the translations of script texts by English text, with all plural forms. Empty for English."""
    if of == SOURCE:
        return {}
    texts = _scripts(of)
    return {**texts["office"], **texts["handhelds"]}


@cache
def texts_of_office(of: str) -> dict[str, Forms]:
    """Return those of `texts_of_scripts` that pages of the office use: one in six."""
    return {} if of == SOURCE else _scripts(of)["office"]


def _scripts(of: str) -> dict[str, dict[str, Forms]]:
    texts: dict[str, dict[str, Forms]] = json_text.decode((FOLDER / of / "LC_MESSAGES" / "scripts.json").read_bytes())
    return texts


def _chosen() -> str:
    session = g.get("session")
    for one in (session.language if session else None, cookies.read(cookies.LANGUAGE)):
        if one in LANGUAGES:
            return str(one)
    wishes = (wish.partition("-")[0].lower() for wish in request.accept_languages.values())
    return next((wish for wish in wishes if wish in LANGUAGES), SOURCE)
