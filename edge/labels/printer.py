"""A label printer on the network: it accepts ZPL on a TCP port, usually 9100, and sends no answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from edge import outbound
from edge.errors import Invalid, Unavailable
from edge.outbound import Network, NotAllowed
from edge.texts import N_, fill

PORT = 9100
SECONDS = 5
NETWORK = Network.PRIVATE  # never this box
WAIT_SECONDS = 1.0  # for the previous labels; a printer that is off takes up to 10 s until it fails

_busy: set[str] = set()
_changed = threading.Condition()


def check_port(port: int, ports: Sequence[str]) -> None:
    """Raise Invalid for a port that label printers do not have: others would show which services are in the network.

    `ports` are ports and ranges, as in the setting labels.printer_ports.
    """
    ranges = (one.partition("-") for one in ports)
    if not any(int(first) <= port <= int(last or first) for first, _, last in ranges):
        message = N_("Label printers use the ports %(ports)s. For another port, change labels.printer_ports")
        raise Invalid.one("address", "invalid_value", fill(message, ports=", ".join(ports)))


def send(address: str, data: bytes, ports: Sequence[str]) -> None:
    """Send ZPL to `address` (host:port).

    Raises Unavailable if the printer does not take all of it or is busy, and Invalid as `check_port`.
    """
    host, _, port = address.rpartition(":")
    check_port(int(port), ports)
    try:
        with _alone(address), outbound.connect(host, int(port), NETWORK, is_encrypted=False) as connection:
            connection.settimeout(SECONDS)
            connection.sendall(data)
    except NotAllowed as error:
        message = N_("Labels cannot be sent to %(address)s: %(error)s. Enter the printer's own address")
        raise Unavailable(fill(message, address=address, error=error)) from error
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that the DNS cannot hold
        message = N_("The label printer at %(address)s does not respond (%(error)s). Check that it is on and has paper")
        raise Unavailable(fill(message, address=address, error=error)) from error


@contextmanager
def _alone(address: str) -> Iterator[None]:
    """Let one request at a time use a printer: more would occupy all threads while it is off. Raises Unavailable."""
    with _changed:
        if not _changed.wait_for(lambda: address not in _busy, WAIT_SECONDS):
            message = N_("The label printer at %(address)s is busy or off. Try again in a few seconds")
            raise Unavailable(fill(message, address=address))
        _busy.add(address)
    try:
        yield
    finally:
        with _changed:
            _busy.discard(address)
            _changed.notify_all()
