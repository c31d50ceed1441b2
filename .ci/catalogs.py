"""Compile the translations: `messages.mo`, and `scripts.json` with the texts of the scripts.

Building or installing the package does it, see `pyproject.toml`. So do `.ci/texts` and the tests after a change.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import polib
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCRIPTS, HANDHELDS = "web/static/", "web/static/handhelds/"


class Catalogs(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            make(Path(self.root))
        except OSError:  # a checkout on a read-only medium: the files are in the package only
            if version == "editable":
                raise
            scratch = Path(mkdtemp())
            atexit.register(shutil.rmtree, scratch, ignore_errors=True)
            make(Path(self.root), scratch)
            made = (path for path in scratch.rglob("*") if path.is_file())
            build_data["force_include"] |= {str(path): str(path.relative_to(scratch)) for path in made}


def make(root: Path, target: Path | None = None) -> None:
    """Write the files that are missing or older than their translations, in `root` or in another folder."""
    for source in root.glob("edge/translations/*/LC_MESSAGES/messages.po"):
        folder = (target or root) / source.parent.relative_to(root)
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / "messages.mo", folder / "scripts.json"
        if any(not path.exists() or path.stat().st_mtime < source.stat().st_mtime for path in made):
            catalog = polib.pofile(str(source))
            _write(made[1], (json.dumps(_texts_of_scripts(catalog), ensure_ascii=False, indent=1) + "\n").encode())
            _write(made[0], catalog.to_binary())


def _texts_of_scripts(catalog: polib.POFile) -> dict[str, dict[str, str | list[str]]]:
    """Return what a page sends to the browser. Pages of the office do not need the texts that only handhelds show."""
    texts: dict[str, dict[str, str | list[str]]] = {"office": {}, "handhelds": {}}
    for entry in catalog.translated_entries():
        scripts = [name for name, _ in entry.occurrences if name.startswith(SCRIPTS)]
        if scripts:
            of = "handhelds" if all(name.startswith(HANDHELDS) for name in scripts) else "office"
            texts[of][entry.msgid] = list(entry.msgstr_plural.values()) or entry.msgstr
    return texts


def _write(path: Path, content: bytes) -> None:
    """Replace a file at once: a process that reads it gets all of the old or of the new one."""
    new = path.with_suffix(f".{os.getpid()}")
    new.write_bytes(content)
    new.replace(path)


if __name__ == "__main__":
    make(Path(__file__).resolve().parent.parent)
