"""Destinations of webhooks: the checked address is the one that is connected to, and TLS proves its owner."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from edge import outbound
from edge.events.delivery import Message, Outcome, Result
from edge.events.mqtt import OutputCommands
from edge.events.webhook import Webhook
from edge.ingest.sessions import Broker
from edge.outbound import Network, NotAllowed, connect
from edge.people.secrets import new_webhook_secret
from tests.events.conftest import receiver
from tests.events.receiver import Receiver
from tests.sync import tls

__all__ = ["receiver"]

ELSEWHERE = "93.184.215.14"
MESSAGE = Message("evt_1", "asset.moved", {}, b"{}")


class Names:
    """A name server that gives each question its next answer, and where connections went."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers: Iterator[list[str]] = iter(answers)
        self.connected_to: list[str] = []

    def getaddrinfo(self, _host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port)) for text in next(self._answers)]

    def create_connection(self, address: tuple[str, int], **_: Any) -> socket.socket:
        self.connected_to.append(address[0])
        return socket.socket()


def told(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> Names:
    names = Names(*answers)
    monkeypatch.setattr(outbound.socket, "getaddrinfo", names.getaddrinfo)
    monkeypatch.setattr(outbound.socket, "create_connection", names.create_connection)
    return names


def test_a_name_that_leads_elsewhere_a_moment_later_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    names = told(monkeypatch, [ELSEWHERE], ["127.0.0.1"])
    connect("rebound.example", 443, Network.INTERNET, is_encrypted=True).close()
    assert names.connected_to == [ELSEWHERE]
    with pytest.raises(NotAllowed, match="this box itself"):
        connect("rebound.example", 443, Network.INTERNET, is_encrypted=True)
    assert names.connected_to == [ELSEWHERE]


def test_an_unknown_name_is_explained_without_numbers_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(OSError, match=r"^gone\.example cannot be resolved: Name or service not known$"):
        connect("gone.example", 443, Network.INTERNET, is_encrypted=True)


def test_of_several_addresses_only_an_allowed_one_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    names = told(monkeypatch, ["10.0.0.5", "127.0.0.1", ELSEWHERE])
    connect("mixed.example", 443, Network.INTERNET, is_encrypted=True).close()
    assert names.connected_to == [ELSEWHERE]


@pytest.mark.parametrize(
    "address",
    [
        *("10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "127.0.0.1", "::1", "0.0.0.1", "::"),
        *("169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1", "192.0.2.1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2002:a00:1::"),
        *(
            "fec0::1",
            "64:ff9b:1::1",
            "64:ff9b:1:7f00:1::",
            "::127.0.0.1",
            "::10.0.0.1",
            "::ffff:0:127.0.0.1",
            "2001::1",
        ),
    ],
)
def test_nothing_goes_to_an_address_that_is_not_on_the_internet(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    names = told(monkeypatch, [address])
    with pytest.raises(NotAllowed):
        connect("odd.example", 443, Network.INTERNET, is_encrypted=True)
    assert names.connected_to == []


def test_a_private_network_opens_neither_the_box_nor_cloud_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = told(monkeypatch, ["10.1.2.3"], ["127.0.0.1"], ["169.254.169.254"])
    connect("erp.example", 80, Network.PRIVATE, is_encrypted=False).close()
    for _ in range(2):
        with pytest.raises(NotAllowed):
            connect("erp.example", 80, Network.PRIVATE, is_encrypted=False)
    assert names.connected_to == ["10.1.2.3"]


class Probe(socket.socket):
    """On a box with one address, 10.1.2.3: packets to any destination have it as their source."""

    def connect(self, _address: object) -> None:
        pass

    def getsockname(self) -> tuple[str, int]:
        return ("10.1.2.3", 40_000)


@pytest.mark.parametrize("own", ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"])
def test_an_own_address_in_the_private_network_is_this_box(monkeypatch: pytest.MonkeyPatch, own: str) -> None:
    """Before, a webhook to it reached services that the box's firewall closes to the network."""
    names = told(monkeypatch, ["10.1.2.4"], [own], [own])
    monkeypatch.setattr(outbound.socket, "socket", Probe)
    connect("erp.example", 80, Network.PRIVATE, is_encrypted=False).close()
    with pytest.raises(NotAllowed, match="this box itself"):
        connect("own.example", 80, Network.PRIVATE, is_encrypted=False)
    connect("own.example", 80, Network.LOOPBACK, is_encrypted=False).close()
    assert [ip_address(text) for text in names.connected_to] == [ip_address("10.1.2.4"), ip_address(own)]


@pytest.fixture
def encrypted(receiver: Receiver, tmp_path: Path) -> tuple[str, Path]:
    """The URL of a receiver that speaks TLS as 127.0.0.1, and the authority that says so."""
    certificate = tls.make(tmp_path / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    return receiver.url.replace("http:", "https:"), certificate.authority


def send(url: str, trusted: ssl.SSLContext) -> Outcome:
    with closing(Webhook(url, new_webhook_secret(), Network.LOOPBACK, trusted)) as webhook:
        return webhook.send(MESSAGE)


@pytest.mark.real_time
def test_over_tls_it_arrives_where_the_certificate_is_trusted_only(
    receiver: Receiver, encrypted: tuple[str, Path]
) -> None:
    url, authority = encrypted
    refused = send(url, ssl.create_default_context())
    assert (refused.result, receiver.received) == (Result.FAILED, [])
    assert "certificate rejected" in refused.detail
    assert send(url, ssl.create_default_context(cafile=authority)).result is Result.DELIVERED
    assert [one.id for one in receiver.received] == ["evt_1"]


def test_a_certificate_of_another_name_is_not_accepted(
    receiver: Receiver, encrypted: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, authority = encrypted
    monkeypatch.setattr(outbound, "_resolve", lambda *_: [ip_address("127.0.0.1")])
    outcome = send(url.replace("127.0.0.1", "erp.example"), ssl.create_default_context(cafile=authority))
    assert (outcome.result, receiver.received) == (Result.FAILED, [])
    assert "certificate rejected" in outcome.detail


@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")  # paho leaves it to Python after the handshake
def test_the_certificate_of_the_broker_of_outputs_is_named_as_the_fault(encrypted: tuple[str, Path]) -> None:
    url = encrypted[0].replace("https:", "mqtts:")
    with closing(OutputCommands(Broker(url, "edge-test").address)) as commands:
        outcome = commands.send("hall/lamp", "on")
    assert outcome.result is Result.FAILED
    assert outcome.detail.startswith("certificate rejected: ")
