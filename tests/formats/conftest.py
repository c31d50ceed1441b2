from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from edge.formats.reads import Parsed
from edge.formats.registry import FORMATS


@pytest.fixture
def parse() -> Callable[..., Parsed]:
    """Return a function that parses a message (JSON or bytes) with a format, by default on its example topic."""

    def parse_message(name: str, message: Any, topic: str | None = None) -> Parsed:
        payload = message if isinstance(message, bytes) else msgspec.json.encode(message)
        return FORMATS[name].parse(topic or FORMATS[name].example_topic, payload)

    return parse_message
