"""Faults of accessibility in a page, by axe-core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
ALL = ("minor", "moderate", "serious", "critical")
COLOR = ("color-contrast", "link-in-text-block")  # axe's rules that depend on the color scheme


def faults(page: Page, rules: Sequence[str] = (), impacts: Sequence[str] = ("serious", "critical")) -> list[str]:
    """Return those with these impacts, by all default rules or only the given ones."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE)
    found = page.evaluate(
        "([rules, impacts]) => axe.run(document, { resultTypes: ['violations'],"
        "...(rules.length && { runOnly: { type: 'rule', values: rules } }) })"
        ".then((result) => result.violations"
        ".filter((one) => impacts.includes(one.impact))"
        ".map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' | ')))",
        [list(rules), list(impacts)],
    )
    return list(found)


# A link within a sentence may be as low as its line. The label of a box or radio button is tapped as well.
SMALL = """() => {
  const found = [];
  for (const one of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")) {
    if (one.closest("[hidden], .unseen") || (one.closest("details:not([open])") && one.tagName !== "SUMMARY")) continue;
    if (one.matches(".skip, .unseen, svg *") || !one.getClientRects().length) continue;
    const isInText = one.tagName === "A" && getComputedStyle(one).display === "inline";
    if (isInText && one.parentElement.innerText.trim() !== one.innerText.trim()) continue;
    const tapped = one.matches("[type=checkbox], [type=radio]") && one.closest("label") || one;
    const { width, height } = tapped.getBoundingClientRect();
    if (Math.round(height) < 44 || Math.round(width) < 44) found.push(one.outerHTML.slice(0, 120));
  }
  return found;
}"""


def small_targets(page: Page) -> list[str]:
    """Return what is tapped and smaller than 44 px, which fingers in gloves miss."""
    return list(page.evaluate(SMALL))
