"""Checks of HTTPS and MQTT over TLS as browsers and readers use them: ports and certificates."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from urllib.parse import urlsplit

from edge.operations.doctor.findings import Finding, Subject, ok, problem, warning
from edge.rate_limits import is_loopback

RENEWED_DAYS = 30  # edge-https renews a certificate this long before it expires
LATE_DAYS = 25
SOON_DAYS = 7
AUTHORITY_DAYS = 90

ANY_NAME = "localhost"  # in every certificate of edge-https; other names may be outside the authority's constraints

_SECONDS = 5.0
_HERE = "127.0.0.1"
_CONNECT = bytes((0x10, 17, 0, 4)) + b"MQTT" + bytes((4, 2, 0, 10, 0, 5)) + b"probe"  # MQTT 3.1.1, without an account
_CONNACK = 0x20
_AUTHORITY = "the authority"
_RENEW = "sudo edge-https renew; systemctl status edge-https.timer edge-https.service"


def https_port(subject: Subject) -> int | None:
    """Return the port on which Caddy serves the pages, or None without HTTPS."""
    return subject.machine.caddy_port("https")


def https(subject: Subject) -> Finding:
    """Check that the pages answer on the port that people use."""
    port = https_port(subject)
    if port is None:
        return ok("HTTPS is off")
    try:
        with _tls(subject, port) as connection:
            answer, body = _health(connection, ANY_NAME)
    except ssl.SSLError as error:
        return _refused_finding(f"the pages on port {port}", error)
    except (OSError, HTTPException) as error:
        return problem(
            f"nothing listens on port {port}, used for the pages: {error}",
            "systemctl start caddy; if it stops again: sudo edge-https on --as-before; journalctl -u caddy -n 20",
        )
    if answer.status not in (200, 503) or b'"status"' not in body:
        return problem(
            f"port {port}, used for the pages, responds {answer.status} {answer.reason}",
            "systemctl status edge caddy; if another program listens there: ss -ltnp",
        )
    redirect = subject.machine.caddy_port("http")
    if redirect and not is_listening(redirect):
        return warning(
            f"nothing listens on port {redirect}, used to download the authority's certificate",
            "systemctl restart caddy; journalctl -u caddy -n 20",
        )
    return ok(f"the pages respond on port {port}")


def mqtts(subject: Subject) -> Finding:
    """Check that the broker answers on its TLS port, and that a broker elsewhere is not used without TLS."""
    port, url = subject.config.mqtt_tls_port, subject.config.mqtt_broker
    if url.startswith("mqtt://") and not is_loopback(url):
        return warning(
            f"edge sends its password to {urlsplit(url).hostname} and receives reads without encryption",
            "set mqtt.broker to an address with mqtts:// and mqtt.ca_file if the broker has its own authority",
        )
    if not port:
        return ok("readers do not use TLS")
    try:
        with _tls(subject, port) as connection:
            connection.sendall(_CONNECT)
            answer = connection.recv(4)
    except ssl.SSLError as error:
        return _refused_finding(f"the broker on port {port}", error)
    except OSError as error:
        return problem(
            f"nothing listens on port {port}, used by readers with TLS: {error}",
            "systemctl restart mosquitto; journalctl -u mosquitto -n 20; then: sudo edge-https on --as-before",
        )
    if not answer or answer[0] != _CONNACK:
        return problem(f"the program on port {port} is not a broker", "ss -ltnp shows it; check mqtt.tls_port")
    return ok(f"the broker responds on port {port} with TLS")


def certificates(subject: Subject) -> Finding:
    """Check the days left on the certificates of pages and broker, and on the authority."""
    ends = sorted(_ends(subject), key=lambda one: one[1], reverse=True)  # of several authorities, the first to expire
    left = {what: int((end - time.time()) // 86400) for what, end in ends}
    days = left.pop(_AUTHORITY, AUTHORITY_DAYS)
    if days < AUTHORITY_DAYS:
        return problem(
            f"the certificate authority expires in {days} days",
            f"sudo rm {subject.config.http_authority_file}; sudo edge-https on --as-before; "
            "then install it on every device",
        )
    if not left:
        return ok("this box has no certificates of its own")
    what, days = min(left.items(), key=lambda item: item[1])
    if days < SOON_DAYS:
        return problem(f"{what} expires in {days} days and was not renewed", _RENEW)
    if days < LATE_DAYS:
        return warning(f"{what} expires in {days} days and was not renewed {RENEWED_DAYS} days before", _RENEW)
    return ok(f"{what} is valid for {days} more days")


def first_end(subject: Subject) -> int | None:
    """Return when the first certificate of this box expires, in UTC seconds; None without certificates."""
    return min((end for _, end in _ends(subject)), default=None)


def _ends(subject: Subject) -> Iterator[tuple[str, int]]:
    """Yield the certificates that can be read, with their ends; the checks of their ports report the others."""
    for port in (https_port(subject), subject.config.mqtt_tls_port):
        with suppress(OSError):
            if port:
                with _tls(subject, port) as connection:
                    yield from _end_of(f"the certificate of port {port}", connection.getpeercert() or {})
    authority = subject.config.http_authority_file
    if authority is not None and authority.is_file():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with suppress(OSError):
            context.load_verify_locations(authority)
        for row in context.get_ca_certs():
            yield from _end_of(_AUTHORITY, row)


def _end_of(what: str, certificate: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    end = certificate.get("notAfter")
    if isinstance(end, str):
        yield what, int(ssl.cert_time_to_seconds(end))


def _refused_finding(what: str, error: ssl.SSLError) -> Finding:
    """Return the finding for a certificate that a phone or a reader would refuse."""
    reason = getattr(error, "verify_message", None) or error.reason or str(error)
    if "expired" in reason:
        return problem(f"devices refuse {what}: its certificate has expired", f"{_RENEW}; check the clock")
    return problem(
        f"devices refuse {what}: {reason}", "sudo edge-https on --as-before; ss -ltnp shows which program listens there"
    )


def ask_as(subject: Subject, url: str) -> None:
    """Open the pages on this box by its own name, without looking the name up.

    Raises OSError or HTTPException if a browser would fail.
    """
    address = urlsplit(url)
    name = address.hostname or ""
    if address.scheme == "https":
        with _tls(subject, address.port or 443, name) as connection:
            answer, _ = _health(connection, name)
    else:
        with socket.create_connection((_HERE, address.port or 80), timeout=_SECONDS) as plain:
            answer, _ = _health(plain, name)
    if answer.status not in (200, 503):
        raise HTTPException(f"{answer.status} {answer.reason}")


def _health(connection: socket.socket, name: str) -> tuple[HTTPResponse, bytes]:
    connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
    answer = HTTPResponse(connection)
    answer.begin()
    return answer, answer.read(4096)


def trusting(subject: Subject) -> ssl.SSLContext:
    """Return a context that trusts the system's authorities and that of this box."""
    context = ssl.create_default_context()
    if subject.config.http_authority_file is not None and subject.config.http_authority_file.is_file():
        context.load_verify_locations(subject.config.http_authority_file)
    return context


@contextmanager
def _tls(subject: Subject, port: int, name: str = ANY_NAME) -> Iterator[ssl.SSLSocket]:
    """Connect to this box, trusting the system's authorities and its own, for this name only. Raises OSError."""
    with (
        socket.create_connection((_HERE, port), timeout=_SECONDS) as plain,
        trusting(subject).wrap_socket(plain, server_hostname=name) as connection,
    ):
        yield connection


def is_listening(port: int) -> bool:
    try:
        socket.create_connection((_HERE, port), timeout=_SECONDS).close()
    except OSError:
        return False
    return True
