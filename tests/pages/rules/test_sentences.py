"""Rules in words: each condition is one sentence, in English for the shell and translated on pages."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge import clock
from edge.pages.translation import translated
from edge.people.people import Role
from edge.rules.conditions import AssetKind, Condition
from edge.rules.rules import ALL_DAYS, RuleFields
from edge.rules.sentences import describe
from tests.application import shared_app
from tests.pages.conftest import Browser

ANY = RuleFields(
    "", Condition.ENTERS, AssetKind.ALL, "", "", 1, 1, "any", None, clock.HOUR, 5, ALL_DAYS, 0, 24 * 60, "", "", ""
)
KEYED = ANY._replace(asset_kind=AssetKind.KEY, asset_value="100 % T-")
NAMED = ANY._replace(asset_kind=AssetKind.METADATA, asset_name="kind", asset_value="tool")
WEEKDAYS = {"days": 0b0011111, "from_minute": 8 * 60, "until_minute": 17 * 60}


@pytest.mark.parametrize(
    ("fields", "english", "german"),
    [
        (ANY, "When any asset enters Dock, at any time", "Wenn irgendein Objekt nach Dock kommt, jederzeit"),
        (
            KEYED._replace(kind=Condition.LEAVES, **WEEKDAYS),
            "When an asset with a key that begins with 100 % T- leaves Dock, Monday to Friday 08:00 to 17:00",
            "Wenn ein Objekt, dessen Kennung mit 100 % T- beginnt, Dock verlässt, Montag bis Freitag 08:00 bis 17:00",
        ),
        (
            NAMED._replace(kind=Condition.MORE, days=0b1000001, until_minute=30),
            "When Dock holds more than 5 assets with kind tool, Monday, Sunday 00:00 to 00:30",
            "Wenn Dock mehr als 5 Objekte mit kind tool enthält, Montag, Sonntag 00:00 bis 00:30",
        ),
        (
            ANY._replace(kind=Condition.PASSES, direction="in", until_minute=30),
            "When any asset passes Dock (in), every day 00:00 to 00:30",
            "Wenn irgendein Objekt Dock passiert (hinein), jeden Tag 00:00 bis 00:30",
        ),
        (
            ANY._replace(kind=Condition.UNSEEN, span=90 * 60 * clock.SECOND),
            "When any asset has not been seen for 90 minutes, at any time",
            "Wenn irgendein Objekt 90 Minuten lang nicht gesehen wurde, jederzeit",
        ),
        (
            ANY._replace(kind=Condition.BATTERY),
            "When the battery of any asset is at most 5 %, at any time",
            "Wenn irgendein Objekt eine Batterie mit höchstens 5 % hat, jederzeit",
        ),
        (
            ANY._replace(kind=Condition.OFFLINE, reader_id=3),
            "When reader Dock is offline, at any time",
            "Wenn Lesegerät Dock offline ist, jederzeit",
        ),
    ],
)
def test_a_rule_is_a_sentence_in_each_language(fields: RuleFields, english: str, german: str) -> None:
    sentence = describe(fields, "Dock")
    assert sentence == english
    with shared_app().test_request_context(headers={"Accept-Language": "de"}):
        assert translated(sentence) == german


@pytest.mark.parametrize("kind", list(Condition))
@pytest.mark.parametrize("asset_kind", list(AssetKind))
@pytest.mark.parametrize("language", ["de", "es", "fr", "pl"])
def test_no_part_of_a_sentence_stays_english(kind: Condition, asset_kind: AssetKind, language: str) -> None:
    sentence = describe(ANY._replace(kind=kind, asset_kind=asset_kind, days=0b0001011), "")
    with shared_app().test_request_context(headers={"Accept-Language": language}):
        words = set(translated(sentence).split())
    assert not words & {"When", "any", "asset", "assets", "with", "removed", "reader", "longer", "Monday,", "hour"}


def test_the_names_of_a_rule_are_escaped_in_its_sentence(sign_in_as: Callable[..., Browser]) -> None:
    editor = sign_in_as(Role.EDITOR)
    editor.send("/language", {"language": "fr"})
    form = {"name": "x", "asset_kind": "key", "asset_value": "<b>", "kind": "unseen", "amount": "2", "once": "a"}
    assert editor.post("/rules/new", {**form, "days": list("0123456")}).status_code == 303
    page = editor.get("/rules").text
    assert "un objet dont la référence commence par &lt;b&gt; n’a pas été vu depuis 2 heures" in page
