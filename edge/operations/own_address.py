"""The address by which people open the pages, where http.public_url does not say it."""

from __future__ import annotations

import socket

from edge.limits import is_loopback
from edge.operations.doctor.machine import Machine

_USUAL = {"http": 80, "https": 443}


def own_address(http_listen: str, machine: Machine) -> str | None:
    """As other devices in the network reach this box; None where the service answers this box only.

    The name is the one that is announced in the network, else that of the computer, else its address.
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


def _name(listen: str) -> str | None:
    """The address that the service listens on if it is one, or the name of the computer."""
    if listen and listen.strip("[]") not in ("0.0.0.0", "::"):  # noqa: S104  compared, not listened on
        return listen
    name = socket.gethostname()
    return None if is_loopback(f"http://{name}") else name
