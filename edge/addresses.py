"""Addresses of clients, as what one client may have to itself."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

V6_BITS = 64  # of a network; a client in it takes a new address as often as it likes


def network_of(address: str, *, v4_bits: int = 32) -> str:
    """The network of an address: an IPv6 one is told by its /64. What is no address stays as it is."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:  # a proxy may call its client anything
        return address
    if parsed.version == 6 and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    bits = v4_bits if parsed.version == 4 else V6_BITS
    return str(ip_network((parsed, bits), strict=False))
