"""Names of the box that this one replaces: its certificate, readers and labels use them."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from edge.operations.root.box_names import hostname, is_network_name, network_name
from edge.operations.root.programs import must, works

HOSTS, HOSTNAME = Path("/etc/hosts"), Path("/etc/hostname")


class Names(NamedTuple):
    """Names in a disaster file, empty if they are missing or not valid."""

    hostname: str
    network_name: str
    addresses: tuple[str, ...]

    def missing(self, own: Collection[str]) -> list[str]:
        """Return the addresses that this box does not have."""
        return [address for address in self.addresses if address not in own]


def names_in(text: str) -> Names:
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    host, name = values.get("HOSTNAME", ""), network_name(values.get("NETWORK_NAME", ""))
    is_host = is_network_name(host.partition(".")[0].lower()) and re.fullmatch(r"[A-Za-z0-9.-]+", host)
    return Names(
        host if is_host else "", name if is_network_name(name) else "", tuple(values.get("ADDRESSES", "").split())
    )


def names_of_labels(toml: str) -> str:
    """Return the names that a file of an earlier release has: the network name in the address of labels."""
    found = re.search(r'^public_url = "https?://([^/:"]*)\.local[/:"]', toml, re.MULTILINE)
    return f"NETWORK_NAME={found[1]}\n" if found else ""


def with_own_name(hosts: str, name: str) -> str:
    """Return /etc/hosts with the name of this box."""
    line = f"127.0.1.1 {name}"
    if re.search(r"^127\.0\.1\.1", hosts, re.MULTILINE):
        return re.sub(r"^127\.0\.1\.1.*", line, hosts, flags=re.MULTILINE)
    return f"{hosts}{line}\n"


def read_names(settings: Path, toml: Path) -> Names:
    """Return the names in the settings of a disaster file."""
    file = settings / "names"
    return names_in(file.read_text("utf-8") if file.is_file() else names_of_labels(toml.read_text("utf-8")))


def take_names(names: Names, mdns: Path) -> None:
    """Give this box the names of the old one."""
    if names.hostname and names.hostname != hostname():
        hosts = HOSTS.read_text("utf-8") if HOSTS.is_file() else ""  # a minimal Debian has none
        HOSTS.write_text(with_own_name(hosts, names.hostname), "utf-8")
        if not works("hostnamectl", "set-hostname", names.hostname):
            HOSTNAME.write_text(f"{names.hostname}\n", "utf-8")
            must("hostname", names.hostname)
    if names.network_name:
        must(mdns, "name", names.network_name)
