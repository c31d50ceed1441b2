"""Address policy for outgoing connections to hosts that an administrator enters: webhooks, brokers, label printers.

A destination must not give access to networks that its owner cannot reach otherwise. A name is resolved once per
connection, and edge connects to the checked address, which defeats DNS rebinding.
"""

from __future__ import annotations

import socket
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from edge.errors import Invalid
from edge.texts import N_, fill

CONNECT_SECONDS = 5.0
_PRIVATE = tuple(
    ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")
)
_NAT64 = ip_network("64:ff9b::/96")
_ANY_PORT = 9
_GLOBAL_UNICAST = ip_network("2000::/3")


class Network(StrEnum):
    """Location of a host. Administrators may allow private networks; all networks can be allowed only in the shell
    of the box.
    """

    INTERNET = "internet"
    PRIVATE = "private"
    LOOPBACK = "loopback"


_ALLOWED = {
    Network.INTERNET: {Network.INTERNET},
    Network.PRIVATE: {Network.INTERNET, Network.PRIVATE},
    Network.LOOPBACK: {Network.INTERNET, Network.PRIVATE, Network.LOOPBACK},
}

Address = IPv4Address | IPv6Address


class NotAllowed(Exception):
    """Carries a message for the administrator."""


def check_host(field: str, host: str, network: Network) -> None:
    """Raise Invalid on `field` for an address that `connect` would refuse. Names are accepted, except `localhost`."""
    is_localhost = host.lower().rstrip(".").rpartition(".")[2] == "localhost"
    try:
        addresses = _resolve("127.0.0.1" if is_localhost else host, _ANY_PORT, socket.AI_NUMERICHOST)
    except OSError:  # a name
        return
    judged = [(address, _network_from_here(address)) for address in addresses]
    if not any(kind in _ALLOWED[network] for _, kind in judged):
        raise Invalid.one(field, "invalid_value", _refusal(host, judged))


def connect(host: str, port: int, network: Network, *, is_encrypted: bool) -> socket.socket:
    """Connect to an allowed address of a host. Raises NotAllowed, or OSError if it does not answer."""
    judged = [(address, _network_from_here(address)) for address in _resolve(host, port)]
    allowed = [address for address, kind in judged if kind in _ALLOWED[network]]
    if not allowed:
        raise NotAllowed(_refusal(host, judged))
    if not is_encrypted:  # unencrypted connections are allowed in private networks only
        allowed = [address for address in allowed if network_of(address) is not Network.INTERNET]
        if not allowed:
            raise NotAllowed(f"{host} is on the internet; use an encrypted address")
    fault: OSError | None = None
    for address in allowed[:2]:
        try:
            return socket.create_connection((str(address), port), timeout=CONNECT_SECONDS)
        except TimeoutError:
            fault = OSError(f"no response from {address}")
        except OSError as error:
            fault = error
    raise fault or OSError("no address to connect to")


def _network_from_here(address: Address) -> Network | None:
    """Like `network_of`, but with addresses of this box as loopback, because a firewall does not protect them."""
    network = network_of(address)
    return Network.LOOPBACK if network is not None and _is_own(_embedded(address) or address) else network


def _is_own(address: Address) -> bool:
    """True for addresses of this box: the route to one has itself as source. Sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(address), _ANY_PORT))
            source = probe.getsockname()[0]
    except OSError:  # no route
        return False
    return ip_address(source.partition("%")[0]) == address


def network_of(address: Address) -> Network | None:
    """Return the kind of an address, or None if it is never allowed: link-local (cloud metadata), multicast,
    reserved.
    """
    inner = _embedded(address)
    if inner is not None:
        return network_of(inner)
    if address.is_loopback:
        return Network.LOOPBACK
    if any(address in known for known in _PRIVATE if known.version == address.version):
        return Network.PRIVATE
    is_internet = address.is_global and not address.is_multicast
    if isinstance(
        address, IPv6Address
    ):  # Python counts some transition and site-local addresses outside of it as global
        is_internet = is_internet and address in _GLOBAL_UNICAST
    return Network.INTERNET if is_internet else None


def _embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address inside an IPv6 transition address."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def _resolve(host: str, port: int, flags: int = 0) -> list[Address]:
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"{host} cannot be resolved: {reason}") from error
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in entries)
    return [ip_address(text) for text in texts]


def _refusal(host: str, judged: list[tuple[Address, Network | None]]) -> str:
    address, kind = judged[0]
    message = N_("%(host)s is %(address)s, a link-local or reserved address")
    if kind is Network.PRIVATE:
        message = N_("%(host)s is %(address)s in a private network, which is not allowed for this destination")
    elif kind is Network.LOOPBACK:
        message = N_(
            "%(host)s is this box itself, which is allowed only for destinations added in its shell "
            "(--network loopback)"
        )
    return fill(message, host=host, address=address)
