"""Reads the rules of a firewall as nft and iptables-save print them: which ports it closes, and how to open them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

_PORTS = re.compile(r"dports? (?:\{ ([^}]*) \}|(\S+))")
_CHAIN = re.compile(r"^(?:\s*chain|-A|:) ?(\S+)")
_TABLE = re.compile(r"^table (\S+ \S+) \{")
_BETWEEN_TABLES = re.compile(r"^(?=table |\*)", re.MULTILINE)
_BASE_CHAIN = re.compile(r"chain (\S+) \{\s[^}]*hook input")
_INPUT = re.compile(r"hook input|^:INPUT", re.MULTILINE)
_ELSEWHERE = re.compile("output|forward|routing|nat", re.IGNORECASE)  # chains that no packet to this box passes
_ALL = re.compile(r"\s*(?:counter packets \d+ bytes \d+ )?(?:drop|reject.*)$|-A INPUT -j (?:DROP|REJECT.*)$")
_LIMITED = re.compile(r"saddr|iif|ct state|ctstate|(?:^| )-[si] ")  # not for all packets from other devices
_FROM_OTHERS = re.compile(r'iif(?:name)? != "lo" |! -i lo ')  # true of all packets from other devices
# Lets packets in by something else than a port written here. Whether other devices pass is unknown then.
_OTHER_ACCEPT = re.compile(r"(?!.*(?:policy|icmp|\blo\b|ct state|ctstate)).*(?:\baccept\b|-j ACCEPT)")


class Firewall(NamedTuple):
    """`closed`: ports that other devices cannot reach."""

    closed: list[int]
    remedy: str


def examine(rules: str, ports: Collection[int]) -> Firewall:
    """Return which of the ports the rules close. A packet must pass every table, so one that drops it is enough.

    A port counts as open in a table if its rules for addresses, interfaces or sets may let packets in.
    """
    closed: set[int] = set()
    remedies = []
    for table in _BETWEEN_TABLES.split(rules):
        if _INPUT.search(table) and not table.startswith("table ip6 ") and (here := _closed_by(table, ports)):
            closed.update(here)
            remedies.append(_remedy(table, here))
    return Firewall(sorted(closed), "; ".join(remedies))


def _closed_by(table: str, ports: Collection[int]) -> list[int]:
    """Return the ports that a table closes. The first rule for a port decides, else that for all packets."""
    by_port: dict[int, bool] = {}
    is_open, is_unknown, chain = True, False, ""
    for line in _FROM_OTHERS.sub("", table).splitlines():
        if match := _CHAIN.match(line):
            chain = match[1]
        if _ELSEWHERE.search(chain):
            continue
        if _INPUT.search(line) and re.search("policy drop| DROP", line):
            is_open = False
        verdict = _verdict(line)
        named = None if "udp" in line or "@" in line else _PORTS.search(line)
        if named and verdict is not None:
            for port in ports:
                if _has(named[1] or named[2], port):
                    by_port.setdefault(port, verdict)
        elif chain.lower().endswith("input") and _ALL.match(line):
            is_open = False
        elif chain.lower().endswith("input") and _OTHER_ACCEPT.match(line) and "udp" not in line:
            is_unknown = True
    return sorted(port for port in ports if not by_port.get(port, is_open or is_unknown))


def _verdict(line: str) -> bool | None:
    """Return True if the line lets packets in, False if it keeps those of all devices out."""
    if re.search(r"\baccept\b|-j ACCEPT", line) and "policy" not in line:
        return True
    if re.search(r"\b(drop|reject)\b|-j (DROP|REJECT)", line) and "policy" not in line and not _LIMITED.search(line):
        return False
    return None


def _has(listed: str, port: int) -> bool:
    for text in re.split(r"[,\s]+", listed):
        first, _, last = text.replace(":", "-").partition("-")
        if first.isdecimal() and int(first) <= port <= int(last if last.isdecimal() else first):
            return True
    return False


def _remedy(table: str, ports: list[int]) -> str:
    if "ufw" in table:
        return "; ".join(f"ufw allow {port}/tcp" for port in ports)
    if "filter_INPUT_" in table:  # firewalld
        added = " ".join(f"--add-port={port}/tcp" for port in ports)
        return f"firewall-cmd --permanent {added}; firewall-cmd --reload"
    listed = ", ".join(map(str, ports))
    if (name := _TABLE.match(table)) and (chain := _BASE_CHAIN.search(table)):
        rule = f"nft insert rule {name[1]} {chain[1]} tcp dport '{{ {listed} }}' accept"
        return f"{rule}; and the same in /etc/nftables.conf"
    return "; ".join(f"iptables -I INPUT -p tcp --dport {port} -j ACCEPT" for port in ports)
