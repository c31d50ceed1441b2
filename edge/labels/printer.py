"""A label printer on the network: it accepts ZPL on a TCP port, usually 9100, and sends no answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from edge import outbound
from edge.errors import Unavailable
from edge.outbound import Network, NotAllowed
from edge.texts import N_, fill

PORT = 9100
SECONDS = 5
NETWORK = Network.PRIVATE  # never this box
WAIT_SECONDS = 1.0  # for the previous labels; a printer that is off takes up to 10 s until it fails

_busy: set[str] = set()
_changed = threading.Condition()


def send(address: str, data: bytes) -> None:
    """Send ZPL to `address` (host:port). Raises Unavailable if the printer does not take all of it, or is busy."""
    host, _, port = address.rpartition(":")
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
