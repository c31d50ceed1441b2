"""The modules of the pages in JavaScript, tested by node where no browser is needed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

STATIC = Path(__file__).parents[2] / "web" / "static"
IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*"(\.[^"]+)\"""")
HERE = Path(__file__).parent / "scripts"


@pytest.mark.node
@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name)
def test_script(file: Path) -> None:
    command = ["node", "--no-warnings", "--test", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def imports_of(file: Path) -> list[Path]:
    """Static and dynamic ones."""
    return [(file.parent / name).resolve() for name in IMPORT.findall(file.read_text("utf-8"))]


def cycles(imports: dict[Path, list[Path]]) -> Iterator[str]:
    """Take away what imports nothing that is left, again and again: what remains is in a cycle or leads to one."""
    left = dict(imports)
    while ends := [file for file, used in left.items() if not any(one in left for one in used)]:
        for file in ends:
            del left[file]
    yield from sorted(file.name for file in left)


def test_no_scripts_import_each_other_in_a_circle() -> None:
    imports = {file.resolve(): imports_of(file) for file in STATIC.rglob("*.js")}
    assert any(file.name == "tools.js" for used in imports.values() for file in used), "dynamic imports are seen"
    assert list(cycles(imports)) == []
