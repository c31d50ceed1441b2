"""What axe-core says of a page."""

from __future__ import annotations

from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")


def faults(page: Page) -> list[str]:
    """Those that are serious or critical."""
    page.evaluate(AXE)
    found = page.evaluate(
        "() => axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations"
        ".filter((one) => ['serious', 'critical'].includes(one.impact))"
        ".map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' | ')))"
    )
    return list(found)
