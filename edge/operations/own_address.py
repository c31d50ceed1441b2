"""Address of this box for browsers, used if http.public_url is not set."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from edge.operations.doctor.machine import Machine
from edge.rate_limits import is_loopback

_USUAL = {"http": 80, "https": 443}


def own_address(http_listen: str, machine: Machine) -> str | None:
    """Return the base URL by which other devices reach this box, or None if the service listens on loopback only.

    The host is the announced network name, else the listen address, else the host name.
    """
    port = machine.caddy_port("https")
    scheme = "https" if port else "http"
    host, _, http_port = http_listen.rpartition(":")
    if port is None:
        port = int(http_port)
        if is_loopback(f"http://{http_listen}"):
            return None
    announced = machine.network_name()
    name = f"{announced}.local" if announced else _name(host)
    if name is None:
        return None
    return f"{scheme}://{name}" if port == _USUAL[scheme] else f"{scheme}://{name}:{port}"


def local_address(listen: str) -> str:
    """Return the base URL of the service for programs on this box, for a value of the setting `http.listen`."""
    host, _, port = listen.rpartition(":")
    return f"http://{ {'': '127.0.0.1', '0.0.0.0': '127.0.0.1', '[::]': '[::1]'}.get(host, host) }:{port}"  # noqa: S104  not bound to it


def _name(listen: str) -> str | None:
    """Return the listen address if it is a specific one, else the host name. None if that is loopback."""
    if listen and listen.strip("[]") not in ("0.0.0.0", "::"):  # noqa: S104  compared, not listened on
        return listen
    name = socket.gethostname()
    return None if is_loopback(f"http://{name}") else name


def in_numbers(url: str) -> str | None:
    """Return a URL of this box with its IPv4 address instead of a name with .local, which some phones cannot resolve.

    None for another name, and without a network.
    """
    parts = urlsplit(url)
    if not (parts.hostname or "").endswith(".local"):
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
        try:
            route.connect(("10.255.255.255", 9))  # sends nothing; the system chooses the own address for it
        except OSError:
            return None
        address = str(route.getsockname()[0])
    port = f":{parts.port}" if parts.port else ""
    return None if is_loopback(f"http://{address}") else parts._replace(netloc=f"{address}{port}").geturl()
