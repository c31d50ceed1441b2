"""Peculiarities of Ruuvi Gateway."""

from __future__ import annotations

import pytest

from edge.formats.reads import Kind, Parsed, Read
from tests.formats.reader_samples import ADVERT, BEACON, MAC, MOMENT, OTHER_MAC, WHOLE_SECOND

RUUVI_TOPIC = f"ruuvi/C4:1F:7A:30:5D:92/{MAC}"


@pytest.mark.parametrize(
    ("ts", "observed_at"),
    [
        (1772439330, WHOLE_SECOND),
        ("1772439330", WHOLE_SECOND),
        ("1772439330.412", MOMENT),
        (1772439330.412, MOMENT),
    ],
)
def test_ruuvi_seconds_are_text_or_a_number(parse, ts, observed_at):
    assert parse("ruuvi", {"gw_mac": "C4:1F:7A:30:5D:92", "rssi": -65, "ts": ts}).reads[0].observed_at == observed_at


def test_ruuvi_counter_is_not_a_time(parse):
    message = {"gw_mac": "C4:1F:7A:30:5D:92", "rssi": -65, "cnt": 4711, "data": ADVERT}
    assert parse("ruuvi", message).reads == (Read("ble", MAC, (BEACON,), None, -65.0),)


def test_ruuvi_tag_is_the_last_level_of_the_topic(parse):
    message = {"gw_mac": "C4:1F:7A:30:5D:92", "rssi": -65}
    assert parse("ruuvi", message, topic=f"site/a/b/{OTHER_MAC}").reads[0].value == OTHER_MAC
    parsed = parse("ruuvi", message, topic="ruuvi/all")
    assert (parsed.skipped, parsed.note) == (1, '"all" is not a MAC')


@pytest.mark.parametrize(
    ("state", "kind"),
    [("online", Kind.STATUS), ("offline", Kind.OFFLINE), ("asleep", Kind.IGNORED), ([], Kind.IGNORED)],
)
def test_ruuvi_gateway_status_is_its_last_will(parse, state, kind):
    assert parse("ruuvi", {"state": state}, topic="ruuvi/C4:1F:7A:30:5D:92/gw_status") == Parsed(kind)
