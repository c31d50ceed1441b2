"""CBOR payloads: plain values, whatever their tags mean, within bounds."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.formats import cbor, payloads
from edge.formats.reads import Malformed

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(PLAIN)
def test_values_of_json_are_read_as_they_are(value: Any) -> None:
    assert cbor.decode(cbor2.dumps(value)) == value


@given(st.binary(max_size=200))
def test_other_bytes_are_refused_in_words_or_are_plain(payload: bytes) -> None:
    with suppress(Malformed):
        assert are_plain(payloads.values(payload, "cbor"))


def are_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str | bytes) for name in value) and are_plain(list(value.values()))
    return all(map(are_plain, value)) if isinstance(value, list) else isinstance(value, str | int | float | None)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (cbor2.CBORTag(1, 1_772_438_400), 1_772_438_400),
        (cbor2.CBORTag(0, "2026-03-02T08:15:30Z"), "2026-03-02T08:15:30Z"),
        (cbor2.CBORTag(5, [1 << 30, 3]), [1 << 30, 3]),  # 3 x 2^(2^30), which would be 128 MB
        (cbor2.CBORTag(35, "(a+)+$"), "(a+)+$"),
        (cbor2.CBORTag(4711, {"epc": ["30AA"]}), {"epc": ["30AA"]}),
        (cbor2.undefined, None),
        (cbor2.CBORSimpleValue(5), None),
    ],
)
def test_only_what_a_tag_contains_counts(content: Any, value: Any) -> None:
    assert cbor.decode(cbor2.dumps(content)) == value


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", "premature end"),
        (b"\xa1\x61a", "premature end"),
        (b"\x01\x02", "there is more after the value"),
        (b"\x81" * 20_000 + b"\x00", "nesting depth"),
        (b"\xc1" * 20_000 + b"\x00", "nesting depth"),
        (bytes.fromhex("9b00000000ffffffff00"), "premature end"),
        (bytes.fromhex("5b00000000ffffffff00"), "premature end"),
        (bytes.fromhex("a10102"), "map key must be a text"),
        (b"\x00" * (cbor.MOST_BYTES + 1), "more than 65,536 bytes"),
    ],
)
def test_what_is_no_value_is_refused(payload: bytes, message: str) -> None:
    with pytest.raises(Malformed, match=message):
        payloads.values(payload, "cbor")


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cbor, "find_spec", lambda _name: None)
    with pytest.raises(Malformed, match=r"pip install 'edge\[cbor\]'"):
        payloads.values(b"\xa0", "cbor")
