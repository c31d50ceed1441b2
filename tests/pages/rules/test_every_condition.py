"""Every condition has its sentence, choice and fields of the form, alert, preview, subject and line of the manual.

A new condition fails here until each of these is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from edge import clock
from edge.clock import SECOND
from edge.events import detection
from edge.pages.rules.rules import _saved
from edge.people.people import Role
from edge.readers import status
from edge.rules import box_faults, rules
from edge.rules.conditions import Condition
from edge.rules.rule_preview import preview
from edge.rules.rules import RuleFields
from edge.rules.sentences import describe
from tests.conftest import Cast
from tests.doors.site import Gate, passing
from tests.events.conftest import SILENCE
from tests.pages.conftest import SignIn
from tests.rules.conftest import UTC, Site
from tests.rules.test_swept_conditions import charge
from tests.service import ROOT

EVERY = pytest.mark.parametrize("kind", list(Condition))
CSS = (ROOT / "web/static/pages.css").read_text("utf-8")
MANUAL = (ROOT / "web/manual/rules.md").read_text("utf-8")
INPUTS = {
    "of-asset": "asset_kind",
    "of-value": "asset_value",
    "of-metadata": "asset_name",
    "of-number": "number",
    "of-location": "location_id",
    "of-door": "door_id",
    "of-reader": "reader_id",
    "of-span": "span",
}


class Stage(NamedTuple):
    """A warehouse, a door with its two pallets, and an asset that was never seen."""

    site: Site
    gate: Gate
    asset: int

    def hear_reader(self, ago: int) -> None:
        at = clock.now() - ago
        status.record_readers([status.ReaderStatus(self.site.reader, at, at, None, 0, "", False)])
        detection.log_readers(SILENCE)
        self.site.evaluate()

    def move(self, *places: str) -> None:
        for number, place in enumerate(places):
            self.site.seen(self.asset, place, number * 1000)
            self.site.evaluate()


class Example(NamedTuple):
    """How a rule of the condition is filled in, what raises one alert, and what the alert says."""

    fields: Callable[[Stage], dict[str, Any]]
    happen: Callable[[Stage], object]
    sentence: str
    manual: str  # beginning of its line in the manual
    uses: set[str]


NORTH: Callable[[Stage], dict[str, Any]] = lambda stage: {"location_id": stage.site.places["north"]}  # noqa: E731
ASSET = {"asset_kind", "asset_value", "asset_name"}

EXAMPLES = {
    Condition.ENTERS: Example(
        NORTH, lambda s: s.move("north"), "Pallet P1 entered North", "enters or leaves", ASSET | {"location_id"}
    ),
    Condition.LEAVES: Example(
        NORTH, lambda s: s.move("north", "south"), "Pallet P1 left North", "enters or leaves", ASSET | {"location_id"}
    ),
    Condition.PASSES: Example(
        lambda stage: {"door_id": stage.gate.door, "direction": "out"},
        lambda stage: stage.gate.receive(passing(100, asset=0)),
        "Pallet 0 passed Gate",
        "passes a door",
        ASSET | {"door_id"},
    ),
    Condition.STAYS: Example(
        lambda stage: {**NORTH(stage), "span": 600 * SECOND},
        lambda stage: stage.move("north"),
        "Pallet P1 stays in North too long",
        "stays in a location",
        ASSET | {"location_id", "span"},
    ),
    Condition.UNSEEN: Example(
        lambda _: {"span": 600 * SECOND},
        lambda stage: stage.move("north"),
        "Pallet P1 has not been seen",
        "has not been seen",
        ASSET | {"span"},
    ),
    Condition.MORE: Example(
        NORTH,
        lambda stage: stage.move("north"),
        "North holds too many assets: 1",
        "a location holds more or fewer",
        ASSET | {"location_id", "number"},
    ),
    Condition.FEWER: Example(
        lambda stage: {**NORTH(stage), "number": 1},
        lambda stage: stage.move("north", "south"),
        "North holds too few assets: 0",
        "a location holds more or fewer",
        ASSET | {"location_id", "number"},
    ),
    Condition.OFFLINE: Example(
        lambda stage: {"reader_id": stage.site.reader},
        lambda stage: [stage.hear_reader(ago) for ago in (0, clock.HOUR)],
        "Reader Portal is offline",
        "a reader is offline",
        {"reader_id"},
    ),
    Condition.BATTERY: Example(
        lambda _: {"number": 20},
        lambda stage: [charge(stage.site, stage.asset, percent, second) for percent, second in ((50, 0), (8, 10))],
        "Pallet P1 has a low battery: 8 %",
        "has a low battery",
        ASSET | {"number"},
    ),
    Condition.UNHEALTHY: Example(
        lambda _: {"span": 60 * SECOND},
        lambda _: box_faults.record("disk: only 5 MB are free"),
        "This box has a fault: disk: only 5 MB are free",
        "this box has a fault",
        {"span"},
    ),
}


@pytest.fixture
def stage(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr("edge.rules.engine.UNSEEN_SECONDS", 0.0)
    site = Site(cast.acme)
    detection.start(SILENCE)
    return Stage(site, Gate(cast.acme), site.add_asset("P1"))


def fields_of(kind: Condition, stage: Stage) -> RuleFields:
    return rules.check(stage.site.organization_id, RuleFields(f"Rule {kind}", kind, **EXAMPLES[kind].fields(stage)))


def save(kind: Condition, stage: Stage, sign_in_as: SignIn) -> int:
    """Fill in the form of a new rule, and return the number of the rule."""
    answer = sign_in_as(Role.EDITOR).post("/rules/new", {**_saved(fields_of(kind, stage)), "once": f"once {kind}"})
    assert answer.status_code == 303, re.findall(r'class="error[^>]*>([^<]*)', answer.text)
    (rule,) = rules.list_rules(stage.site.organization_id)
    return rule.no


@EVERY
def test_it_has_an_example(kind: Condition) -> None:
    assert kind in EXAMPLES, f"write an example of what raises an alert of {kind}"


@EVERY
def test_it_raises_an_alert_that_all_pages_show_and_the_preview_foretells(
    kind: Condition, stage: Stage, sign_in_as: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, example = stage.site, EXAMPLES[kind]
    fields = example.fields(stage)
    no = site.add_rule(kind, "north" if fields.pop("location_id", None) else None, **fields)
    at = clock.now()
    monkeypatch.setattr("edge.rules.rules.clock.now", lambda: at)
    site.evaluate()
    example.happen(stage)
    at += 700 * SECOND
    for _ in range(2):
        site.evaluate()
    assert site.sentences() == [example.sentence]
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert example.sentence in browser.get("/alerts").text
    links = re.findall(r'href="(/(?:assets|locations|readers)/\d+|/status)"', browser.get("/alerts/now").text)
    assert links, "an alert leads to its subject"
    assert {browser.get(link).status_code for link in links} == {200}
    browser.send("/language", {"language": "de"})
    assert example.sentence not in browser.get("/alerts").text, "it is translated"
    shown = preview(rules.get(site.organization_id, no), UTC)
    assert (shown.total, len(shown.newest)) == (1, 1)
    assert shown.newest[0].name in {"Pallet P1", "Pallet 0", "North", "Portal", "disk: only 5 MB are free"}


@EVERY
def test_its_form_saves_what_was_entered_and_shows_it_again(kind: Condition, stage: Stage, sign_in_as: SignIn) -> None:
    no = save(kind, stage, sign_in_as)
    saved = rules.get(stage.site.organization_id, no).fields
    assert saved == fields_of(kind, stage)
    editor = sign_in_as(Role.EDITOR)
    assert f'<option value="{kind}" selected' in editor.get(f"/rules/{no}").text
    assert editor.post(f"/rules/{no}", _saved(saved)).status_code == 303
    assert rules.get(stage.site.organization_id, no).fields == saved


@EVERY
def test_its_form_shows_the_inputs_that_it_uses_and_no_others(kind: Condition, sign_in_as: SignIn) -> None:
    page = sign_in_as(Role.EDITOR).get("/rules/new").text
    found = re.search(rf'<option value="{kind}" [^>]*data-uses="([^"]*)"', page)
    assert found
    hidden = {name for use, names in selectors().items() if use not in found[1].split() for name in names}
    assert set(INPUTS.values()) - {INPUTS[name] for name in hidden} == EXAMPLES[kind].uses


def selectors() -> dict[str, list[str]]:
    """Return the classes that the style sheet hides unless the chosen condition has a use."""
    found = re.findall(r'^\.rule:not\(:has\(#kind \[data-uses~="(\w+)"\]:checked\)\) (.*?)(?:,$| \{)', CSS, re.M)
    assert sorted(name for _, names in found for name in re.findall(r"\.([\w-]+)", names)) == sorted(INPUTS)
    return {use: re.findall(r"\.([\w-]+)", names) for use, names in found}


@EVERY
def test_a_field_that_it_does_not_use_is_emptied(kind: Condition, stage: Stage) -> None:
    filled = fields_of(kind, stage)._replace(
        location_id=stage.site.places["north"],
        door_id=stage.gate.door,
        reader_id=stage.site.reader,
        span=600 * SECOND,
        number=20,
        asset_value="P",
    )
    checked = rules.check(stage.site.organization_id, filled)
    uses = EXAMPLES[kind].uses
    for name, empty in (("location_id", None), ("door_id", None), ("reader_id", None), ("span", 0), ("number", 0)):
        assert (getattr(checked, name) == empty) is (name not in uses), name


@EVERY
def test_it_is_a_sentence_and_has_its_line_in_the_manual(kind: Condition, stage: Stage) -> None:
    assert describe(fields_of(kind, stage), "Place").startswith("When ")
    assert f"\n| {EXAMPLES[kind].manual}" in MANUAL
