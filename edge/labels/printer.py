"""A label printer on the network: it accepts ZPL on a TCP port, usually 9100, and sends no answer."""

from __future__ import annotations

import socket

from edge.errors import Unavailable

PORT = 9100
SECONDS = 5


def send(address: str, data: bytes) -> None:
    """`address` is host:port. Raises Unavailable when the printer does not take all of it."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
            connection.sendall(data)
    except (OSError, UnicodeError) as error:  # the latter of a name that cannot be in the DNS
        raise Unavailable(f"The label printer at {address} does not answer ({error}). Is it on, with paper?") from error
