"""Scripts use only what the oldest supported browsers have: Chrome 80, Firefox 75 and Safari 13.1."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[3] / "web" / "static"
# Feature, and the first version of the browser that has it last.
TOO_NEW = {
    r"\?\?=|\|\|=|&&=": "assignment with a condition: Chrome 85",
    r"\.replaceChildren\(": "Chrome 86",
    r"\.replaceAll\(": "Chrome 85",
    r"\bPromise\.any\(|\bAggregateError\b": "Chrome 85",
    r"\bWeakRef\b|\bFinalizationRegistry\b": "Chrome 84",
    r"\bObject\.(hasOwn|groupBy)\(|\bMap\.groupBy\(": "Chrome 93",
    r"\.(findLast|findLastIndex|toSorted|toReversed|toSpliced)\(": "Chrome 97",
    r"\]\.at\(|\.at\(-": "Chrome 92",
    r"\bstructuredClone\(": "Chrome 98",
    r"\bAbortSignal\.(timeout|any)\(": "Chrome 103",
    r"\bIntl\.(ListFormat|Segmenter|DurationFormat)\b": "Firefox 78",
    r"^\s*(static\s+)?#\w+\s*[=(;]": "private members: Safari 14.1",
    r"^\s*static\s*(\{|\w+\s*=)": "static members: Safari 14.1",
    r"^(const .*= )?await ": "await of a module: Chrome 89",
    r"\(\?<[=!]": "lookbehind: Safari 16.4",
    r"/[a-z]*[dv][a-z]*\.(test|exec)\(": "flags d and v: Chrome 90",
}
OWN = [path for path in sorted(STATIC.rglob("*.js")) if "vendor" not in path.parts]


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_a_script_needs_no_newer_browser(path: Path) -> None:
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        for pattern, reason in TOO_NEW.items():
            assert not re.search(pattern, line), f"line {number}: {reason}: {line.strip()}"
