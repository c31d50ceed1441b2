"""The "?" link of each page to its section of the manual."""

from __future__ import annotations

from flask import request

from edge.manual import ADDRESS

SECTIONS: dict[str, str] = {}  # by registered path of the page; `edge.pages.guard.Views` adds them
OTHERWISE = "troubleshooting#symptoms"


def help_address() -> str:
    """Return the path of the section about the requested page."""
    path = request.url_rule.rule if request.url_rule else ""
    while path and path not in SECTIONS:
        path = path.rpartition("/")[0]
    return f"{ADDRESS}/{SECTIONS.get(path, OTHERWISE)}"
