from __future__ import annotations

import tracemalloc

import pytest

from edge.formats.framing import documents
from edge.formats.reads import Malformed

MIB = 1_048_576
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("payload", [BYTE_ORDER_MARK * (MIB // 3), (BYTE_ORDER_MARK + b"\0") * (MIB // 4)])
def test_marks_around_a_text_are_removed_without_a_copy_for_each(payload):
    tracemalloc.start()
    try:
        with pytest.raises(Malformed):
            documents(payload)
        assert tracemalloc.get_traced_memory()[1] < 20 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "payload",
    [
        BYTE_ORDER_MARK + b' {"a": 1}\r\n\0',
        '{"a": 1}'.encode("utf-16"),
        b'"{\\"a\\": 1}"',
        BYTE_ORDER_MARK + b'"{\\"a\\": 1}"',
        b'[{"a": 1}]',
    ],
)
def test_the_object_inside_is_found(payload):
    assert documents(payload) == [{"a": 1}]


def test_objects_run_together_may_have_marks_around_them():
    assert documents(BYTE_ORDER_MARK + b'{"a": 1}{"b": 2}\0') == [{"a": 1}, {"b": 2}]
