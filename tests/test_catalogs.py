"""Compiling the translations while the package is built."""

from __future__ import annotations

import gettext
import json
import os
import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / ".ci/catalogs.py"
MADE = {f"edge/translations/de/LC_MESSAGES/{name}" for name in ("messages.mo", "scripts.json")}
CATALOG = """
msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

#: web/static/page.js:1
msgid "Save"
msgstr "Speichern"

#, fuzzy
msgid "Close"
msgstr "Offen"
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "edge/translations/de/LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "messages.po").write_text(CATALOG)
    return tmp_path


def build(checkout: Path, version: str = "standard") -> set[str]:
    """Return the names of files for the package outside of the checkout."""
    build_data: dict[str, Any] = {"force_include": {}}
    hook = runpy.run_path(str(SCRIPT))["Catalogs"](str(checkout), {}, None, None, "", "wheel")
    hook.initialize(version, build_data)
    return {name for path, name in build_data["force_include"].items() if Path(path).stat().st_size}


def test_texts_are_compiled_without_those_that_nobody_checked(checkout: Path) -> None:
    assert build(checkout) == set()
    folder = checkout / "edge/translations/de/LC_MESSAGES"
    with (folder / "messages.mo").open("rb") as file:
        texts = gettext.GNUTranslations(file)
    assert (texts.gettext("Save"), texts.gettext("Close")) == ("Speichern", "Close")
    assert json.loads((folder / "scripts.json").read_text()) == {"office": {"Save": "Speichern"}, "handhelds": {}}


def test_a_package_of_a_checkout_that_cannot_be_written_has_all_languages(checkout: Path) -> None:
    """A folder in the way also stops root, whom permissions do not."""
    for name in MADE:
        (checkout / name).mkdir()
        os.utime(checkout / name, (0, 0))
    assert build(checkout) == MADE
    with pytest.raises(OSError, match=r"scripts\.json"):
        build(checkout, "editable")
