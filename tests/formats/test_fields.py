from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.formats import fields
from edge.formats.fields import MICROSECOND, MILLISECOND, SECOND, Unreadable

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(0, 4_000_000_000_000_000))
def test_no_notation_of_a_time_loses_a_microsecond(micros):
    seconds, rest = divmod(micros, SECOND)
    millis, odd = divmod(micros, MILLISECOND)
    assert fields.instant(micros, MICROSECOND) == micros
    assert fields.instant(str(micros), MICROSECOND) == micros
    assert fields.instant(f"{seconds}.{rest:06}", SECOND) == micros
    assert fields.instant(f"{millis}.{odd:03}", MILLISECOND) == micros
    assert fields.instant((EPOCH + timedelta(microseconds=micros)).isoformat(), SECOND) == micros


@given(st.integers(1_500_000_000_000, 4_000_000_000_000))
def test_seconds_as_a_json_number_keep_their_milliseconds(millis):
    assert fields.instant(millis / 1000, SECOND) == millis * MILLISECOND


def test_nanoseconds_are_truncated():
    assert fields.instant("1970-01-01T00:00:01.123456999Z", SECOND) == 1_123_456


@pytest.mark.parametrize(
    "sent", [True, [], {}, "-", "1e3", "1_000", "0x10", "１２", "nan", "9" * 21, "1.2.3", "1,2,3", "1,234.5"]
)
def test_invalid_numbers_are_rejected(sent):
    with pytest.raises(Unreadable, match=r"rssi is .* not a number"):
        fields.rssi(sent)


@pytest.mark.parametrize("sent", [1e18, -1e308, 10**18, "99999999999999999999", 1_000.5, 20.5, 255, -201])
def test_an_rssi_out_of_range_is_rejected(sent):
    """Regression: the message could not be recorded and became a dead letter."""
    with pytest.raises(Unreadable, match=r"rssi .* is out of range"):
        fields.rssi(sent)


@pytest.mark.parametrize("sent", ["-61.5", "-61,5", "-61,5 dBm", "\N{MINUS SIGN}61.5dB", " -61.5 DBM "])
def test_every_notation_of_rssi_is_parsed(sent):
    assert fields.rssi(sent) == -61.5


def test_a_strength_that_was_not_measured_is_unknown():
    assert [fields.rssi(sent) for sent in (0, "127", 127.0, 5, "3 dBm")] == [None] * 5
    assert [fields.rssi(sent, "ble") for sent in (0, 127, 5, -0.5)] == [None, None, 5, -0.5]


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        ("1970-01-01t00:00:01z", 1),
        ("1970-01-01T00:00:01Z[Europe/Berlin]", 1),
        ("1970-01-01T01:00:01+01:00[+01:00][u-ca=gregory]", 1),
        ("1970-01-01T00:00:60Z", 60),
        ("1970-01-01T00:59:60.25+01:00", 0.25),
    ],
)
def test_forms_of_rfc_3339_and_9557(sent, seconds):
    assert fields.instant(sent, MILLISECOND) == seconds * SECOND


def test_a_damaged_text_is_unreadable():
    with pytest.raises(Unreadable, match=r"tag is .*, which is damaged"):
        fields.text("AB\ufffd", "tag")


def test_long_values_are_shortened_in_reasons():
    with pytest.raises(Unreadable) as refused:
        fields.rssi("x" * 100_000)
    assert len(str(refused.value)) < 80


@pytest.mark.parametrize("spelt", ["-61dBm", "-61 dBm", " -61 DBM ", "-61 db", "−61", "-61"])
def test_rssi_may_have_a_unit(spelt):
    assert fields.rssi(spelt) == -61


@pytest.mark.parametrize("spelt", [" " * 1_000_000 + "x", "dBm" * 300_000, " dB" * 300_000 + " "])
def test_a_long_rssi_is_rejected_quickly(spelt):
    """Check the run time: a regular expression would need quadratic time, hours for 1 MiB."""
    with pytest.raises(Unreadable, match=r"rssi is .* not a number"):
        fields.rssi(spelt)


@pytest.mark.parametrize("read", [lambda value: fields.text(value, "tag"), fields.antenna, fields.rssi])
def test_an_integer_of_any_size_is_unreadable_and_shown_in_short(read):
    """JSON has no largest integer: one of 400 digits is no float, and as text it would fill the log."""
    with pytest.raises(Unreadable) as refused:
        read(10**400)
    assert len(str(refused.value)) < 80
