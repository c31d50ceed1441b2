"""Rules of firewalls, as nft and iptables-save print them."""

from __future__ import annotations

import pytest

from edge.operations.doctor import doctor
from edge.operations.doctor.findings import Level
from edge.operations.doctor.firewall import examine
from tests.operations.doctor.test_doctor import subject, with_message, with_settings
from tests.operations.doctor.test_units import Site, computer

__all__ = ["computer", "subject"]

NFTABLES = """table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		iif "lo" accept
		ct state established,related accept
		tcp dport { 22, 80, 443 } accept
	}

	chain output {
		type filter hook output priority filter; policy accept;
		tcp dport 1883 accept
	}
}
"""
ONE_RULE = """table ip filter {
	chain INPUT {
		type filter hook input priority filter; policy accept;
		udp dport 443 drop
		tcp dport 1883 counter packets 3 bytes 180 drop
	}
}
"""
FOR_A_NETWORK = """table inet filter {
	chain input {
		type filter hook input priority filter; policy accept;
		ip saddr 10.0.0.0/8 tcp dport 1883 accept
		tcp dport 1880-1890 drop
		ip saddr 203.0.113.7 drop
	}
}
"""
FIREWALLD = """table inet firewalld {
	chain filter_INPUT {
		type filter hook input priority filter + 10; policy accept;
		ct state { established, related } accept
		jump filter_INPUT_POLICIES
		reject with icmpx admin-prohibited
	}
	chain filter_IN_public_allow {
		tcp dport 22 accept
		tcp dport 443 accept
	}
}
"""
UFW = """*filter
:INPUT DROP [0:0]
:ufw-user-input - [0:0]
-A INPUT -j ufw-user-input
-A ufw-user-input -p tcp -m tcp --dport 443 -j ACCEPT
-A ufw-user-input -p tcp -m multiport --dports 80,8000:9000 -j ACCEPT
"""
IPTABLES = """*filter
:INPUT ACCEPT [5:300]
:OUTPUT DROP [0:0]
-A INPUT -s 192.168.4.0/24 -p tcp -m tcp --dport 8883 -j DROP
-A INPUT -p tcp -m tcp --dport 1883 -j REJECT --reject-with icmp-port-unreachable
-A INPUT -p tcp -m tcp --dport 1883 -j ACCEPT
"""


FOR_OTHERS = """*filter
:INPUT ACCEPT [0:0]
-A INPUT ! -i lo -p tcp -m tcp --dport 1883 -j DROP
COMMIT
"""


@pytest.mark.parametrize(
    ("rules", "closed", "remedy"),
    [
        ("", [], ""),
        (NFTABLES, [1883, 8883], "nft insert rule inet filter input tcp dport '{ 1883, 8883 }' accept"),
        (ONE_RULE, [1883], "nft insert rule ip filter INPUT tcp dport '{ 1883 }' accept"),
        (FOR_A_NETWORK, [], ""),
        (FIREWALLD, [1883, 8883], "firewall-cmd --permanent --add-port=1883/tcp --add-port=8883/tcp"),
        (UFW, [1883], "ufw allow 1883/tcp"),
        (FOR_OTHERS, [1883], "iptables"),
        (ONE_RULE.replace("tcp dport", 'iifname != "lo" tcp dport'), [1883], "nft insert rule ip filter INPUT"),
        (IPTABLES, [1883], "iptables -I INPUT -p tcp --dport 1883 -j ACCEPT"),
    ],
)
def test_the_rules_of_a_firewall(rules: str, closed: list[int], remedy: str) -> None:
    found = examine(rules, [443, 1883, 8883])
    assert found.closed == closed
    assert remedy in found.remedy


SECOND_TABLE = """table ip site {
	chain incoming {
		type filter hook input priority 10; policy accept;
		tcp dport { 443, 1883 } drop
	}
}
"""
SECOND_REMEDY = "nft insert rule ip site incoming tcp dport '{ 443, 1883 }' accept"


@pytest.mark.parametrize("rules", [NFTABLES + SECOND_TABLE, SECOND_TABLE + NFTABLES])
def test_a_port_that_one_table_opens_and_another_closes_is_closed(rules: str) -> None:
    """Each table has its remedy, because a rule that accepts in one does not end the others."""
    found = examine(rules, [443, 1883])
    assert found.closed == [443, 1883]
    assert SECOND_REMEDY in found.remedy
    assert "nft insert rule inet filter input tcp dport '{ 1883 }' accept" in found.remedy


def test_tables_that_no_reader_passes_close_nothing() -> None:
    """Chains without a hook see no packet, and readers and browsers have IPv4 beside IPv6."""
    assert examine(SECOND_TABLE.replace("type filter hook input priority 10; policy accept;", ""), [1883]).closed == []
    assert examine(ONE_RULE.replace("table ip ", "table ip6 "), [1883]).closed == []


@pytest.mark.parametrize("accepted", ["ip saddr 192.168.0.0/16", 'iifname "eth0"', "tcp dport @web"])
def test_a_port_is_not_called_closed_if_another_rule_may_let_packets_in(accepted: str) -> None:
    """Regression: the advice opened ports to everybody that were open to the right devices."""
    begin = "table inet filter {\n chain input {\n  type filter hook input priority filter; policy drop;\n"
    usual = '  ct state established,related accept\n  iif "lo" accept\n  meta l4proto ipv6-icmp accept\n'
    assert examine(f"{begin}{usual} }}\n}}\n", [443, 1883]).closed == [443, 1883]
    assert examine(f"{begin}{usual}  {accepted} accept\n }}\n}}\n", [443, 1883]).closed == []


def test_ports_that_no_silent_reader_needs_may_be_closed(computer: Site) -> None:
    def level(rules: str | None) -> Level:
        return doctor.CHECKS["firewall"](
            with_settings(computer.subject, mqtt_tls_port=8883)._replace(firewall=rules)
        ).level

    with_message("gate")
    assert level(None) is level("") is level(ONE_RULE) is Level.OK
    assert level(NFTABLES) is Level.PROBLEM
    with_message("dock", hours_ago=25)
    assert level(ONE_RULE) is Level.PROBLEM
    assert level(ONE_RULE.replace("1883", "443")) is Level.WARNING
