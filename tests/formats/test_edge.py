from __future__ import annotations

import pytest

from edge.formats.reads import UNREADABLE_ANTENNA, Kind, Malformed, Parsed, Read
from tests.formats.reader_samples import EPC, MAC, MOMENT, OTHER_EPC


@pytest.mark.parametrize(
    ("message", "reads"),
    [
        ({"tag": EPC}, (Read("rfid", EPC),)),
        ({"tag": EPC, "antenna": 0, "rssi": "", "time": None, "type": ""}, (Read("rfid", EPC),)),
        ([{"tag": EPC}, {"tag": OTHER_EPC}], (Read("rfid", EPC), Read("rfid", OTHER_EPC))),
        ({"reads": [{"tag": MAC.lower(), "type": "ble"}]}, (Read("ble", MAC),)),
        ({"tag": " 0109506 \n", "type": "barcode"}, (Read("barcode", "0109506"),)),
        ({"tag": EPC, "type": "RFID "}, (Read("rfid", EPC),)),
    ],
)
def test_one_read_an_array_or_a_list_inside_an_object(parse, message, reads):
    assert parse("edge", message) == Parsed(Kind.READS, reads)


@pytest.mark.parametrize(
    "spelt",
    [
        "2026-03-02T08:15:30.412Z",
        "2026-03-02T10:15:30.412+02:00",
        "2026-03-02 08:15:30.412000Z",
        MOMENT // 1000,
    ],
)
def test_time_is_rfc_3339_or_whole_milliseconds(parse, spelt):
    assert parse("edge", {"tag": EPC, "time": spelt}).reads[0].observed_at == MOMENT


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"antenna": 1}, "tag is missing"),
        ({"tag": 3e23}, "the EPC is the number 3e+23, which has lost digits: send it in quotes"),
        ({"tag": "pallet"}, 'the EPC is "pallet", not hexadecimal'),
        ({"tag": "", "type": "barcode"}, "tag is missing"),
        ({"tag": EPC, "type": "nfc"}, 'type is "nfc": write one of rfid, ble, barcode'),
        ({"tag": EPC, "type": ["rfid"]}, "type is a list: write one of rfid, ble, barcode"),
        ({"tag": "x" * 300, "type": "barcode"}, "tag is longer than 255 characters"),
    ],
)
def test_a_bad_read_is_skipped_with_a_reason_and_the_others_are_kept(parse, entry, reason):
    parsed = parse("edge", {"reads": [{"tag": EPC}, entry, {"tag": OTHER_EPC}]})
    assert [read.value for read in parsed.reads] == [EPC, OTHER_EPC]
    assert (parsed.skipped, parsed.note) == (1, f"entry 2: {reason}")
    assert parse("edge", entry).note == reason


@pytest.mark.parametrize(
    ("field", "sent", "reason"),
    [
        ("antenna", 1.5, "antenna is 1.5, not a whole number"),
        ("antenna", -1, "antenna -1 is out of range"),
        ("antenna", "-1", 'antenna "-1" is out of range'),
        ("antenna", "d" * 101, "the antenna's name is longer than 100 characters"),
        ("rssi", True, "rssi is the boolean true, not a number"),
        ("rssi", "N/A", 'rssi is "N/A", not a number'),
        ("time", "yesterday", 'time is "yesterday", not a time'),
        ("time", 1.5, "time is 1.5: write whole milliseconds"),
        (
            "time",
            "2026-03-02T08:15:30",
            'time is "2026-03-02T08:15:30": write a time since 1970 that ends in Z or in an offset',
        ),
    ],
)
def test_a_bad_optional_field_is_left_out_with_a_reason(parse, field, sent, reason):
    parsed = parse("edge", {"reads": [{"tag": EPC}, {"tag": OTHER_EPC, field: sent}]})
    rest = Read("rfid", OTHER_EPC, antenna=UNREADABLE_ANTENNA if field == "antenna" else None)
    assert parsed == Parsed(Kind.READS, (Read("rfid", EPC), rest), note=f"{reason}: left out")
    assert parse("edge", {"tag": EPC}).note is None


@pytest.mark.parametrize("sent", ["north door", "2-left", "#3", "1.5"])
def test_an_antenna_may_have_a_name(parse, sent):
    assert parse("edge", {"tag": EPC, "antenna": sent}).reads == (Read("rfid", EPC, antenna_name=sent),)


@pytest.mark.parametrize("sent", ["1", "1.0", "+1", 1.0, 1, " 1 "])
def test_a_whole_number_is_a_port(parse, sent):
    assert parse("edge", {"tag": EPC, "antenna": sent}).reads == (Read("rfid", EPC, antenna=1),)


def test_of_several_bad_reads_the_first_is_explained(parse):
    parsed = parse("edge", {"reads": [{"tag": EPC}, 5, {"antenna": 1}]})
    assert (parsed.skipped, parsed.note) == (2, "entry 2: 5 where an object should be")


def test_the_last_will_and_its_opposite(parse):
    assert parse("edge", {"status": "online"}) == Parsed(Kind.STATUS)
    assert parse("edge", {"status": "offline"}) == Parsed(Kind.OFFLINE)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"status": "up"}, 'status is "up": write "online" or "offline"'),
        ({"status": True}, 'status is the boolean true: write "online" or "offline"'),
        ({"reads": {"tag": EPC}}, "reads is an object: write a list of reads"),
        ({"reads": None}, "reads is null: write a list of reads"),
    ],
)
def test_an_invalid_message_is_rejected_with_instructions(parse, message, reason):
    with pytest.raises(Malformed) as refused:
        parse("edge", message)
    assert str(refused.value) == reason


def test_an_empty_list_of_reads_is_a_status(parse):
    assert parse("edge", {"reads": []}) == Parsed(Kind.STATUS)
