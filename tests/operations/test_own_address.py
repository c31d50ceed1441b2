"""Address by which other devices reach a box."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from edge.operations import own_address as own_address_module
from edge.operations.doctor.machine import NO_SITE, Machine
from edge.operations.own_address import own_address
from edge.rate_limits import is_loopback


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Return a box announced as hall7.local, without HTTPS."""
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "edge.service").touch()
    (tmp_path / "avahi-daemon.conf").write_text("[server]\n#host-name=foo\nhost-name=hall7\n")
    return NO_SITE._replace(avahi=tmp_path, caddyfile=tmp_path / "Caddyfile")


def serve_https(machine: Machine, port: int) -> None:
    machine.caddyfile.write_text(
        f"# the certificate that edge-https makes\nhttps://:{port} {{\n}}\nhttp://:80, http://:8080 {{\n}}\n"
    )


@pytest.mark.parametrize(
    ("listen", "address"),
    [("0.0.0.0:8080", "http://hall7.local:8080"), ("0.0.0.0:80", "http://hall7.local"), ("127.0.0.1:8080", None)],
)
def test_without_https_it_is_the_port_of_the_service(machine: Machine, listen: str, address: str | None) -> None:
    assert own_address(listen, machine) == address


@pytest.mark.parametrize(("port", "address"), [(443, "https://hall7.local"), (8443, "https://hall7.local:8443")])
def test_with_https_it_is_the_port_of_caddy(machine: Machine, port: int, address: str) -> None:
    serve_https(machine, port)
    assert own_address("127.0.0.1:8080", machine) == address


def test_a_box_that_is_not_announced_has_the_name_of_its_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "warehouse-pc")
    assert own_address("0.0.0.0:8080", NO_SITE) == "http://warehouse-pc:8080"
    assert own_address("192.168.4.20:8080", NO_SITE) == "http://192.168.4.20:8080"
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    assert own_address("0.0.0.0:8080", NO_SITE) is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://[::1]", "https://localhost", "http://a.localhost:1"])
def test_loopback_addresses(url: str) -> None:
    assert is_loopback(url)
    assert not is_loopback("http://192.168.4.20")
    assert not is_loopback("https://hall7.local")


@pytest.mark.parametrize(
    ("url", "own", "found"),
    [
        ("https://hall7.local/enrol/x", "192.168.4.20", "https://192.168.4.20/enrol/x"),
        ("http://hall7.local:8080/enrol/x", "192.168.4.20", "http://192.168.4.20:8080/enrol/x"),
        ("https://edge.example.com/enrol/x", "192.168.4.20", None),
        ("https://hall7.local/enrol/x", "127.0.0.1", None),
        ("https://hall7.local/enrol/x", "", None),
    ],
)
def test_an_address_in_numbers_for_phones_that_resolve_no_local_names(
    monkeypatch: pytest.MonkeyPatch, url: str, own: str, found: str | None
) -> None:
    class Route:
        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Route:
            return self

        def __exit__(self, *_: object) -> None: ...
        def connect(self, _: object) -> None:
            if not own:
                raise OSError("Network is unreachable")

        def getsockname(self) -> tuple[str, int]:
            return own, 1

    monkeypatch.setattr(own_address_module.socket, "socket", Route)
    assert own_address_module.in_numbers(url) == found
