"""A label printer on the network: it accepts ZPL on a TCP port, usually 9100, and sends no answer."""

from __future__ import annotations

from edge import outbound
from edge.errors import Unavailable
from edge.outbound import Network, NotAllowed

PORT = 9100
SECONDS = 5
NETWORK = Network.PRIVATE  # never this box


def send(address: str, data: bytes) -> None:
    """Send ZPL to `address` (host:port). Raises Unavailable if the printer does not take all of it."""
    host, _, port = address.rpartition(":")
    try:
        with outbound.connect(host, int(port), NETWORK, is_encrypted=False) as connection:
            connection.settimeout(SECONDS)
            connection.sendall(data)
    except NotAllowed as error:
        raise Unavailable(f"Labels cannot be sent to {address}: {error}. Enter the printer's own address") from error
    except (OSError, UnicodeError) as error:  # UnicodeError: a name that the DNS cannot hold
        raise Unavailable(
            f"The label printer at {address} does not respond ({error}). Check that it is on and has paper"
        ) from error
