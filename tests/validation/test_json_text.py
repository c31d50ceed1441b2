from __future__ import annotations

import pytest

from edge.texts import fill
from edge.validation import json_text


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
