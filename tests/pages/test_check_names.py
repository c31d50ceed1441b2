"""Names that people know for the checks: on the Status page, and for the sites of a hub."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from flask import Flask

from edge.operations.doctor.checks import CHECKS
from edge.operations.health import Check, Health
from edge.pages.formatting import check_name
from edge.people.people import Role
from tests.application import change
from tests.pages.conftest import Browser

EDGE = Path(__file__).parents[2] / "edge"


def test_every_check_has_a_name() -> None:
    sources = "".join(path.read_text("utf-8") for path in EDGE.rglob("*.py"))
    of_service = set(re.findall(r'\b(?:Check|Housekeeper)\(\s*"([a-z_-]+)"', sources))
    assert {"ingest", "round_trip", "continuous_backup"} <= of_service
    assert set(CHECKS) == of_service | {name for name, known in CHECKS.items() if known.function}


def test_a_check_of_a_newer_release_is_shown_as_it_is() -> None:
    assert check_name("tides") == "tides"


def test_the_status_page_names_its_checks(app: Flask, sign_in_as: Callable[..., Browser]) -> None:
    health = Health()
    health.register(lambda: Check("round_trip", True, "pings return"))
    change(app, health=health)
    text = sign_in_as(Role.EDITOR).get("/status").text
    assert "<b>Messages through the broker</b>" in text
    assert "round_trip" not in text
