"""Network addresses: the network that a client has to itself, and URLs that lead each device to itself."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

V6_BITS = 64  # of the network part; within it a client can take a new address as often as it likes


def client_network(address: str, *, v4_bits: int = 32) -> str:
    """The network of an address, a /64 for IPv6. Text that is not an address is returned as it is."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:  # a proxy may call its client anything
        return address
    if parsed.version == 6 and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    bits = v4_bits if parsed.version == 4 else V6_BITS
    return str(ip_network((parsed, bits), strict=False))


def is_loopback(url: str) -> bool:
    """Whether an address leads each device to itself."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
