"""The mappings that are shipped as examples, each with a message it reads: `data/mappings/*.json`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_PACKAGE = Path(__file__).parents[2]
_FOLDER = "data/mappings"


class Example(NamedTuple):
    """`message` as text is the payload itself, else its JSON."""

    name: str
    title: str
    topic: str
    mapping: dict[str, Any]
    message: Any

    @property
    def payload(self) -> bytes:
        return (self.message if isinstance(self.message, str) else json.dumps(self.message)).encode()


@cache
def examples() -> dict[str, Example]:
    """By name. In an installation they are within the package, in a checkout beside it."""
    folder = next(home / _FOLDER for home in (_PACKAGE, _PACKAGE.parent) if (home / _FOLDER).is_dir())
    found = [Example(file.stem, **json.loads(file.read_text("utf-8"))) for file in sorted(folder.glob("*.json"))]
    return {example.name: example for example in found}
