"""Each rule in the chapter "Rules of the interface" is cited by a test that proves it, and each citation names a rule.

Citations name headings of the chapter, with numbers or names of rules below them, separated by semicolons:
`interface: Conventions 1, 4; Asset name; Lists`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from edge.api.envelope import KINDS
from edge.api.schemas import FIELD_CODES, SCHEMAS
from tests.manual.documents import FOLDER, ROOT

TEXT = (FOLDER / "interface.md").read_text("utf-8")


def _chapter() -> dict[str, list[str]]:
    """Return the numbers and names of rules by heading."""
    _, *parts = re.split(r"(?m)^## ", TEXT)
    rules = {heading: body for heading, _, body in (part.partition("\n") for part in parts)}
    return {
        heading: [name or number for name, number in re.findall(r"(?m)^(?:\| `([^`]+)` \||(\d+)\. )", body)]
        for heading, body in rules.items()
    }


RULES = _chapter()
KNOWN = [
    heading if not labels else f"{heading} {label}" for heading, labels in RULES.items() for label in labels or ("",)
]
TABLES = {
    "Asset": SCHEMAS["AssetView"]["properties"],
    "Tag": SCHEMAS["RfidTag"]["properties"],
    "Envelope": SCHEMAS["ErrorEnvelope"]["properties"],
    "Type": KINDS,
    "Code": FIELD_CODES,
}
PROMISES = {"Versioning 3", "Versioning 6"}  # about the future


def _cited(text: str) -> Iterator[str]:
    """Yield the rules that a text cites, as `heading label` or `heading`."""
    for match in re.findall(r"\binterface: ([^).`\"]+)", " ".join(text.split())):
        for cited in match.split(";"):
            heading = max((name for name in RULES if f"{cited.strip()} ".startswith(f"{name} ")), key=len, default="")
            labels = cited.strip().removeprefix(heading).strip()
            yield from (f"{heading} {label}".strip() for label in labels.split(", "))


@cache
def _proven() -> set[str]:
    """Return the rules that docstrings of tests cite."""
    return {
        rule
        for file in (ROOT / "tests").rglob("test_*.py")
        if "interface: " in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for rule in _cited(ast.get_docstring(node) or "")
    }


@pytest.mark.parametrize("rule", [rule for rule in KNOWN if rule not in PROMISES])
def test_a_rule_of_the_interface_is_proven_by_a_test_that_cites_it(rule: str) -> None:
    assert rule in _proven()


@pytest.mark.parametrize("heading", TABLES)
def test_a_table_of_the_chapter_has_every_name(heading: str) -> None:
    assert RULES[heading] == [*TABLES[heading]]


def test_each_citation_names_a_rule_of_the_chapter() -> None:
    known = {*KNOWN, *RULES}
    files = [path for folder in ("edge", "tests") for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    wrong = {(file.name, cited) for file in files for cited in _cited(file.read_text()) if cited not in known}
    assert wrong == set()
