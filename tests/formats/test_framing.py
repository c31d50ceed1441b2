from __future__ import annotations

import tracemalloc

import pytest

from edge.formats.framing import documents
from edge.formats.reads import Malformed

MIB = 1_048_576
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("payload", [BYTE_ORDER_MARK * (MIB // 3), (BYTE_ORDER_MARK + b"\0") * (MIB // 4)])
def test_surrounding_marks_are_removed_with_one_copy(payload):
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
def test_surrounding_bytes_are_removed(payload):
    assert documents(payload) == [{"a": 1}]


def test_concatenated_objects_may_have_surrounding_marks():
    assert documents(BYTE_ORDER_MARK + b'{"a": 1}{"b": 2}\0') == [{"a": 1}, {"b": 2}]
