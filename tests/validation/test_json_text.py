from __future__ import annotations

import pytest

from edge.errors import Unreadable
from edge.texts import fill
from edge.validation import json_text, strict_json


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[01]", b"NaN", b"1e999", b"1" * 5_000, b'"\xff"', b'"\\ud800"', '"\ud800"', b"[1] 2", b"[" * 100_000],
)
def test_what_is_not_json_is_one_error(content: bytes | str) -> None:
    with pytest.raises(json_text.NotJson):
        json_text.decode(content)


def test_raw_text_is_taken_over_as_it_is() -> None:
    assert json_text.encode({"a": json_text.Raw('{"b": 1.0}')}) == b'{"a":{"b": 1.0}}'


def test_a_text_with_values_is_plain_text() -> None:
    assert json_text.text([fill("at most %(number)s", number=5)]) == '["at most 5"]'
    with pytest.raises(TypeError):
        json_text.text([object()])


def test_a_body_with_a_byte_order_mark_is_refused_with_the_reason() -> None:
    with pytest.raises(Unreadable, match="The body begins with a byte order mark: send UTF-8 without one"):
        strict_json.parse(b'\xef\xbb\xbf{"name": "x"}')
