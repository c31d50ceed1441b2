"""Names and addresses of this box, by which other devices reach it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from edge.operations.root.programs import result

AVAHI = Path("/etc/avahi")
AVAHI_CONF = AVAHI / "avahi-daemon.conf"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def hostname() -> str:
    return result("hostname").stdout.strip()


def addresses() -> list[str]:
    return addresses_in(result("ip", "-o", "addr", "show", "scope", "global").stdout)


def addresses_in(output: str) -> list[str]:
    """Return the addresses in the output of `ip -o addr`."""
    return [words[3].partition("/")[0] for line in output.splitlines() if len(words := line.split()) > 3]


def first_address() -> str:
    return next(iter(addresses()), "") or hostname()


def host_name_of_avahi() -> str:
    """Return the name that an administrator or the installer set, or an empty string."""
    try:
        settings = AVAHI_CONF.read_text("utf-8", "replace")
    except OSError:
        return ""
    named = re.search(r"^host-name=(.*)$", settings, re.MULTILINE)
    return named[1] if named else ""


def network_name(given: str) -> str:
    """Return a name without `.local` in small letters, because names in a network have no case."""
    return given.lower().removesuffix(".local")


def is_network_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name))


def names_of_box(chosen: Iterable[str]) -> list[str]:
    """Return the names of a certificate for this box in OpenSSL's form. `chosen`: those of an administrator."""
    announced = host_name_of_avahi()
    return subject_names(hostname(), announced and f"{announced}.local", chosen, addresses())


def subject_names(host: str, announced: str, chosen: Iterable[str], own: Iterable[str]) -> list[str]:
    names = {"localhost", host, f"{host}.local", "edge.local", announced, *chosen} - {""}
    return [f"DNS:{name}" for name in sorted(names)] + [
        f"IP:{address}" for address in sorted({"127.0.0.1", "::1", *own})
    ]
