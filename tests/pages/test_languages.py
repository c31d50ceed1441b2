"""Five languages: all texts translated, escaped and used, and the right language for each browser."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.frontend import parse_mapping_cfg
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po
from flask import Flask, render_template_string

from edge.database.connection import execute
from edge.errors import Conflict, FieldError, Invalid
from edge.pages.cookies import FORM as FORM_COOKIE
from edge.pages.forms import errors_of
from edge.pages.translation import FOLDER, LANGUAGES, SOURCE, texts_of_scripts, translated
from edge.people.people import Role
from edge.people.sign_in import csrf_token
from edge.texts import Filled, fill, refill
from tests.pages.conftest import Browser

ROOT = Path(__file__).parents[2]
TRANSLATED = sorted(set(LANGUAGES) - {SOURCE})
KEYWORDS = {"_": None, "gettext": None, "N_": None, "ngettext": (1, 2), "t": None, "tn": (1, 2)}
HOLES = re.compile(r"\{\w+\}|%\(\w+\)s|%")


def keys(message: Message) -> tuple[str, ...]:
    return (message.id,) if isinstance(message.id, str) else tuple(message.id)


def forms(message: Message) -> tuple[str, ...]:
    return tuple(message.string) if isinstance(message.string, tuple | list) else (message.string or "",)


@pytest.fixture(scope="module")
def used() -> dict[tuple[str, ...], set[str]]:
    """Return every marked text of the source, with its files."""
    with (ROOT / ".ci" / "babel.cfg").open() as file:
        methods, options = parse_mapping_cfg(file)
    texts: dict[tuple[str, ...], set[str]] = {}
    for path, _, key, _, _ in extract_from_dir(ROOT, methods, options, KEYWORDS):
        texts.setdefault(key if isinstance(key, tuple) else (key,), set()).add(path)
    return texts


@cache
def catalogue(language: str) -> Catalog:
    with (FOLDER / language / "LC_MESSAGES" / "messages.po").open("rb") as file:
        return read_po(file, locale=language, abort_invalid=True)


def messages(language: str) -> Iterator[Message]:
    return (message for message in catalogue(language) if message.id)


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_text_is_translated_and_every_translation_is_used(
    language: str, used: dict[tuple[str, ...], set[str]]
) -> None:
    assert {keys(message) for message in messages(language)} == set(used)
    assert [message.id for message in messages(language) if not all(forms(message)) or message.fuzzy] == []
    assert list(catalogue(language).obsolete) == []


def test_no_text_is_marked_inside_an_f_string() -> None:
    """Python 3.11 finds no texts inside of f-strings, so they would be missing in the catalogues."""
    marked = [
        f"{path}:{call.lineno}"
        for path in (ROOT / "edge").rglob("*.py")
        for string in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(string, ast.JoinedStr)
        for call in ast.walk(string)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in KEYWORDS
    ]
    assert marked == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_catalogue_lists_the_texts_for_the_browser(language: str, used: dict[tuple[str, ...], set[str]]) -> None:
    in_scripts = {key[0] for key, paths in used.items() if any(path.startswith("web/static/") for path in paths)}
    assert set(texts_of_scripts(language)) == in_scripts


@pytest.mark.parametrize(("of", "text"), [("en", "Missing: 1"), ("de", "Fehlt: 1"), ("fr", "Manquants\u00a0: 1")])
def test_french_has_a_space_before_a_colon(app: Flask, of: str, text: str) -> None:
    with app.test_request_context(headers={"Accept-Language": of}):
        assert render_template_string("{{ _('Missing') }}{{ colon() }}1") == text


@pytest.mark.parametrize("language", TRANSLATED)
def test_translations_have_the_same_holes_no_markup_and_all_plural_forms(language: str) -> None:
    plurals = catalogue(language).num_plurals
    for message in messages(language):
        translated = forms(message)
        assert len(translated) == (plurals if len(keys(message)) > 1 else 1), message.id
        for form in translated:
            assert sorted(HOLES.findall(form)) == sorted(HOLES.findall(keys(message)[0])), (message.id, form)
            assert not re.search(r"[<>&]", form), form
            assert form == form.strip(), form


@pytest.mark.parametrize("language", TRANSLATED)
def test_the_compiled_catalogue_is_that_of_its_source(language: str) -> None:
    with (FOLDER / language / "LC_MESSAGES" / "messages.mo").open("rb") as file:
        compiled = {keys(message): forms(message) for message in read_mo(file) if message.id}
    assert compiled == {keys(message): forms(message) for message in messages(language)}


def test_scripts_show_no_text_that_is_not_marked() -> None:
    """Literals that go straight to the screen would stay English."""
    shown = re.compile(
        r"""(?:\b(?:message|say|button|anchor|choice|askFor)\(|\bpart\([^,()]*, |textContent = |\b(?:told|thing): )"""
        r"""(["`][^"`]*[A-Za-z]{2}[^"`]*["`])"""
    )
    texts = {
        (path.name, text)
        for path in (ROOT / "web/static").rglob("*.js")
        if "vendor" not in path.parts
        for text in shown.findall(path.read_text("utf-8"))
        if "${" not in text and not text.startswith('"/')
    }
    assert texts == set()


def test_a_message_is_translated_but_its_values_are_not(app: Flask) -> None:
    message = fill("Stock-take at %(location)s", location="Location")
    assert message == "Stock-take at Location"
    with app.test_request_context(headers={"Accept-Language": "de"}):
        assert translated(message) == "Inventur von Location"
        assert translated(fill("Write %(format)s", format=fill("true or false"))) == "Erwartet: true oder false"
        assert (translated("Location"), translated("50 %"), translated("")) == ("Lagerplatz", "50 %", "")
        assert errors_of(Conflict(fill("one of %(values)s", values="a, b"))) == {"": "Eines von a, b."}
        fault = FieldError("name", "invalid_value", fill("true or false"))
        assert errors_of(Invalid([fault])) == {"name": "true oder false"}


def test_a_stored_text_gets_its_values_back() -> None:
    templates = ("above the limit", "people, older than %(days)s days", "older than %(days)s days", "at %(share)s %%")
    for text in [fill(template, days=3, share=5) for template in templates]:
        again = refill(str(text), templates)
        assert isinstance(again, Filled)
        assert (again, again.template) == (text, text.template)
    assert type(refill("older than days", templates)) is str


def test_the_browser_selects_the_language(anybody: Browser) -> None:
    for accepted, title in (("de-AT,en;q=0.5", "Anmelden"), ("pl", "Zaloguj się"), ("ja", "Sign in"), ("", "Sign in")):
        page = anybody.get("/sign-in", headers={"Accept-Language": accepted}).text
        assert f"<h1>{title}</h1>" in page


def test_a_device_keeps_its_chosen_language(anybody: Browser) -> None:
    anybody.get("/sign-in")
    form = anybody.client.get_cookie(FORM_COOKIE)
    assert form
    chosen = anybody.client.post(
        "/language", data={"csrf": csrf_token(form.value), "language": "fr", "next": "/sign-in?next=/scan"}
    )
    assert (chosen.status_code, chosen.headers["Location"]) == (303, "/sign-in?next=/scan")
    assert "<h1>Se connecter</h1>" in anybody.get("/sign-in", headers={"Accept-Language": "de"}).text


def test_a_person_keeps_their_language_on_every_device(sign_in_as: Callable[..., Browser], anybody: Browser) -> None:
    page = sign_in_as(Role.OPERATOR)
    assert page.send("/language", {"language": "pl"}).status_code == 200
    assert execute("SELECT language FROM person").fetchone() == ("pl",)
    scan = page.get("/scan", headers={"Accept-Language": "de"}).text
    assert '<html lang="pl">' in scan
    assert "Wszystko zapisane" in scan
    assert "Wszystko" not in anybody.get("/sign-in").text
    for wrong in ("xx", "../de", 5, None, ["de"]):
        assert page.send("/language", {"language": wrong}).status_code == 400


def test_messages_to_a_handheld_are_in_its_language(sign_in_as: Callable[..., Browser]) -> None:
    page = sign_in_as(Role.OPERATOR)
    page.send("/language", {"language": "es"})
    answer = page.send("/scan/batch", {"items": [{"id": "scan-0001", "code": "X", "location": None, "at": 1}]})
    assert answer.json
    assert answer.json["results"][0]["reason"] == "Esta lectura está incompleta"


def test_errors_of_a_form_are_in_the_language_of_the_page(sign_in_as: Callable[..., Browser]) -> None:
    page = sign_in_as(Role.ADMINISTRATOR)
    page.send("/language", {"language": "de"})
    assert page.post("/sync/sites", {"code": "BER", "name": "<Berlin>"}).status_code == 200
    again = page.post("/sync/sites", {"code": "BER", "name": "Berlin"}).text
    assert "Einen Standort BER gibt es schon" in again
    assert "&lt;Berlin&gt; bearbeiten" in again
    assert "Name darf nicht leer sein" in page.post("/sync/sites", {"code": "MUC", "name": ""}).text
