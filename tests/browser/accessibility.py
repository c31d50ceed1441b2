"""Faults of accessibility in a page, by axe-core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
COLOR = ("color-contrast", "link-in-text-block")  # axe's rules that depend on the color scheme


def faults(page: Page, rules: Sequence[str] = ()) -> list[str]:
    """Return the serious and critical ones, by all default rules or only the given ones."""
    page.evaluate(AXE)
    found = page.evaluate(
        "(rules) => axe.run(document, { resultTypes: ['violations'],"
        "...(rules.length && { runOnly: { type: 'rule', values: rules } }) })"
        ".then((result) => result.violations"
        ".filter((one) => ['serious', 'critical'].includes(one.impact))"
        ".map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' | ')))",
        list(rules),
    )
    return list(found)
