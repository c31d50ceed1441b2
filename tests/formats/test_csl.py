from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from edge.formats import csl
from edge.formats.reads import UNREADABLE_ANTENNA, Kind, Malformed, Parsed, Read, WallTime
from tests.formats.reader_samples import EPC, MOMENT, OTHER_EPC


def tag(**fields):
    return {"epc": EPC, "timeStampOfRead": MOMENT, "antennaPort": 1, "rssi": "-58", **fields}


def the_read(parse, entry, **message):
    (read,) = parse("csl", {"tags": [entry], **message}).reads
    return read


@pytest.mark.parametrize(
    ("sent", "rssi"),
    [
        ("-58", -58.0),
        (-58, -58.0),
        ("-58.5", -58.5),
        (" -58 ", -58.0),
        ("", None),
        ("  ", None),
        (None, None),
    ],
)
def test_rssi_may_be_text_or_a_number_and_blank_is_unknown(parse, sent, rssi):
    assert the_read(parse, tag(rssi=sent)).rssi == rssi


def test_a_missing_rssi_is_unknown_and_never_zero(parse):
    entry = tag()
    del entry["rssi"]
    assert the_read(parse, entry).rssi is None


@pytest.mark.parametrize(("sent", "port"), [(2, 2), ("2", 2), (16, 16), (0, 1), ("0", 1), ("", 1), (None, 1)])
def test_an_absent_antenna_or_zero_is_port_one(parse, sent, port):
    assert the_read(parse, tag(antennaPort=sent)).antenna == port


@pytest.mark.parametrize("sent", [True, -1, 1.5, "one", [1], {"port": 1}, 70_000])
def test_an_invalid_antenna_is_left_out(parse, sent):
    parsed = parse("csl", {"tags": [tag(), tag(antennaPort=sent), tag(epc=OTHER_EPC)]})
    assert [read.value for read in parsed.reads] == [EPC, EPC, OTHER_EPC]
    assert parsed.reads[1].antenna == UNREADABLE_ANTENNA, "it is not the first port"
    assert (parsed.skipped, parsed.note[:7], parsed.note[-8:]) == (0, "antenna", "left out")


@pytest.mark.parametrize("sent", [True, "nan", "inf", "1e999", "1_0", "-58 dB over noise", [], "9" * 5_000])
def test_an_rssi_that_is_not_a_number_is_left_out(parse, sent):
    assert the_read(parse, tag(rssi=sent)).rssi is None


def test_the_zone_is_not_applied_to_the_number_of_microseconds(parse):
    assert the_read(parse, tag(timeZone="-6:00")).observed_at == MOMENT
    assert the_read(parse, tag(timeStampOfRead=str(MOMENT), timeZone="-6:00")).observed_at == MOMENT


def test_the_last_microsecond_survives(parse):
    assert the_read(parse, tag(timeStampOfRead=str(MOMENT + 7))).observed_at == MOMENT + 7


FACTORY_EXAMPLE = {
    "rfidReaderName": "Dock 1",
    "rfidReaderInternalSerialNumber": "CS463A00017",
    "timeZone": "-6:00",
    "tags": [
        {
            "pc": "3000",
            "epc": EPC,
            "tidBank": "",
            "antennaPort": "1",
            "rssi": "-60",
            "eventId": "Dock event",
            "timeOfRead": "2026/03/02 02:15:30.412",
        }
    ],
}


def test_the_factory_example_gives_local_time_and_its_zone(parse):
    assert parse("csl", FACTORY_EXAMPLE).reads == (Read("rfid", EPC, (), 1, -60.0, MOMENT),)


@pytest.mark.parametrize(
    ("zone", "local"),
    [
        ("-6:00", "2026/03/02 02:15:30.412"),
        ("+5:30", "2026/03/02 13:45:30.412"),
        ("5:30", "2026/03/02 13:45:30.412"),
        ("-3:30", "2026/03/02 04:45:30.412"),
        ("0:00", "2026/03/02 08:15:30.412"),
        ("UTC+1", "2026-03-02 09:15:30.412"),
        ("", "2026-03-02T08:15:30.412Z"),
    ],
)
def test_local_time_minus_zone_is_utc(parse, zone, local):
    assert the_read(parse, {"epc": EPC, "timeOfRead": local}, timeZone=zone).observed_at == MOMENT
    assert the_read(parse, {"epc": EPC, "timeOfRead": local, "timeZone": zone}).observed_at == MOMENT


@pytest.mark.parametrize("zone", [None, "", "Chicago", 6])
def test_local_time_without_a_known_zone_is_a_wall_time(parse, zone):
    read = the_read(parse, {"epc": EPC, "timeOfRead": "2026/03/02 08:15:30.412"}, timeZone=zone)
    assert read.observed_at == WallTime(MOMENT)


def test_an_invalid_time_is_left_out(parse):
    assert the_read(parse, {"epc": EPC, "timeOfRead": "02/31/2026 25:00"}, timeZone="0:00").observed_at is None


def test_labels_of_the_manual_are_accepted(parse):
    entry = {"epc": EPC, "timeStamp": MOMENT, "antennaPort_Number": 2, "rssi_Number": -61}
    assert the_read(parse, entry) == Read("rfid", EPC, (), 2, -61.0, MOMENT)
    local = {"epc": EPC, "time": "2026/03/02 02:15:30.412", "timeZone": "-6:00"}
    assert the_read(parse, local).observed_at == MOMENT


def test_the_time_of_a_clock_without_power_is_unchanged(parse):
    in_2019 = 1_546_300_800_000_000
    assert the_read(parse, tag(timeStampOfRead=in_2019)).observed_at == in_2019


@pytest.mark.parametrize("stamp", [-1, 10**18, "99999999999999999999", 1e300])
def test_a_time_outside_1970_to_9999_is_ignored(parse, stamp):
    assert the_read(parse, tag(timeStampOfRead=stamp)).observed_at is None


def test_an_entry_without_epc_is_skipped_and_the_others_are_kept(parse):
    parsed = parse("csl", {"tags": [tag(), {"antennaPort": 2, "rssi": "-60"}, tag(epc=OTHER_EPC)]})
    assert [read.value for read in parsed.reads] == [EPC, OTHER_EPC]
    assert parsed.skipped == 1
    assert parsed.note == "entry 2: the EPC is missing"


def test_a_heartbeat_among_the_tags_is_neither_read_nor_skipped(parse):
    entries = [{"epc": "", "heartBeatFlag": True, "timeOfHeartBeat": "2026/03/02 02:15:30"}, tag()]
    assert parse("csl", {"tags": entries}) == parse("csl", {"tags": [tag()]})


@pytest.mark.parametrize(
    ("message", "note"),
    [
        ({"heartBeatFlag": True, "timeStampOfHeartBeat": MOMENT}, None),
        ({"powerUpFlag": True, "timeOfPowerUp": "2026/03/02 02:15:30"}, "the reader was switched on"),
        ({"readerErrorFlag": True, "readerErrorCode": 309}, "reader error: 309"),
        (
            {
                "readerErrorFlag": 1,
                "readerErrorDescription": "High\nreturn loss",
                "readerErrorAntennaPort": 2,
            },
            "reader error: High return loss (antenna 2)",
        ),
    ],
)
def test_messages_without_tags_are_a_status(parse, message, note):
    assert parse("csl", message) == Parsed(Kind.STATUS, note=note)


def test_an_empty_list_of_tags_is_a_status(parse):
    assert parse("csl", {"numberOfTags": 0, "tags": []}) == Parsed(Kind.STATUS)


@pytest.mark.parametrize("tags", [None, {}, "none", 3])
def test_tags_that_are_not_a_list_are_ignored(parse, tags):
    assert parse("csl", {"tags": tags}).kind is Kind.IGNORED


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        (b'<?xml version="1.0"?><tags><tag epc="3074"/></tags>', "XML"),
        (b"  <tags/>", "XML"),
        (EPC.encode() + b",1,-58,2026/03/02 02:15:30.412", "CSV"),
        (b'"3074257BF7194E4000001A85";"1";"-58"', "CSV"),
    ],
)
def test_xml_and_csv_are_rejected_with_instructions(parse, payload, named):
    with pytest.raises(Malformed, match=f"{named}.* choose JSON"):
        parse("csl", payload)


def test_broken_json_is_not_reported_as_csv(parse):
    with pytest.raises(Malformed, match="not JSON"):
        parse("csl", b'{"tags":[{"epc":"3074","rssi":"-58"')


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        ("3074 257B F719 4E40 0000 1A85", EPC),
        ("3074-257B-F719-4E40-0000-1A85", EPC),
        ("0x3074257BF7194E4000001A85", EPC),
        ("3074257bf7194e4000001a85", EPC.lower()),
        ("30:74:25:7B:F7:19:4E:40:00:00:1A:85", EPC),
        ("3074.257B.F719.4E40.0000.1A85", EPC),
        ("000000000000000000010018", "000000000000000000010018"),
        (10018, "10018"),
        ("7BF7194", "7BF7194"),
    ],
)
def test_separators_are_removed_from_the_epc(parse, sent, value):
    assert the_read(parse, tag(epc=sent)).value == value


@pytest.mark.parametrize(
    "sent", ["*****", "3074257G", " - ", "urn:epc:id:sgtin:0614141", -10018, 3.074e23, True, ["3074"]]
)
def test_an_epc_that_is_not_hexadecimal_is_a_bad_read(parse, sent):
    parsed = parse("csl", {"tags": [tag(epc=sent), tag()]})
    assert (len(parsed.reads), parsed.skipped) == (1, 1)


def test_a_serialized_tid_is_another_identity_of_the_tag(parse):
    assert the_read(parse, tag(tidBank="E2801190A5030065F26CCBFF")).aliases == ("E2801190A5030065F26CCBFF",)
    assert the_read(parse, tag(tidBank="E2801190")).aliases == ()
    assert the_read(parse, tag(tidBank="read failed, no response from the tag")).aliases == ()


def test_one_tag_on_both_ports_five_seconds_apart_is_two_reads(parse):
    later = tag(antennaPort=2, timeStampOfRead=MOMENT + 5_000_000)
    reads = parse("csl", {"tags": [tag(), later]}).reads
    assert [(read.antenna, read.observed_at) for read in reads] == [(1, MOMENT), (2, MOMENT + 5_000_000)]


def test_readers_whose_times_go_backwards_keep_their_own_times(parse):
    """Check messages of a busy dock: 1 to 7 tags, up to 2 s out of order, both ports in one message."""
    for number in range(200):
        start = MOMENT + number * 120_000 - number * 7_919 % 2_000 * 1_000
        entries = [
            tag(
                epc=f"E28011{number * 1_000_003 + place:018X}",
                timeStampOfRead=start + place * 40_000,
                antennaPort=1 + place % 2,
                rssi=str(-41 - (number + place) % 38),
            )
            for place in range(1 + number % 7)
        ]
        assert parse("csl", {"sequenceNumber": 0, "tags": entries}).reads == tuple(
            Read("rfid", sent["epc"], (), sent["antennaPort"], float(sent["rssi"]), sent["timeStampOfRead"])
            for sent in entries
        )


def test_the_topic_does_not_matter():
    payload = msgspec.json.encode({"tags": [tag()]})
    assert csl.parse("", payload) == csl.parse("/odd//topic/", payload)


def test_blanks_around_an_epc_are_not_cached(parse):
    tracemalloc.start()
    try:
        reads = [the_read(parse, tag(epc=" " * 500_000 + f"30AA{number:020X}")) for number in range(8)]
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reads[7].value == "30AA" + "7".zfill(20)
    assert kept < 1_000_000
