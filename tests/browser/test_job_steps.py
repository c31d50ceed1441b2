"""The steps of the 18 most usual jobs in the office, done in a browser and compared with the table in the manual.

A step is one click, one key such as Enter, or one field that is filled in or chosen. Every job begins on the page Home.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from playwright.sync_api import FilePayload, Page, expect

from edge import clock
from edge.audit.actors import shell
from edge.bulk import slices
from edge.database.connection import execute
from edge.muster import plans
from edge.muster.plans import NewPlan
from edge.readers import readers, unknown_tags
from edge.records import assets
from edge.rules import rules
from edge.rules.conditions import Condition
from edge.rules.rules import RuleFields
from edge.tracking import positions, tracked_people
from edge.tracking.stays import Quality, Scan
from edge.tracking.tracked_people import PeopleSetting
from tests.browser.conftest import Site
from tests.service import ROOT

pytestmark = pytest.mark.browser
MANUAL = ROOT / "web/manual/figures.md"
CSV: FilePayload = {"name": "cages.csv", "mimeType": "text/csv", "buffer": b"name;rfid\nCage 1;AA01\n"}
ASSETS, LOCATIONS, READERS = (f".side a:has-text('{name}')" for name in ("Assets", "Locations", "Readers"))
SAVE = "main button:text-is('Save')"


class Step(NamedTuple):
    """Click `at`, or fill in `value`, choose the label `chosen`, or press `key` there."""

    at: str
    value: str = ""
    chosen: str = ""
    key: str = ""
    file: bool = False


class Job(NamedTuple):
    """A job and the text on its last page."""

    name: str
    steps: tuple[Step, ...]
    done: str


def click(at: str) -> Step:
    return Step(at)


def fill(at: str, value: str) -> Step:
    return Step(at, value=value)


def choose(at: str, label: str) -> Step:
    return Step(at, chosen=label)


def side(name: str) -> tuple[Step]:
    return (click(f".side a:has-text('{name}')"),)


FIND = (click(ASSETS), fill("#q", "Pallet 77"), Step("#q", key="Enter"))
OPEN = (*FIND, click("tbody a:text-is('Pallet 77')"))
JOBS = (
    Job("Find where an asset is", FIND, "Dock 1"),
    Job("See where an asset was last week", (*OPEN, click("main a:text-is('By day')")), "Past locations"),
    Job("Print the label of an asset", (*OPEN, click("main a:text-is('Label')")), "Print this page"),
    Job(
        "Move an asset",
        (*OPEN, click("main a:text-is('Move')"), choose("#location_id", "\u2003Dock 2"), click("text=Move 1 asset")),
        "of 1 asset",
    ),
    Job(
        "Move 50 assets of a list",
        (
            click(ASSETS),
            click("thead .pick input"),
            click("[data-chosen]:text-is('Change')"),
            choose("#location_id", "\u2003Dock 2"),
            click("button:has-text('Move 50 assets')"),
        ),
        "of 50 assets",
    ),
    Job(
        "Add an asset with an RFID tag",
        (
            click(ASSETS),
            click("a:text-is('New asset')"),
            fill("#name", "Cage"),
            fill("#tag_value", "AA99"),
            click(SAVE),
        ),
        "AA99",
    ),
    Job(
        "Import a table of assets",
        (
            click(ASSETS),
            click("main a:text-is('Import')"),
            Step("#file", file=True),
            click("text=Check file"),
            click("text=Import 1 row"),
        ),
        "Created",
    ),
    Job(
        "Attach an unmatched tag",
        (
            click("main a:has-text('nmatched tag')"),
            fill("[data-suggest]", "ASSET-0017"),
            click("main button:text-is('Attach')"),
        ),
        "No unmatched tags",
    ),
    Job(
        "Acknowledge an alert",
        (
            click("main a:has-text('pen alert')"),
            click("main details summary:text-is('Acknowledge')"),
            click("main details button:text-is('Acknowledge')"),
        ),
        "No alerts",
    ),
    Job(
        "See the arrivals and departures of a location",
        (click(LOCATIONS), click("tbody a:text-is('Dock 1')")),
        "Arrivals",
    ),
    Job(
        "Add a location",
        (
            click(LOCATIONS),
            click("a:text-is('New location')"),
            fill("#name", "Rack D"),
            choose("#parent_id", "Hall 1"),
            click(SAVE),
        ),
        "Rack D",
    ),
    Job(
        "Add a reader at a new location",
        (
            click(READERS),
            click("main a:text-is('New reader')"),
            fill("#name", "Portal"),
            fill("#topic", "hall/portal"),
            choose("#format", "Plain format for your own gateway"),
            fill("#location_name", "Dock 3"),
            click(SAVE),
        ),
        "hall/portal",
    ),
    Job(
        "Set up a door with two antennas of a reader",
        (
            *side("Doors"),
            fill("#name", "Gate"),
            click("main button:text-is('Create')"),
            choose("[name=inner_reader] >> nth=0", "Old portal"),
            fill("[name=inner_port] >> nth=0", "1"),
            choose("[name=outer_reader] >> nth=0", "Old portal"),
            fill("[name=outer_port] >> nth=0", "2"),
            click(SAVE + " >> nth=0"),
        ),
        "0 in, 0 out",
    ),
    Job(
        "Make a rule for arrivals at a location",
        (
            *side("Rules"),
            click("main a:text-is('New rule')"),
            fill("#name", "At dock 2"),
            choose("#location_id", "\u2003Dock 2"),
            click(SAVE),
        ),
        "When any asset enters Dock 2",
    ),
    Job("Start a muster", (*side("Musters"), click("main button:text-is('Start muster')")), "End muster"),
    Job(
        "Enroll a handheld",
        (*side("Devices"), fill("#name", "Scanner 3"), click("main button:text-is('Create link')")),
        "Scanner 3",
    ),
    Job(
        "Add a person with a password",
        (
            *side("People"),
            click("main a:text-is('New person')"),
            fill("#name", "Nora"),
            fill("#email", "nora@nord.example"),
            fill("#password", "correct horse battery"),
            click(SAVE),
        ),
        "nora@nord.example",
    ),
    Job("Export where all assets are as CSV", (*side("Export"), click("main button:text-is('Download')")), ""),
)


def prepare(site: Site) -> None:
    """Add an asset at Dock 1, an unmatched tag, an open alert, a plan for musters and a reader."""
    now, by, dock = clock.now(), shell(site.organization_id), site.docks[0].id
    positions.record([Scan(site.organization_id, site.assets[76].id, dock, None, None, now, now, Quality.HANDHELD)], 0)
    unknown_tags.record(
        [unknown_tags.Sighting(site.organization_id, "rfid", "E2AA", 0, "E2AA", "unmatched", now, None)]
    )
    assets.create(by, name="Anna Kowalska", external_key="PERSON-1")
    tracked_people.save(by, PeopleSetting(key_prefix="PERSON-"))
    plans.create(by, NewPlan("Hall 1", [dock]))
    readers.add_reader(by, name="Old portal", topic="old/portal", format="edge", location_id=dock)
    rule = rules.add_rule(by, RuleFields("Dock 1", Condition.ENTERS, location_id=dock))
    execute(
        "INSERT INTO alert (organization_id, rule_no, cause, subject_id, subject_name, subject_key, place_name, "
        "amount, occurred_at, made_at) VALUES (?, ?, 'x', ?, 'Pallet 77', 'ASSET-0077', 'Dock 1', 0, ?, ?)",
        (site.organization_id, rule, site.assets[76].id, now, now),
    )


def do(page: Page, step: Step) -> None:
    place = page.locator(step.at)
    if step.file:
        place.set_input_files([CSV])
    elif step.value:
        place.fill(step.value)
    elif step.chosen:
        place.select_option(label=step.chosen)
    elif step.key:
        place.press(step.key)
    else:
        place.click()


def written() -> dict[str, int]:
    """Return the steps of each job as the manual gives them."""
    table = MANUAL.read_text("utf-8").split("Steps of the 18 usual jobs", 1)[1].split("\n\n")[1]
    return {name: int(steps) for name, steps in re.findall(r"^\| ([^|]+?) \| (\d+): ", table, re.M)}


def test_each_job_takes_the_steps_that_the_manual_gives(enter: Callable[..., Page], site: Site) -> None:
    prepare(site)
    page = enter("ada", "/home", viewport={"width": 1440, "height": 900})
    for job in JOBS:
        page.goto("/home")
        for step in job.steps[:-1] if not job.done else job.steps:
            do(page, step)
        if job.done:
            expect(page.locator("main"), job.name).to_contain_text(job.done)
        else:
            with page.expect_download():
                do(page, job.steps[-1])
        slices.run_jobs(lambda _: False)
    assert {job.name: len(job.steps) for job in JOBS} == written()
    assert len(JOBS) == 18
