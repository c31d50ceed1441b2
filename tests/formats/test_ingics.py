"""Peculiarities of INGICS gateways (lines of text)."""

from __future__ import annotations

import msgspec
import pytest

from edge.formats.reads import Guess, Kind, Malformed, Parsed, Read
from edge.formats.registry import FORMATS, recognize
from tests.formats.reader_samples import ADVERT, BEACON, MAC, OTHER_MAC

ONE = f"$GPRP,C30A114E7F21,E1C8BC3DFF84,-58,{ADVERT},1772439330"
TWO = "$SRRP,D4226B905C3E,E1C8BC3DFF84,-71,020106"
ALIVE = "$HBRP,E1C8BC3DFF84,E1C8BC3DFF84,-127,00000000,1772439330"
SEEN = Read("ble", MAC, (BEACON,), None, -58.0, 1_772_439_330_000_000)
ALSO_SEEN = Read("ble", OTHER_MAC, (), None, -71.0)


def ingics(payload: str | bytes) -> Parsed:
    return FORMATS["ingics"].parse("t", payload if isinstance(payload, bytes) else payload.encode())


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r\n\0"])
def test_each_line_of_an_ingics_gateway_is_a_read(ends):
    assert ingics(ONE + ends) == Parsed(Kind.READS, (SEEN,))
    assert ingics(f"{ONE}\r\n{TWO}{ends}") == Parsed(Kind.READS, (SEEN, ALSO_SEEN))


def test_lines_may_be_wrapped_in_json():
    assert ingics(f'{{"data": ["{ONE}", "{TWO}"]}}').reads == (SEEN, ALSO_SEEN)


@pytest.mark.parametrize(
    "payload", [ALIVE, f"{ALIVE}\r\n", f'{{"data": ["{ALIVE}"]}}', "$HBRP,E1C8BC3DFF84,1772439330"]
)
def test_the_heartbeat_is_a_status(payload):
    assert ingics(payload) == Parsed(Kind.STATUS)


def test_an_unreadable_line_does_not_affect_others():
    parsed = ingics(f"{ONE}\r\n$GPRP,C30A11,E1C8BC3DFF84,-58,0201\r\n{TWO}")
    assert (parsed.reads, parsed.skipped) == ((SEEN, ALSO_SEEN), 1)
    assert parsed.note == 'entry 2: "$GPRP,C30A11,E1C8BC3DFF84,-58,0201" is not a report of an INGICS gateway'


@pytest.mark.parametrize("payload", [b"hello", b"$GPRP,\xff", b"", b"C30A114E7F21,-58"])
def test_other_messages_are_rejected(payload):
    with pytest.raises(Malformed):
        ingics(payload)


def test_the_position_of_the_gateway_is_a_status():
    line = "$GPSR,E1C8BC3DFF84,E1C8BC3DFF84,-127,260302,081530.00,5230.0,N,01324.0,E,0.1,0.9"
    assert ingics(line) == Parsed(Kind.STATUS)
    assert ingics(f"{line}\r\n{ONE}") == Parsed(Kind.READS, (SEEN,))
    assert ingics(f'{{"data": ["{line}"]}}') == Parsed(Kind.STATUS)


def test_decoded_json_is_read():
    """The message format "JSON string (decoded)", as in the maker's guide for ThingsBoard."""
    seen = {"ts": 1772439330, "gw": "E1C8BC3DFF84", "tag": "C30A114E7F21", "rssi": -58, "type": "Unknown"}
    own = {"ts": 1772439330, "gw": "E1C8BC3DFF84", "tag": "E1C8BC3DFF84", "rssi": -127, "type": "HBRP"}
    parsed = ingics(msgspec.json.encode({"data": [{**seen, "raw_data": ADVERT}, own, {**seen, "tag": "x"}]}))
    assert (parsed.reads, parsed.skipped, parsed.note) == ((SEEN,), 1, 'entry 3: "x" is not a MAC')
    assert ingics(msgspec.json.encode({"data": [own]})) == Parsed(Kind.STATUS)
    assert recognize("some/topic", msgspec.json.encode({"data": [seen]})) == Guess("ingics")


def test_other_json_is_ignored_with_advice():
    parsed = ingics('{"gateway": "E1C8BC3DFF84", "mac": "C30A114E7F21", "rssi": -58}')
    assert parsed.kind is Kind.IGNORED
    assert "choose the raw format" in parsed.note


def test_the_format_is_recognized():
    assert recognize("some/topic", ONE.encode()) == Guess("ingics")
    assert recognize("some/topic", f'{{"data": ["{ONE}"]}}'.encode()) == Guess("ingics")
