"""The host and topic to enter in a reader."""

from __future__ import annotations

import pytest

from edge.readers.broker_address import BrokerAddress, broker_address, suggested_topic
from tests.conftest import Cast


@pytest.mark.parametrize(
    ("broker", "expected"),
    [
        ("embedded", BrokerAddress("127.0.0.1", 1884, is_embedded=True)),
        ("mqtt://edge@localhost", BrokerAddress("localhost", 1883, is_embedded=False)),
        ("mqtts://broker.example", BrokerAddress("broker.example", 8883, is_embedded=False)),
        ("mqtt://broker.example:1999", BrokerAddress("broker.example", 1999, is_embedded=False)),
    ],
)
def test_host_and_port_come_from_the_settings(broker: str, expected: BrokerAddress) -> None:
    assert broker_address(broker, "127.0.0.1:1884") == expected


@pytest.mark.parametrize(
    ("broker", "listen", "is_local_only"),
    [
        ("embedded", "127.0.0.1:1883", True),
        ("embedded", "0.0.0.0:1883", False),
        ("mqtt://localhost", "127.0.0.1:1883", False),
    ],
)
def test_only_the_embedded_broker_can_be_local_only(broker: str, listen: str, is_local_only: bool) -> None:
    assert broker_address(broker, listen).is_local_only is is_local_only


@pytest.mark.parametrize(
    ("public", "requested", "host"),
    [
        ("http://box.lan:8080", "http://192.168.1.5:8080", "box.lan"),
        ("http://box.local:8080", "http://192.168.1.5:8080", "192.168.1.5"),
        ("http://box.local:8080", "http://box.local:8080", "box.local"),
        ("http://box.local:8080", "http://localhost:8080", "box.local"),
    ],
)
def test_a_broker_on_the_box_is_reached_at_the_host_of_the_pages(public: str, requested: str, host: str) -> None:
    assert broker_address("embedded", "0.0.0.0:1883").host_for_readers(public, requested) == host


def test_a_broker_elsewhere_is_reached_at_its_own_host() -> None:
    address = broker_address("mqtt://broker.example", "127.0.0.1:1883")
    assert address.host_for_readers("http://box.lan", "http://box.lan") == "broker.example"


def test_the_suggested_topic_has_the_prefix_of_the_organization(cast: Cast) -> None:
    assert suggested_topic(cast.acme, ("readers/+/data",)) == "readers/dock1/data"
    assert suggested_topic(cast.rival, ("#",)) == "rival/dock1/reads"
