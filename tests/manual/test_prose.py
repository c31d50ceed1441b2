"""The prose of README, manual and changelog is plain: short sentences, the words of the field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.manual.documents import DOCUMENTS, ROOT

DIALECT = re.compile(
    r"\b(what|whoever|whatever|told|tells?|whose|of which|at the longest|beside|lately|anew|so that|wherever|heard)\b",
    re.IGNORECASE,
)
SHARE = 2 / 1000
LONGEST = 40  # words of a sentence
TEXTS = [*DOCUMENTS, ROOT / "edge" / "CHANGELOG.md"]


def prose(document: Path) -> str:
    """Return the text without code and markers."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", document.read_text("utf-8"))
    return re.sub(r"<!--.*?-->|`[^`]*`", "X", text)


def test_words_of_our_own_are_rare() -> None:
    text = " ".join(prose(document) for document in TEXTS)
    assert len(DIALECT.findall(text)) <= SHARE * len(text.split()), DIALECT.findall(text)


@pytest.mark.parametrize("document", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_sentence_is_very_long(document: Path) -> None:
    sentences = re.split(r"(?<=[.:;!?|])\s+|\n\n|\n *[*|]", prose(document))
    assert [sentence for sentence in sentences if len(sentence.split()) > LONGEST] == []
