"""Which make sends this? A name only where no other could have sent it."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.formats.examples import examples
from edge.formats.reads import Guess
from edge.formats.registry import FORMATS, recognise
from tests.formats.reader_samples import EPC, MAC, SAMPLES
from tests.formats.test_registry import BROKEN, MESSAGES, TOPICS, every_format


@settings(max_examples=50)
@given(topic=TOPICS, payload=st.one_of(st.binary(max_size=60), MESSAGES.map(orjson.dumps)))
def test_recognising_never_fails(topic, payload):
    guess = recognise(topic, payload)
    assert guess.name in (None, *FORMATS)
    assert set(guess.candidates) <= set(FORMATS)


@every_format
def test_a_documented_message_is_recognised(name):
    assert recognise(FORMATS[name].example_topic, orjson.dumps(SAMPLES[name].message)) == Guess(name)


@pytest.mark.parametrize("payload", [*BROKEN.values(), b"", b"null", b"{}", b"[5]", b'{"temperature":21.5}'])
def test_what_no_reader_sends_is_not_recognised(payload):
    assert recognise("some/topic", payload) == Guess()


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
def test_what_many_could_have_sent_is_not_put_down_to_one(message, perhaps):
    guess = recognise("some/topic", orjson.dumps(message))
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
def test_what_holds_no_reads_is_recognised_too(topic, payload, name):
    assert recognise(topic, payload) == Guess(name)


@pytest.mark.parametrize("example", examples().values(), ids=examples())
def test_what_no_format_knows_is_offered_a_mapping_that_reads_it(example):
    guess = recognise(example.topic, example.payload)
    assert guess.name is None
    assert guess.candidates or guess.mapping == example.title


@pytest.mark.parametrize(
    "payload", [b"temperature,21.5", b"12", b'{"value":21.5,"quality":"GOOD"}', b'{"rssi":-70}', b"hello;7"]
)
def test_a_mapping_is_not_offered_for_what_holds_no_tag(payload):
    assert recognise("site/device/state", payload) == Guess()


def test_plain_text_that_every_device_sends_is_a_hint_only():
    assert recognise("home/gateway/LWT", b"online") == Guess(None, ("openmqttgateway",))
    assert recognise("espresense/rooms/dock/status", b"offline") == Guess(None, ("espresense",))


def test_reads_say_more_than_a_status_and_whole_messages_more_than_halves():
    answer = {"response": 0, "id": MAC, "rssi": -70}
    half_minew = [{"id": MAC, "mac": MAC, "rssi": -70}, {"id": MAC, "rssi": -70}]
    assert recognise("some/topic", orjson.dumps(answer)).candidates[0] == "openmqttgateway"
    assert recognise("some/topic", orjson.dumps(half_minew)).candidates[0] == "openmqttgateway"


def test_what_is_larger_than_any_batch_is_not_guessed_at():
    assert recognise("site/reader/reads", orjson.dumps(SAMPLES["csl"].message) + b" " * 300_000) == Guess()
