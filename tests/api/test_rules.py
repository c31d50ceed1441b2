"""Every rule of the specification is cited by a test that proves it.

Citations are in docstrings of tests: `spec: Conventions 1, 4`, `spec: Asset name`, `contract: Lists`, separated by
semicolons. Numbers refer to the specification's own lists, other names to rows of its tables.
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

TESTS = Path(__file__).parents[1]

NUMBERED = {
    "What the service does": 9,
    "Auto-mint": 5,
    "Timestamps": 6,
    "States": 4,
    "Conventions": 6,
    "Write operations": 5,
    "Authentication": 9,
    "Errors": 5,
    "Versioning": 7,
}
TABLES = {
    "Identifiers": ("id", "external_key", "tag natural key", "tag value"),
    "Asset": tuple(SCHEMAS["Asset"]["properties"]),
    "Location": ("parent_id", "parent_external_key"),
    "Tag": tuple(SCHEMAS["RfidTag"]["properties"]),
    "Tracking rows": ("AssetLocationItem", "AssetHistoryItem", "Organization"),
    "Transitions": ("create", "PATCH", "rename", "delete asset", "delete location", "delete refused"),
    "Endpoints": ("Authentication", "Assets", "Locations", "Tracking report"),
    "Differing": ("read-only fields", "external_key", "tags", "asset location"),
    "Envelope": tuple(SCHEMAS["ErrorEnvelope"]["properties"]),
    "Type": tuple(KINDS),
    "Code": FIELD_CODES,
    "Limit": ("access token", "refresh token", "page size", "external_key", "tag value", "id", "duration_seconds"),
}
RULES = {name: tuple(map(str, range(1, count + 1))) for name, count in NUMBERED.items()} | TABLES
SECTIONS_OF_THE_CONTRACT = (
    *("Fields and bounds", "Precedence on a body", "Lists", "Endpoints", "Tracking", "Authentication"),
    *("Requests, limits, headers", "Ids and numbers", "Keys and filters", "Bodies", "Times", "Order of answers"),
    *("Additions", "Tracking, decided again"),
)
PROMISES = {
    "Versioning 3": "what may be added one day",
    "Versioning 6": "how a second version would come",
}


def _docstrings() -> Iterator[str]:
    for file in TESTS.rglob("test_*.py"):
        text = file.read_text()
        if "spec: " not in text and "contract: " not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield " ".join((ast.get_docstring(node) or "").split())


@cache
def _cited() -> set[str]:
    """Return rules as `section label`, and sections of the contract."""
    rules: set[str] = set()
    for text in _docstrings():
        for source, cited in re.findall(r"\b(spec|contract): ([^;]*[^;.\s])", text):
            if source == "contract":
                rules.add(f"contract: {cited}")
                continue
            section = max((name for name in RULES if cited.startswith(f"{name} ")), key=len, default=cited)
            rules |= {f"{section} {label}" for label in cited.removeprefix(section).strip().split(", ")}
    return rules


KNOWN = [f"{section} {label}" for section, labels in RULES.items() for label in labels]


@pytest.mark.parametrize("rule", [rule for rule in KNOWN if rule not in PROMISES])
def test_a_rule_of_the_specification_is_proven_by_a_test_that_cites_it(rule: str) -> None:
    assert rule in _cited()


@pytest.mark.parametrize("section", SECTIONS_OF_THE_CONTRACT)
def test_a_section_of_the_contract_is_cited(section: str) -> None:
    assert f"contract: {section}" in _cited()


def test_no_test_cites_a_rule_that_does_not_exist() -> None:
    assert _cited() - set(KNOWN) == {f"contract: {section}" for section in SECTIONS_OF_THE_CONTRACT}
