"""The chapter on security lists the largest body of each route."""

from __future__ import annotations

import re
from pathlib import Path

from flask import Flask

from edge.api import guard as api_guard
from edge.api import sync
from edge.pages import guard as pages_guard
from edge.sync import batch_format
from tests.application import shared_app

CHAPTER = Path(__file__).parents[2] / "web" / "manual" / "security.md"


def of_routes(app: Flask) -> dict[str, int]:
    """Return the limits of pages that have one of their own."""
    return {
        rule.rule: limit
        for rule in app.url_map.iter_rules()
        if (limit := getattr(app.view_functions[rule.endpoint], "max_body", None))
    }


def test_the_chapter_lists_the_largest_body_of_each_route() -> None:
    listed = {
        route: int(limit.replace(",", ""))
        for routes, limit in re.findall(r"^\| (.*`/.*) \| ([\d,]+) \|$", CHAPTER.read_text("utf-8"), re.MULTILINE)
        for route in re.findall("`([^`]+)`", routes)
    }
    assert pages_guard.MAX_BODY == api_guard.MAX_BODY
    assert listed == of_routes(shared_app()) | {
        "/api/v1": api_guard.MAX_BODY,
        "/sync/v1/join": sync.MAX_JOIN,
        "/sync/v1/preview": sync.MAX_PREVIEW,
        "/sync/v1": batch_format.MAX_BODY,
    }
