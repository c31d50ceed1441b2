"""Recognition of formats: a single name only if no other format fits."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.formats.examples import examples
from edge.formats.reads import Guess
from edge.formats.registry import FORMATS, recognize
from tests.formats.reader_samples import EPC, MAC, SAMPLES
from tests.formats.test_registry import BROKEN, MESSAGES, TOPICS, every_format


@settings(max_examples=50)
@given(topic=TOPICS, payload=st.one_of(st.binary(max_size=60), MESSAGES.map(msgspec.json.encode)))
def test_recognition_never_fails(topic, payload):
    guess = recognize(topic, payload)
    assert guess.name in (None, *FORMATS)
    assert set(guess.candidates) <= set(FORMATS)


@every_format
def test_a_documented_message_is_recognized(name):
    assert recognize(FORMATS[name].example_topic, msgspec.json.encode(SAMPLES[name].message)) == Guess(name)


@pytest.mark.parametrize("payload", [*BROKEN.values(), b"", b"null", b"{}", b"[5]", b'{"temperature":21.5}'])
def test_other_messages_are_not_recognized(payload):
    assert recognize("some/topic", payload) == Guess()


@pytest.mark.parametrize(
    ("message", "perhaps"),
    [
        pytest.param({"mac": MAC, "rssi": -70}, "minew", id="a MAC"),
        pytest.param({"eventType": "doorOpened", "door": 3}, "impinj", id="an eventType"),
        pytest.param({"component": "pump", "state": "on"}, "zebra", id="a component"),
        pytest.param({"tags": [{"epc": EPC}]}, "csl", id="tags with an EPC and nothing else"),
        pytest.param({"status": "online"}, "edge", id="a status"),
        pytest.param({"id": MAC, "rssi": -70}, "openmqttgateway", id="an id and a strength"),
    ],
)
def test_an_ambiguous_message_has_several_candidates(message, perhaps):
    guess = recognize("some/topic", msgspec.json.encode(message))
    assert guess.name is None
    assert perhaps in guess.candidates


@pytest.mark.parametrize(
    ("topic", "payload", "name"),
    [
        ("x/reader/heartbeat", b'{"heartBeatFlag":true}', "csl"),
        ("x/reader/data", b'{"component":"RG","type":"heartbeat","data":{}}', "zebra"),
        ("x/reader/events", b'{"eventType":"inventoryStatus"}', "impinj"),
        ("/gw/ac233fc0a7d1/status", b"\xbb\x00\x01", "minew"),
        ("/MKGW4/x/send", b"\xef\x30\x01", "moko"),
    ],
)
def test_messages_without_reads_are_recognized(topic, payload, name):
    assert recognize(topic, payload) == Guess(name)


@pytest.mark.parametrize("example", examples().values(), ids=examples())
def test_an_example_mapping_is_suggested_for_unknown_messages(example):
    guess = recognize(example.topic, example.payload)
    assert guess.name is None
    assert guess.candidates or guess.mapping == example.title


@pytest.mark.parametrize(
    "payload", [b"temperature,21.5", b"12", b'{"value":21.5,"quality":"GOOD"}', b'{"rssi":-70}', b"hello;7"]
)
def test_no_mapping_is_suggested_without_a_tag(payload):
    assert recognize("site/device/state", payload) == Guess()


def test_common_plain_text_gives_only_candidates():
    assert recognize("home/gateway/LWT", b"online") == Guess(None, ("openmqttgateway",))
    assert recognize("espresense/rooms/dock/status", b"offline") == Guess(None, ("espresense",))


def test_reads_rank_above_a_status_and_complete_parses_above_partial_ones():
    answer = {"response": 0, "id": MAC, "rssi": -70}
    half_minew = [{"id": MAC, "mac": MAC, "rssi": -70}, {"id": MAC, "rssi": -70}]
    assert recognize("some/topic", msgspec.json.encode(answer)).candidates[0] == "openmqttgateway"
    assert recognize("some/topic", msgspec.json.encode(half_minew)).candidates[0] == "openmqttgateway"


def test_very_large_messages_are_not_guessed():
    assert recognize("site/reader/reads", msgspec.json.encode(SAMPLES["csl"].message) + b" " * 300_000) == Guess()
