"""Decisions of edge-https: names of a certificate, and the settings. tests/systemd/test_https.py runs it."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from edge.operations.root import box_names, certificates, edge_https, https_settings
from edge.operations.root.https_settings import Chosen, change_public_url

IP = """\
2: eth0    inet 192.168.4.20/24 brd 192.168.4.255 scope global eth0\\       valid_lft forever preferred_lft forever
2: eth0    inet6 fd00::20/64 scope global \\       valid_lft forever preferred_lft forever
"""


def test_a_certificate_is_for_all_names_and_addresses_of_the_box() -> None:
    assert box_names.addresses_in(IP) == ["192.168.4.20", "fd00::20"]
    names = box_names.subject_names("hall7", "edge-hall7.local", ["hall7.example.com", "hall7"], ["192.168.4.20"])
    assert names == [
        "DNS:edge-hall7.local", "DNS:edge.local", "DNS:hall7", "DNS:hall7.example.com", "DNS:hall7.local",
        "DNS:localhost", "IP:127.0.0.1", "IP:192.168.4.20", "IP:::1",
    ]  # fmt: skip


def test_an_authority_is_limited_to_local_names_and_those_of_now() -> None:
    limits = certificates.permitted(["hall7", "hall7.example.com"], ["203.0.113.9", "2001:db8::1"]).split(",")
    assert all(limit.startswith("permitted;") for limit in limits)
    names = [limit.removeprefix("permitted;") for limit in limits]
    assert {"DNS:local", "DNS:hall7.example.com", "IP:100.64.0.0/255.192.0.0"} <= set(names)
    assert "IP:203.0.113.9/255.255.255.255" in names
    assert "IP:2001:db8::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" in names
    assert {"DNS:com", "DNS:", "IP:0.0.0.0/0.0.0.0"}.isdisjoint(names)


class Authority:
    """Makes a certificate if it covers all names, and keeps the names of the last one."""

    def __init__(self, *covered: str) -> None:
        self.covered, self.last = set(covered), [""]

    def __call__(self, names: Sequence[str]) -> bool:
        self.last = list(names)
        return set(names) <= self.covered


def test_names_that_are_not_covered_are_left_out_of_the_last_certificate() -> None:
    authority = Authority("DNS:hall7", "IP:192.168.4.20")
    names = ["DNS:hall7", "IP:203.0.113.9", "IP:192.168.4.20"]
    assert certificates.divide(names, authority) == (["DNS:hall7", "IP:192.168.4.20"], ["IP:203.0.113.9"])
    assert authority.last == ["DNS:hall7", "IP:192.168.4.20"]
    assert certificates.divide(["DNS:hall7"], authority) == (["DNS:hall7"], [])


def test_an_authority_that_covers_nothing_makes_no_certificate() -> None:
    assert certificates.divide(["DNS:hall7"], Authority()) == ([], ["DNS:hall7"])
    # Each alone, but not together: as with a broken authority.
    assert certificates.divide(["a", "b"], lambda names: len(names) == 1) == ([], ["a", "b"])


def test_a_certificate_is_renewed_for_other_names_and_not_for_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificates, "NAMES", tmp_path / "edge.names")
    monkeypatch.setattr(certificates, "CERTIFICATE", tmp_path / "none")
    assert certificates.needs_renewal(["DNS:a"], 30)
    (tmp_path / "edge.names").write_text("DNS:b\nDNS:a\n")
    assert certificates.needs_renewal(["DNS:a", "DNS:b", "DNS:c"], 30)
    assert certificates.needs_renewal(["DNS:a"], 30)
    assert certificates.needs_renewal(["DNS:a", "DNS:b"], 30), "there is no certificate"
    program = tmp_path / "openssl"
    program.write_text("#!/bin/sh\ntest $6 = 2592000\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert not certificates.needs_renewal(["DNS:a", "DNS:b"], 30)
    assert certificates.needs_renewal(["DNS:a", "DNS:b"], 31)


def test_the_choice_is_that_of_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_https, "CHOSEN", tmp_path / "https.conf")
    monkeypatch.setattr(https_settings, "CHOSEN", tmp_path / "https.conf")
    assert edge_https.choice([]) == edge_https.choice(["--as-before"]) == Chosen(), "HTTPS is off"
    given = ["--port", "8443", "--name", "a.example.com", "--redirect-port", "81", "--mqtt-port", "8884", "--name", "b"]
    new = edge_https.choice(given)
    assert new == Chosen("8443", "81", "8884", ("a.example.com", "b"))
    assert new.suffix == ":8443"
    (tmp_path / "https.conf").write_text(str(new))
    assert (tmp_path / "https.conf").read_text() == (
        "PORT=8443\nREDIRECT_PORT=81\nMQTT_PORT=8884\nNAMES=a.example.com b\nPLAIN_PORT=\n"  # as earlier releases
    )
    assert edge_https.choice(["--as-before"]) == new
    assert edge_https.choice(["--as-before", "--port", "443"]).suffix == ""
    assert edge_https.choice([]) == new, "what is not given stays"
    assert edge_https.choice(["--name", "c"]) == new._replace(names=("c",))
    (tmp_path / "https.conf").write_text("PORT=8443\nOTHER=1\n")
    assert edge_https.choice(["--as-before"]) == Chosen(port="8443")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--name", "a b"], "edge-https: a b is not a name"),
        (["--name", "a\n"], "edge-https: a\n is not a name"),
        (["--name"], 2),
        (["--port", ""], 2),
        (["--what", "1"], 2),
    ],
)
def test_options_that_are_none_are_refused(
    options: list[str], code: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("edge.operations.root.programs._name", "edge-https")
    with pytest.raises(SystemExit) as ended:
        edge_https.choice(options)
    assert ended.value.code == code
    assert ("edge-https on [--port 443]" in capsys.readouterr().out) == (code == 2)


NAMES = ("DNS:hall7.local", "IP:192.168.4.20")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("http://hall7.local:8080/", "https://hall7.local:8443"),
        ("http://192.168.4.20", "https://192.168.4.20:8443"),
        ("https://hall7.local", "https://hall7.local"),
        ("http://edge.example.com:8080", "http://edge.example.com:8080"),
        ("http://hall7.local.example.com", "http://hall7.local.example.com"),
    ],
)
def test_only_an_address_of_this_box_is_changed_on_labels(before: str, after: str) -> None:
    toml = f'[http]\nlisten = "0.0.0.0:8080"\npublic_url = "{before}" # on labels\n[mqtt]\nx = "http://hall7.local"\n'
    changed = change_public_url(toml, "http", "https", ":8443", NAMES)
    assert changed.toml == toml.replace(f'public_url = "{before}"', f'public_url = "{after}"')
    assert changed.is_error == ("example.com" in before)
    assert ("Print them again" in changed.message) == (before != after)


LISTEN = '[http]\nlisten = "{}"\n[mqtt]\nlisten = "0.0.0.0:1883"\ntls_port = 0\n'


@pytest.mark.parametrize(
    ("listen", "chosen", "is_on", "plain_port"),
    [
        ("0.0.0.0:8080", Chosen(), False, "8080"),
        ("0.0.0.0:80", Chosen(plain_port="8080"), True, "80"),
        ("127.0.0.1:8080", Chosen(), True, "8080"),  # HTTPS of an earlier release
        ("127.0.0.1:8080", Chosen(plain_port="8080"), True, "8080"),  # a power cut before the settings were written
    ],
)
def test_the_service_leaves_its_port_to_caddy(listen: str, chosen: Chosen, is_on: bool, plain_port: str) -> None:
    before = LISTEN.format(listen)
    secure, new = https_settings.only_for_this_box(before, chosen, is_on)
    port = secure.partition("127.0.0.1:")[2][:5]
    assert secure == LISTEN.format(f"127.0.0.1:{port}")
    assert new.plain_port == plain_port
    assert 18080 <= int(port) < 18180, "a port of no outgoing connection"
    assert https_settings.only_for_this_box(secure, new, True) == (secure, new), "once"
    assert https_settings.for_all_devices(secure, new) == LISTEN.format(f"0.0.0.0:{plain_port}")
    assert https_settings.for_all_devices(secure, Chosen()) == LISTEN.format(f"0.0.0.0:{port}")


@pytest.mark.parametrize(("listen", "is_on"), [("127.0.0.1:8080", False), ("192.168.4.20:8080", True)])
def test_an_address_that_somebody_chose_is_kept(listen: str, is_on: bool) -> None:
    toml = LISTEN.format(listen)
    assert https_settings.only_for_this_box(toml, Chosen(), is_on) == (toml, Chosen())


def test_a_port_in_use_is_not_taken() -> None:
    with socket.create_server(("127.0.0.1", int(https_settings.free_port()))) as other:
        assert https_settings.free_port() != str(other.getsockname()[1])


def test_caddy_serves_the_plain_port_once() -> None:
    assert Chosen(plain_port="8080").plain_site == ", http://:8080"
    assert Chosen(plain_port="80").plain_site == Chosen().plain_site == ""


def test_the_port_of_tls_is_the_only_other_change() -> None:
    assert https_settings.with_tls_port("tls_port = 0\n", "8883") == "tls_port = 8883\n"


@pytest.mark.parametrize(("listen", "suffix"), [("0.0.0.0:8080", ":8080"), ("127.0.0.1:80", ""), ("[::]:81", ":81")])
def test_plain_http_has_its_port_in_the_address(listen: str, suffix: str) -> None:
    assert https_settings.plain_suffix(f'[http]\nlisten = "{listen}"\n') == suffix
    assert https_settings.plain_suffix("[http]\n") == ""


def test_settings_that_are_written_keep_their_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toml = tmp_path / "edge.toml"
    monkeypatch.setattr(https_settings, "TOML", toml)
    toml.write_text("a\n")
    toml.chmod(0o640)
    before = toml.stat()
    https_settings.write_toml("a\n")
    assert toml.stat().st_ino == before.st_ino
    https_settings.write_toml("b\n")
    assert (toml.read_text(), toml.stat().st_mode) == ("b\n", before.st_mode)
    assert list(tmp_path.iterdir()) == [toml]


def test_the_warning_names_what_is_not_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert edge_https.warning_of([], "") == ""
    monkeypatch.setattr(box_names, "AVAHI_CONF", Path("/nonexistent"))
    said = edge_https.warning_of(["DNS:newbox", "IP:2001:db8::1"], Chosen(port="8443").suffix)
    assert said.startswith("HTTPS does not work at newbox, 2001:db8::1: the authority")
    assert "sudo edge-https renew" in said
    assert f"Use https://{box_names.hostname()}.local:8443, which" in said
    assert "rm " not in said, "a new authority would end the trust of every device"
    assert said.count("\n") == 1
