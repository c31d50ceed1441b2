"""Example mappings with sample messages: `data/mappings/*.json`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from edge.formats.mapping import parser_for
from edge.formats.mapping_settings import mapping_from
from edge.formats.reads import Malformed, Parser, Read

_PACKAGE = Path(__file__).parents[1]
_FOLDER = "data/mappings"
_LARGEST_TRIED = 8_192  # bytes; a page may list 1,000 topics
_SHORTEST_EPC = 8  # digits; shorter sequences occur in any text


class Example(NamedTuple):
    """Example mapping. `message`: the payload if it is text, otherwise sent as JSON."""

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
    """Return the examples by name. The folder is inside an installed package, and next to it in a checkout."""
    folder = next(home / _FOLDER for home in (_PACKAGE, _PACKAGE.parent) if (home / _FOLDER).is_dir())
    loaded = [Example(file.stem, **json.loads(file.read_text("utf-8"))) for file in sorted(folder.glob("*.json"))]
    return {example.name: example for example in loaded}


@cache
def mappings_by_title() -> dict[str, str]:
    """Mappings of the examples as indented JSON."""
    return {example.title: json.dumps(example.mapping, indent=2) for example in examples().values()}


def example_that_reads(topic: str, payload: bytes) -> Example | None:
    """Return the best example that parses the whole message: most fields, then the simplest mapping."""
    if len(payload) > _LARGEST_TRIED:
        return None
    worth = {}
    for name, parse in _parsers().items():
        try:
            parsed = parse(topic, payload)
        except Malformed:
            continue
        if parsed.reads and not parsed.skipped and all(map(_is_credible, parsed.reads)):
            worth[name] = (sum(map(_field_count, parsed.reads)), -len(examples()[name].mapping))
    return examples()[max(worth, key=lambda name: worth[name])] if worth else None


@cache
def _parsers() -> dict[str, Parser]:
    return {example.name: parser_for(mapping_from(example.mapping)) for example in examples().values()}


def _is_credible(read: Read) -> bool:
    """Return True if the tag value is plausible. A mapping accepts almost any text."""
    return ":" in read.value if read.tag_type == "ble" else len(read.value) >= _SHORTEST_EPC


def _field_count(read: Read) -> int:
    """Return the number of known fields of a read, without its tag."""
    values = (read.aliases or None, read.antenna, read.antenna_name, read.rssi, read.observed_at)
    return len(values) - values.count(None)
