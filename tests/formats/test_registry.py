"""Requirements for all reader formats in the registry."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from edge import formats
from edge.formats.reads import UNREADABLE_ANTENNA, Kind, Malformed, Parsed, Parser, Read, WallTime
from edge.formats.registry import FORMATS, parser_of, recognize
from edge.validation.values import TAG_TYPES
from tests.formats.reader_samples import ADVERT, EPC, MAC, MAPPED, MOMENT, SAMPLES, UUID

PARSERS: dict[str, tuple[str, Parser]] = {
    **{name: (format_.example_topic, format_.parse) for name, format_ in FORMATS.items()},
    "mapping": ("any/topic", MAPPED),
}
BINARY = {"april_brother"}  # formats without JSON
OF_LINES = {"ingics"}  # formats of lines, optionally wrapped in JSON

every_format = pytest.mark.parametrize("name", SAMPLES)
every_parser = pytest.mark.parametrize("name", sorted(PARSERS.keys() - BINARY))


def parse(name: str, message: Any) -> Parsed:
    topic, parser = PARSERS[name]
    return parser(topic, message if isinstance(message, bytes) else msgspec.json.encode(message))


def at(message: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        message = message[key]
    return message


def test_every_format_has_a_sample():
    assert SAMPLES.keys() == FORMATS.keys() - BINARY - OF_LINES


@every_format
def test_the_table_is_keyed_by_name(name):
    assert FORMATS[name].name == name
    assert FORMATS[name].title
    assert FORMATS[name].example_topic


@every_format
def test_the_documented_message_is_parsed(name):
    assert parse(name, SAMPLES[name].message) == Parsed(Kind.READS, SAMPLES[name].reads)


@every_format
def test_optional_fields_may_be_missing(name):
    assert parse(name, SAMPLES[name].bare) == Parsed(Kind.READS, SAMPLES[name].bare_reads)


@every_format
def test_unknown_keys_change_nothing(name):
    def with_unknown_keys(value: Any) -> Any:
        if isinstance(value, list):
            return [with_unknown_keys(item) for item in value]
        if isinstance(value, dict):
            return {
                **{key: with_unknown_keys(item) for key, item in value.items()},
                "unheardOf": [1, {"x": None}],
            }
        return value

    assert parse(name, with_unknown_keys(SAMPLES[name].message)).reads == SAMPLES[name].reads


@every_format
@pytest.mark.parametrize("wrong", [True, [], {}, "strong"])
def test_a_wrong_type_affects_only_its_field(name, wrong):
    sample = SAMPLES[name]
    good = copy.deepcopy(sample.message)
    entries = at(good, sample.entries) if sample.entries else good if isinstance(good, list) else [good]
    scanned = entries[1] if name == "minew" else entries[0]
    spoilt = copy.deepcopy(scanned)
    at(spoilt, sample.rssi[:-1])[sample.rssi[-1]] = wrong
    entries.insert(1, spoilt)
    parsed = parse(name, good if sample.entries else entries)
    with_strength = [read for read in parsed.reads if read.rssi is not None]
    assert with_strength == [read for read in sample.reads if read.rssi is not None]
    assert len(parsed.reads) == len(sample.reads) + 1
    assert (parsed.skipped, parsed.note[-10:]) == (0, ": left out")


@every_format
@pytest.mark.parametrize("stray", [5, "text", None, True, []])
def test_entries_that_are_not_objects_are_counted(name, stray):
    sample = SAMPLES[name]
    message = copy.deepcopy(sample.message)
    if sample.entries:
        at(message, sample.entries).append(stray)
    else:
        message = [*message, stray] if isinstance(message, list) else [message, stray]
    parsed = parse(name, message)
    assert (parsed.reads, parsed.skipped) == (sample.reads, 1)


@every_format
@pytest.mark.parametrize("between", [b"", b" ", b"\n", b"\r\n\t"])
def test_concatenated_messages_are_parsed_in_order(name, between):
    once = msgspec.json.encode(SAMPLES[name].message)
    assert parse(name, once + between + once).reads == SAMPLES[name].reads * 2


@every_format
def test_an_array_of_messages_is_parsed_like_messages(name):
    message = SAMPLES[name].message
    array = message * 2 if isinstance(message, list) else [message, message]
    assert parse(name, array).reads == SAMPLES[name].reads * 2


@every_format
def test_the_same_message_twice_gives_the_same_twice(name):
    payload = msgspec.json.encode(SAMPLES[name].message)
    assert parse(name, payload) == parse(name, payload)


@every_parser
@pytest.mark.parametrize("payload", [b"null", b"[]", b"{}", b'"text"', b"5", b"true", b"[[]]", b"[5]", b" {} "])
def test_unrecognized_json_is_ignored(name, payload):
    assert replace(parse(name, payload), note=None) == Parsed(Kind.IGNORED)


BROKEN = {
    "cut short": b'{"tags":[{"epc":"30',
    "not closed": b"[{}",
    "trailing comma": b'{"a":1,}',
    "trailing text": b"{} tail",
    "plain text": b"hello",
    "blank": b" \n",
    "binary": bytes(range(128, 256)),
    "integer of 5,000 digits": b'{"a":' + b"9" * 5_000 + b"}",
    "integer of 5,000 digits, run together": b'{}{"a":' + b"9" * 5_000 + b"}",
    "nested 100,000 deep": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nested 100,000 deep, not closed": b"[" * 100_000,
    "nested 100,000 deep, run together": b"{}" + b'{"a":' * 100_000,
}


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        pytest.param(name, payload, id=f"{name}-{what}")
        for name in PARSERS
        for what, payload in BROKEN.items()
        if payload.strip() or name != "impinj"  # its disconnect message is empty
    ],
)
def test_invalid_json_is_rejected_with_a_reason(name, payload):
    with pytest.raises(Malformed) as refused:
        parse(name, payload)
    assert 5 < len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)


DAMAGE = {
    "a byte that is not UTF-8": b'"\xf6"',
    "a letter that is cut off": b'"Ren\xc3"',
    "Latin-1": '"Lüftung"'.encode("latin-1"),
    "a control character": b'"\x02"',
    "a tab and a line end": b'"\t\r\n"',
    "NUL": b'"\0"',
    "half a surrogate pair": b'"\\ud800"',
    "the other half": b'"\\uDFFFx"',
    "NaN": b"NaN",
    "infinity": b"-Infinity",
    "beyond a double": b"1e999",
}


@every_format
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_field_costs_no_read(name, damage):
    """A stranger's device name must not stop the reads of a gateway."""
    with_name = copy.deepcopy(SAMPLES[name].message)
    for entry in with_name if isinstance(with_name, list) else [with_name]:
        entry["unheardOf"] = "DAMAGED"
    payload = msgspec.json.encode(with_name).replace(b'"DAMAGED"', damage)
    for message in (payload, payload + payload):
        parsed = parse(name, message)
        assert parsed.reads == SAMPLES[name].reads * (len(message) // len(payload))
        assert parsed.skipped == 0


@every_format
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_strength_is_left_out(name, damage):
    sample = SAMPLES[name]
    message = copy.deepcopy(sample.message)
    entries = at(message, sample.entries) if sample.entries else message if isinstance(message, list) else [message]
    at(entries[1 if name == "minew" else 0], sample.rssi[:-1])[sample.rssi[-1]] = "DAMAGED"
    parsed = parse(name, msgspec.json.encode(message).replace(b'"DAMAGED"', damage))
    assert [read.value for read in parsed.reads] == [read.value for read in sample.reads]
    assert None in [read.rssi for read in parsed.reads]


@every_format
@pytest.mark.parametrize("sent", [127, "127", 127.0, 0])
def test_a_strength_that_was_not_measured_is_unknown(name, sent):
    sample = SAMPLES[name]
    message = copy.deepcopy(sample.message)
    entries = at(message, sample.entries) if sample.entries else message if isinstance(message, list) else [message]
    hundredths = 100 if sample.rssi[-1] == "peakRssiCdbm" else 1
    at(entries[1 if name == "minew" else 0], sample.rssi[:-1])[sample.rssi[-1]] = (
        sent * hundredths if sent != "127" else sent
    )
    parsed = parse(name, message)
    assert len(parsed.reads) == len(sample.reads)
    assert not {0, 127} & {read.rssi for read in parsed.reads}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_mapping_keeps_the_reads_beside_a_damaged_field(damage):
    parse_mapped = parser_of("mapping", '{"list_path": "tags", "tag_path": "epc", "rssi_path": "rssi"}')
    parsed = parse_mapped("t", b'{"tags":[{"epc":"30AA"},{"epc":"30BB","rssi":%s,"name":%s}]}' % (damage, damage))
    assert [(read.value, read.rssi) for read in parsed.reads] == [("30AA", None), ("30BB", None)]


def test_a_mapping_of_text_keeps_the_reads_beside_damaged_bytes():
    parse_lines = parser_of("mapping", '{"payload": "lines", "columns": ["epc", "name"], "tag_path": "epc"}')
    lines = f"{EPC},Tor\n".encode() * 3 + b"30AA,L\xfcftung\n"
    assert [read.value for read in parse_lines("t", lines).reads] == [EPC] * 3 + ["30AA"]
    with pytest.raises(Malformed, match="not UTF-8 text"):
        parse_lines("t", bytes(range(128, 256)))


AROUND = {
    "byte order mark": (b"\xef\xbb\xbf", b""),
    "NUL at the end": (b"", b"\0"),
    "buffer of NULs": (b"", b"\0" * 64),
    "all of it": (b"\xef\xbb\xbf ", b"\r\n\0\0"),
}


@every_format
@pytest.mark.parametrize(("before", "after"), AROUND.values(), ids=AROUND)
def test_bytes_around_json_are_ignored(name, before, after):
    assert parse(name, before + msgspec.json.encode(SAMPLES[name].message) + after).reads == SAMPLES[name].reads


@every_format
@pytest.mark.parametrize("order", ["utf-16", "utf-16-be"])
def test_utf_16_with_a_mark_is_accepted(name, order):
    text = ("" if order == "utf-16" else "\ufeff") + msgspec.json.encode(SAMPLES[name].message).decode()
    assert parse(name, text.encode(order)).reads == SAMPLES[name].reads


@every_format
def test_doubly_encoded_json_is_accepted(name):
    text = msgspec.json.encode(SAMPLES[name].message).decode()
    assert parse(name, msgspec.json.encode(text)).reads == SAMPLES[name].reads


@every_format
def test_rssi_with_a_unit_is_accepted(name):
    if name == "impinj":  # in units of 0.01 dBm
        return
    message = copy.deepcopy(SAMPLES[name].message)
    entries = at(message, SAMPLES[name].entries) if SAMPLES[name].entries else message
    scan = entries[1 if name == "minew" else 0] if isinstance(entries, list) else entries
    at(scan, SAMPLES[name].rssi[:-1])[SAMPLES[name].rssi[-1]] = "-61 dBm"
    assert parse(name, message).reads[0].rssi == -61.0


MEGABYTE = 1_000_000
LARGE: dict[str, Callable[[int], bytes]] = {
    "objects run together": lambda size: b"{}" * (size // 2),
    "one long text": lambda size: b'{"id":"' + b"x" * size + b'"}',
    "one long list": lambda size: b'{"tags":[' + b"0," * (size // 2) + b"0]}",
    "open brackets": lambda size: b"[" * size,
    "blanks": lambda size: b" " * size,
    "cut short at the end": lambda size: b"[" + b"{}," * (size // 3),
    "digits": lambda size: b"1" * size,
}


@every_parser
@pytest.mark.parametrize("payload", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("size", [MEGABYTE // 20, pytest.param(MEGABYTE, marks=pytest.mark.slow)])
def test_garbage_has_no_reads(name, payload, size):
    with suppress(Malformed):
        assert parse(name, payload(size)).reads == ()


@every_format
def test_a_megabyte_of_scans_is_parsed_completely(name):
    sample = SAMPLES[name]
    times = MEGABYTE // len(msgspec.json.encode(sample.message))
    assert len(parse(name, msgspec.json.encode(sample.message) * times).reads) == times * len(sample.reads)


def parser_literals() -> list[str]:
    """Return keys and values used by the parsers, for generated messages that pass their first checks."""
    sources = Path(formats.__file__).parent.glob("*.py")
    constants = [node for source in sources for node in ast.walk(ast.parse(source.read_text()))]
    texts = {node.value for node in constants if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return sorted(text for text in texts if re.fullmatch(r"[\w@*-]+( \w+)?", text))


LITERALS = parser_literals()
TIMES = r"[0-9]{1,4}[-/][0-9]{1,2}[-/][0-9]{1,2}[T &][0-9:.]{5,12}([+-][0-9:]{2,6}|Z)?"
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.from_regex(r"[0-9A-F]{4,30}", fullmatch=True),
    st.from_regex(TIMES, fullmatch=True),
    st.sampled_from([EPC, MAC, UUID, ADVERT, MOMENT, -58, 1e308, "-6:00", "nan", "1e999", 3003, 3004, 3070]),
    st.sampled_from(LITERALS),
)
MESSAGES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(LITERALS), inner, max_size=6),
    max_leaves=20,
)
TOPICS = st.sampled_from([topic for topic, _ in PARSERS.values()] + ["", "/", "gw_status", "a/LWT", "rooms/x/status"])


@st.composite
def twisted_samples(draw: st.DrawFn) -> bytes:
    """Build a documented message with some values replaced."""

    def twist(value: Any) -> Any:
        if draw(st.integers(0, 5)) == 0:
            return draw(LEAVES)
        if isinstance(value, dict):
            return {key: twist(item) for key, item in value.items()}
        return [twist(item) for item in value] if isinstance(value, list) else value

    return msgspec.json.encode(twist(draw(st.sampled_from([sample.message for sample in SAMPLES.values()]))))


def is_well_formed(parsed: Parsed) -> bool:
    return (
        type(parsed) is Parsed
        and isinstance(parsed.kind, Kind)
        and type(parsed.skipped) is int
        and parsed.skipped >= 0
        and (parsed.note is None or (type(parsed.note) is str and 0 < len(parsed.note) <= 400))
        and ((parsed.kind is Kind.READS) == bool(parsed.reads or parsed.skipped))
        and all(map(is_well_formed_read, parsed.reads))
    )


def is_well_formed_read(read: Read) -> bool:
    time = read.observed_at.micros if isinstance(read.observed_at, WallTime) else read.observed_at
    return (
        type(read) is Read
        and read.tag_type in TAG_TYPES
        and all(type(value) is str and 0 < len(value) <= 255 for value in (read.value, *read.aliases))
        and read.value not in read.aliases
        and (read.antenna is None or (type(read.antenna) is int and UNREADABLE_ANTENNA <= read.antenna <= 65_535))
        and (read.rssi is None or (type(read.rssi) is float and isfinite(read.rssi)))
        and (time is None or (type(time) is int and 0 <= time < 2**63))
    )


@settings(max_examples=300)
@given(
    topic=TOPICS,
    payload=st.one_of(st.binary(max_size=60), MESSAGES.map(msgspec.json.encode), twisted_samples()),
)
def test_any_bytes_give_a_valid_result_or_malformed(topic, payload):
    for own_topic, parser in PARSERS.values():
        for received_on in {topic, own_topic}:
            with suppress(Malformed):
                parsed = parser(received_on, payload)
                assert is_well_formed(parsed), parsed


DEEP = b"[" * 100_000 + b"]" * 100_000  # Python 3.13 reads ten thousand levels, 3.11 a thousand


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("csl", b'{"readerErrorCode":%s}' % DEEP),
        ("zebra", b'{"component":1,"type":"gpi","data":{"pin":%s}}' % DEEP),
        ("impinj", b'{"overflowEvent":{"eventsPurged":%s}}' % DEEP),
        ("moko", b'{"msg_id":%s,"device_info":1}' % DEEP),
    ],
)
def test_no_message_makes_a_parser_fail(name: str, payload: bytes) -> None:
    """Regression: the error rolled back a batch with messages of all readers, and broke pages."""
    with pytest.raises(Malformed, match="not readable"):
        FORMATS[name].parse("any/topic", payload)
    recognize("any/topic", payload)
    less_deep = payload.replace(DEEP, b"[" * 1_010 + b"]" * 1_010)
    with suppress(Malformed):
        FORMATS[name].parse("any/topic", less_deep)
    recognize("any/topic", less_deep)
