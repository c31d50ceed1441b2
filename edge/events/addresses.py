"""Which addresses events may be sent to: a destination must not become a way into networks that its owner cannot reach.

A name is resolved once for each connection, every address is judged, and the connection is made to an address that was
found allowed. So a name that resolves to something else a moment later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from edge.store.event_destinations import Network

CONNECT_SECONDS = 5.0
_PRIVATE = tuple(
    ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
_NAT64 = ip_network("64:ff9b::/96")
_ALLOWED = {
    Network.INTERNET: {Network.INTERNET},
    Network.PRIVATE: {Network.INTERNET, Network.PRIVATE},
    Network.LOOPBACK: {Network.INTERNET, Network.PRIVATE, Network.LOOPBACK},
}

Address = IPv4Address | IPv6Address


class NotAllowed(Exception):
    """The message is for the administrator."""


def connect(host: str, port: int, network: Network, *, is_encrypted: bool) -> socket.socket:
    """A connection to an allowed address of a host. Raises NotAllowed, or OSError where nobody answers."""
    found = _resolve(host, port)
    judged = [(address, network_of(address)) for address in found]
    allowed = [address for address, kind in judged if kind in _ALLOWED[network]]
    if not allowed:
        raise NotAllowed(_refusal(host, judged))
    if not is_encrypted:  # without encryption only in private networks
        allowed = [address for address in allowed if network_of(address) is not Network.INTERNET]
        if not allowed:
            raise NotAllowed(f"{host} is on the internet, where nothing is sent without encryption")
    fault: OSError | None = None
    for address in allowed[:2]:
        try:
            return socket.create_connection((str(address), port), timeout=CONNECT_SECONDS)
        except TimeoutError:
            fault = OSError(f"nobody answers at {address}")
        except OSError as error:
            fault = error
    raise fault or OSError("nothing to connect to")


def network_of(address: Address) -> Network | None:
    """None for what is never allowed: link-local addresses (clouds keep secrets there), multicast, reserved ones."""
    inner = _embedded(address)
    if inner is not None:
        return network_of(inner)
    if address.is_loopback:
        return Network.LOOPBACK
    if any(address in known for known in _PRIVATE if known.version == address.version):
        return Network.PRIVATE
    return Network.INTERNET if address.is_global and not address.is_multicast else None


def _embedded(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def _resolve(host: str, port: int) -> list[Address]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise OSError(f"{host} is not known: {error}") from error
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ip_address(text) for text in texts]


def _refusal(host: str, judged: list[tuple[Address, Network | None]]) -> str:
    address, kind = judged[0]
    if kind is Network.PRIVATE:
        return f"{host} is {address} in a private network, which was not allowed for this destination"
    if kind is Network.LOOPBACK:
        return f"{host} is this box itself, which only its shell can allow: edge events add-webhook --network loopback"
    return f"{host} is {address}, where no events are sent to"
