"""The service keeps little memory of its start, and nothing is missing later."""

from __future__ import annotations

from typing import NamedTuple, get_type_hints

import msgspec

from edge.memory_budget import forget_forward_references
from tests.application import shared_app


class Read(NamedTuple):
    tag: str
    rssi: int | None = None


def test_urls_of_routes_are_built_although_their_code_is_compiled_late() -> None:
    urls = shared_app().url_map.bind("box.lan")
    path = {"version": "1", "name": "app.js"}
    assert urls.build("pages.static_file", path) == "/static/1/app.js"
    assert urls.build("pages.static_file", {**path, "q": "a b"}) == "/static/1/app.js?q=a+b"
    assert urls.build("pages.static_file", {**path, "q": "a b"}, append_unknown=False) == "/static/1/app.js"


def test_named_tuples_still_have_types_without_forward_references() -> None:
    forget_forward_references()
    assert Read.__annotations__ == {"tag": "str", "rssi": "int | None"}
    assert get_type_hints(Read) == {"tag": str, "rssi": int | None}
    assert msgspec.convert(["AB", 3], Read) == Read("AB", 3)
