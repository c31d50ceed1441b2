"""Optional fields of a mapping: errors are reported and never lose a tag."""

from __future__ import annotations

import msgspec
import pytest

from edge.formats.mapping import parser_for
from edge.formats.mapping_settings import mapping_from
from edge.formats.reads import Kind, Parsed
from edge.validation.field_counts import remarks
from tests.formats.reader_samples import EPC, MOMENT

SECONDS = MOMENT // 1_000_000


def parse(settings: dict[str, object], *entries: dict[str, object]) -> Parsed:
    mapping = mapping_from({"list_path": "tags", "tag_path": "epc", **settings})
    return parser_for(mapping)(
        "site/reader", msgspec.json.encode({"tags": [{"epc": EPC, **entry} for entry in entries]})
    )


@pytest.mark.parametrize("key", ["antenna_path", "rssi_path", "reader_path", "time_path"])
def test_a_path_that_matches_nothing_is_reported(key: str) -> None:
    parsed = parse({key: "wrong", "time_unit": "ms"}, *[{"ant": 1}] * 30)
    assert len(parsed.reads) == 30
    assert list(remarks(parsed.fields)) == [f"{key} matched nothing in 30 of 30 reads"]


def test_a_path_that_mostly_matches_is_not_reported() -> None:
    parsed = parse({"antenna_path": "ant"}, *[{"ant": 1}] * 20, *[{}] * 10)
    assert (len(parsed.reads), list(remarks(parsed.fields))) == (30, [])


@pytest.mark.parametrize(
    ("key", "sent", "reason"),
    [
        ("rssi_path", -6150, "rssi -6150 is out of range"),
        ("rssi_path", "C3", 'rssi is "C3", not a number'),
        ("antenna_path", 1.5, "antenna is 1.5, not a whole number"),
        ("antenna_path", "x" * 101, "the antenna's name is longer than 100 characters"),
        ("reader_path", "x" * 101, "the antenna's name is longer than 100 characters"),
        ("time_path", "2026/11/23 08:15:30", 'time is "2026/11/23 08:15:30", not a time'),
        ("time_path", True, "time is the boolean true, not a time"),
        ("rssi_path", {}, "rssi is an object, not a number"),
    ],
)
def test_an_unreadable_field_does_not_affect_others(key: str, sent: object, reason: str) -> None:
    settings = {"rssi_path": "r", "antenna_path": "a", "time_path": "t", "time_unit": "iso", "reader_path": "g"}
    good = {"r": -60, "a": 2, "t": "2026-03-02T08:15:30Z", "g": "gate"}
    name = {"rssi_path": "r", "antenna_path": "a", "time_path": "t", "reader_path": "g"}[key]
    parsed = parse(settings, good, {**good, name: sent})
    assert (parsed.skipped, len(parsed.reads)) == (0, 2)
    whole, partly = parsed.reads
    attributes = ("rssi", "antenna", "antenna_name", "observed_at")
    differing = [one for one in attributes if getattr(whole, one) != getattr(partly, one)]
    expected = {"rssi_path": "rssi", "time_path": "observed_at"}.get(key, "antenna")
    assert all(one.startswith(expected) for one in differing)
    assert differing
    assert list(remarks(parsed.fields)) == [f"{key} was unreadable in 1 of 2 reads: {reason}"]


def test_an_antenna_that_is_unreadable_leaves_the_reader_that_is_readable() -> None:
    parsed = parse({"reader_path": "g", "antenna_path": "a"}, {"g": "gate", "a": 1.5}, {"g": "gate", "a": 2})
    assert [read.antenna_name for read in parsed.reads] == ["gate", "gate/2"]


@pytest.mark.parametrize(
    ("unit", "sent", "fitting"),
    [
        ("ms", SECONDS, "s"),
        ("ms", str(SECONDS), "s"),
        ("us", SECONDS, "s"),
        ("s", SECONDS * 1000, "ms"),
        ("ms", SECONDS * 1_000_000, "us"),
        ("iso", str(SECONDS), "s"),
        ("iso", str(SECONDS * 1000), "ms"),
        ("iso", float(SECONDS), "s"),
    ],
)
def test_a_wrong_unit_of_time_is_reported_with_the_right_one(unit: str, sent: object, fitting: str) -> None:
    parsed = parse({"time_path": "t", "time_unit": unit}, {"t": sent})
    assert [read.observed_at for read in parsed.reads] == [None]
    (remark,) = remarks(parsed.fields)
    assert remark.endswith(f": set time_unit to {fitting}")
    assert [read.observed_at for read in parse({"time_path": "t", "time_unit": fitting}, {"t": sent}).reads] == [
        SECONDS * 1_000_000
    ]


def test_digits_in_quotes_are_read_in_their_unit() -> None:
    parsed = parse({"time_path": "t", "time_unit": "s", "rssi_path": "r"}, {"t": str(SECONDS), "r": "-61"})
    assert [(read.observed_at, read.rssi) for read in parsed.reads] == [(SECONDS * 1_000_000, -61.0)]
    assert list(remarks(parsed.fields)) == []


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("rssi > `-70`", Kind.READS),
        ("`-70` < rssi", Kind.READS),
        ("epc && rssi >= `-70`", Kind.READS),
        ("ant == `1`", Kind.STATUS),
    ],
)
def test_a_condition_that_compares_text_with_a_number_is_reported(condition: str, kind: Kind) -> None:
    """Check a comparison of text with a number: the message becomes a dead letter that can be requeued."""
    parsed = parse({"condition": condition}, *[{"rssi": "-61", "ant": "1"}] * 30)
    assert (parsed.kind, parsed.reads, parsed.skipped) == (kind, (), 30 if kind is Kind.READS else 0)
    (remark,) = remarks(parsed.fields)
    assert remark.startswith("condition compared text with a number in 30 of 30 reads: ")
    assert remark.endswith(" never holds: write to_number() around the text")


def test_a_condition_on_a_missing_field_is_reported() -> None:
    parsed = parse({"condition": "wrong"}, *[{"state": "ON"}] * 3)
    assert list(remarks(parsed.fields)) == ["condition matched nothing in 3 of 3 reads"]


def test_a_working_condition_is_not_reported() -> None:
    for condition in ("state != 'OFF'", "to_number(rssi) > `-70`"):
        parsed = parse({"condition": condition}, {"state": "ON", "rssi": "-61"}, *[{"state": "OFF", "rssi": "-80"}] * 9)
        assert (len(parsed.reads), list(remarks(parsed.fields))) == (1, [])


def test_messages_of_several_objects_are_counted_together() -> None:
    mapping = mapping_from({"tag_path": "epc", "antenna_path": "wrong"})
    parsed = parser_for(mapping)("site/reader", msgspec.json.encode([{"epc": EPC}] * 3))
    assert list(remarks(parsed.fields)) == ["antenna_path matched nothing in 3 of 3 reads"]
