"""Doctor: pages and broker over TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge.operations.doctor.findings import Level, Subject
from edge.operations.doctor.machine import NO_SITE
from tests.operations.doctor.test_doctor import finding_of, subject, with_settings
from tests.sync import tls

__all__ = ["subject"]

pytestmark = pytest.mark.real_time  # OpenSSL compares certificates with the time of the machine

HEALTHY = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"status":"ok"}'
CONNACK = bytes((0x20, 2, 0, 5))


@contextmanager
def server(certificate: tls.Certificate, answer: bytes) -> Iterator[int]:
    """Answer each TLS connection with the same bytes. Yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(plain, server_side=True) as connection:
                        if connection.recv(4096):
                            connection.sendall(answer)
                except OSError:
                    continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


Examine = Callable[[str, tls.Certificate, bytes], tuple[Level, str]]


@pytest.fixture
def examine(subject: Subject, tmp_path: Path) -> Examine:
    """Return a function that runs a check against a server with the given certificate and answer on both ports."""

    def on_a_site(check: str, certificate: tls.Certificate, answer: bytes) -> tuple[Level, str]:
        caddyfile = tmp_path / "Caddyfile"
        with server(certificate, answer) as port:
            caddyfile.write_text(f"# with the certificate that edge-https makes\nhttps://:{port} {{\n}}\n")
            machine = NO_SITE._replace(caddyfile=caddyfile)
            site = with_settings(subject, http_authority_file=certificate.authority, mqtt_tls_port=port)._replace(
                machine=machine
            )
            return finding_of(site, check)

    return on_a_site


def made(folder: Path, days: int = 90, authority_days: int = 3000) -> tls.Certificate:
    return tls.make(folder / "tls", days=days, names="DNS:localhost", authority_days=authority_days)


@pytest.mark.parametrize(("name", "level"), [("hall7", Level.OK), ("hall8", Level.PROBLEM)])
def test_labels_with_the_name_of_the_box_lead_here_without_a_lookup(
    subject: Subject, tmp_path: Path, name: str, level: Level
) -> None:
    """The certificate does not have the name hall8."""
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "edge.service").touch()
    (tmp_path / "avahi-daemon.conf").write_text(f"host-name={name}\n")
    certificate = tls.make(tmp_path / "tls", days=90, names="DNS:hall7.local")
    with server(certificate, HEALTHY) as port:
        url = f"https://{name}.local:{port}"
        site = with_settings(subject, http_authority_file=certificate.authority, http_public_url=url)
        site = site._replace(machine=NO_SITE._replace(avahi=tmp_path))
        assert finding_of(site, "public-url")[0] is level


def test_a_box_without_https_has_nothing_to_check(subject: Subject) -> None:
    assert [finding_of(subject, check)[0] for check in ("https", "broker-tls", "certificates")] == [Level.OK] * 3


def test_a_broker_of_another_machine_without_tls_is_a_warning(subject: Subject) -> None:
    level, text = finding_of(with_settings(subject, mqtt_broker="mqtt://edge@broker.example"), "broker-tls")
    assert level is Level.WARNING
    assert "broker.example" in text
    for url in ("mqtts://edge@broker.example", "mqtt://edge@127.0.0.1", "embedded"):
        assert finding_of(with_settings(subject, mqtt_broker=url), "broker-tls")[0] is Level.OK


def test_pages_and_broker_that_answer_are_well(examine: Examine, tmp_path: Path) -> None:
    certificate = made(tmp_path)
    assert examine("https", certificate, HEALTHY)[0] is Level.OK
    assert examine("broker-tls", certificate, CONNACK)[0] is Level.OK
    assert examine("certificates", certificate, b"")[0] is Level.OK


def test_an_expired_certificate_is_reported_for_its_port(examine: Examine, tmp_path: Path) -> None:
    certificate = made(tmp_path, days=-1)
    for check in ("https", "broker-tls"):
        level, text = examine(check, certificate, HEALTHY)
        assert level is Level.PROBLEM
        assert "expired" in text


def test_a_certificate_of_another_authority_is_refused(examine: Examine, tmp_path: Path) -> None:
    certificate = made(tmp_path)._replace(authority=tls.make(tmp_path / "other").authority)
    level, text = examine("https", certificate, HEALTHY)
    assert (level, "devices refuse" in text) == (Level.PROBLEM, True)


@pytest.mark.parametrize(
    ("days", "level"), [(3, Level.PROBLEM), (20, Level.WARNING), (40, Level.OK)], ids=["3", "20", "40"]
)
def test_days_left_on_a_certificate(examine: Examine, tmp_path: Path, days: int, level: Level) -> None:
    assert examine("certificates", made(tmp_path, days), b"")[0] is level


def test_days_left_on_the_authority(examine: Examine, tmp_path: Path) -> None:
    level, text = examine("certificates", made(tmp_path, authority_days=60), b"")
    assert (level, "authority" in text) == (Level.PROBLEM, True)


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_authorities_the_first_to_expire_counts(examine: Examine, tmp_path: Path, is_first: bool) -> None:
    certificate, other = made(tmp_path), tls.make(tmp_path / "other", authority_days=60).authority
    files = [certificate.authority, other]
    both = tmp_path / "both.pem"
    both.write_text("".join(file.read_text() for file in (files[::-1] if is_first else files)))
    level, text = examine("certificates", certificate._replace(authority=both), b"")
    assert (level, "the certificate authority expires in" in text) == (Level.PROBLEM, True)


@pytest.mark.parametrize("check", ["https", "broker-tls"])
def test_another_program_at_the_port(examine: Examine, tmp_path: Path, check: str) -> None:
    assert examine(check, made(tmp_path), b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")[0] is Level.PROBLEM


def test_nobody_at_the_ports(subject: Subject, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    caddyfile = tmp_path / "Caddyfile"
    caddyfile.write_text(f"# with the certificate that edge-https makes\nhttps://:{port} {{\n}}\n")
    site = with_settings(subject, mqtt_tls_port=port)._replace(machine=NO_SITE._replace(caddyfile=caddyfile))
    assert finding_of(site, "https")[0] is Level.PROBLEM
    assert finding_of(site, "broker-tls")[0] is Level.PROBLEM
