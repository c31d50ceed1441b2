"""Steps of install.sh: names of a replaced box, settings of the broker, and what it says at its end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edge.operations.root import installation
from edge.operations.root.https_settings import Chosen
from edge.operations.root.installation import Box, Names, addresses_of, names_in, next_steps, with_own_name

TEMPLATE = Path(installation.__file__).parents[3] / "systemd/mosquitto.conf"


@pytest.mark.parametrize(
    ("https_port", "address"),
    [([], "http://hall7.local:8080"), (["443"], "https://hall7.local"), (["8443"], "https://hall7.local:8443")],
)
def test_the_address_of_labels_has_a_port_unless_browsers_know_it(https_port: list[str], address: str) -> None:
    assert installation.public_url("hall7.local", "8080", *https_port) == address


def test_a_second_box_takes_the_names_of_the_first() -> None:
    names = names_in("HOSTNAME=box1\nNETWORK_NAME=Edge-Hall7.local\nADDRESSES=192.0.2.7 192.0.2.8\n")
    assert names == Names("box1", "edge-hall7", ("192.0.2.7", "192.0.2.8"))
    assert names.missing(["192.0.2.8", "192.0.2.9"]) == ["192.0.2.7"]


def test_odd_names_in_the_file_are_not_taken() -> None:
    assert names_in("HOSTNAME=a b; reboot\nNETWORK_NAME=$(reboot)\nADDRESSES=\n") == Names("", "", ())
    assert names_in("HOSTNAME=box1.$(reboot)\n").hostname == ""
    assert names_in("HOSTNAME=box1.example.com\n").hostname == "box1.example.com"
    assert names_in("HOSTNAME=Box1\n").hostname == "Box1"
    assert names_in("no names\n") == Names("", "", ())


@pytest.mark.parametrize(
    ("public_url", "name"),
    [("https://edge-hall7.local:8443", "edge-hall7"), ("http://hall.local/", "hall"), ("https://edge.example.com", "")],
)
def test_a_file_of_an_earlier_release_has_the_name_in_the_address_of_labels(
    tmp_path: Path, public_url: str, name: str
) -> None:
    toml = tmp_path / "edge.toml"
    toml.write_text(f'[http]\npublic_url = "{public_url}"\n')
    assert installation.read_names(tmp_path, toml) == Names("", name, ())
    (tmp_path / "names").write_text("NETWORK_NAME=other\n")
    assert installation.read_names(tmp_path, toml).network_name == "other"


def test_the_hosts_file_has_one_name_of_this_box() -> None:
    assert with_own_name("127.0.0.1 localhost\n127.0.1.1 new\n::1 localhost\n", "box1") == (
        "127.0.0.1 localhost\n127.0.1.1 box1\n::1 localhost\n"
    )
    assert with_own_name("127.0.0.1 localhost\n", "box1") == "127.0.0.1 localhost\n127.0.1.1 box1\n"


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("has_hostnamectl", [True, False])
def test_names_are_taken_with_the_programs_of_debian(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_hostnamectl: bool
) -> None:
    calls = tmp_path / "calls"
    calls.touch()
    program(tmp_path, "hostname", f"[ $# = 0 ] && echo new || echo hostname $* >>{calls}")
    program(tmp_path, "hostnamectl", f"echo hostnamectl $* >>{calls}; exit {int(not has_hostnamectl)}")
    program(tmp_path, "edge-mdns", f"echo edge-mdns $* >>{calls}")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(installation, "HOSTS", tmp_path / "hosts")
    monkeypatch.setattr(installation, "HOSTNAME", tmp_path / "etc-hostname")
    (tmp_path / "hosts").write_text("127.0.1.1 new\n")
    installation.take_names(Names("box1", "edge-hall7", ()), tmp_path / "edge-mdns")
    taken = ["hostnamectl set-hostname box1", *["hostname box1"] * (not has_hostnamectl), "edge-mdns name edge-hall7"]
    assert calls.read_text().splitlines() == taken
    assert (tmp_path / "hosts").read_text() == "127.0.1.1 box1\n"
    assert (tmp_path / "etc-hostname").exists() == (not has_hostnamectl)
    (tmp_path / "hosts").unlink()
    installation.take_names(Names("box1", "", ()), tmp_path / "edge-mdns")
    assert (tmp_path / "hosts").read_text() == "127.0.1.1 box1\n"
    calls.write_text("")
    installation.take_names(Names("new", "", ()), tmp_path / "edge-mdns")
    assert calls.read_text() == ""


@pytest.mark.parametrize(
    ("kilobytes", "limit"), [(262_144, 128_000_000), (1_000_000, 256_000_000), (16_000_000, 1_000_000_000)]
)
def test_the_broker_gets_a_quarter_of_the_memory_within_limits(kilobytes: int, limit: int) -> None:
    assert installation.memory_limit(f"MemTotal:       {kilobytes} kB\nMemFree: 1 kB\n") == limit


def test_a_full_queue_stays_below_the_limit_of_the_broker() -> None:
    text = installation.broker_settings(TEMPLATE.read_text("utf-8"), "1884", 256_000_000)
    assert "@" not in text.replace("@site", "")
    lines = {words[0]: words[1] for line in text.splitlines() if len(words := line.split()) == 2}
    assert lines["listener"] == "1884"
    assert lines["memory_limit"] == "256000000"
    assert lines["max_queued_messages"] == "256000"
    assert lines["max_queued_bytes"] == "102400000"


@pytest.mark.parametrize(
    ("broker", "is_local"),
    [
        ("mqtt://edge@127.0.0.1:1883", True),
        ("mqtt://localhost:1883", True),
        ("mqtts://edge@broker.example.com:8883", False),
        ("mqtt://192.168.4.20:1883", False),
    ],
)
def test_only_a_broker_of_this_box_is_set_up(broker: str, is_local: bool) -> None:
    assert installation.is_local_broker(broker) is is_local


def test_another_broker_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    installation.configure_broker(Path("/nonexistent"), "mqtt://192.168.4.20:1883")
    assert "is not on this box, so mosquitto on this box is not changed" in capsys.readouterr().out


def test_the_summary_has_every_address_with_its_port() -> None:
    box = Box("https://hall7.local", "8080", "1883", Chosen(), ["192.168.4.20", "10.0.0.2"])
    assert addresses_of(box) == [
        "  pages, API, labels   https://hall7.local/",
        "  the same             https://192.168.4.20/   (for phones that cannot resolve the name)",
        "  the same             https://10.0.0.2/   (for phones that cannot resolve the name)",
        "  readers              mqtt://192.168.4.20:1883, with TLS mqtts://192.168.4.20:8883",
        "  readers              mqtt://10.0.0.2:1883, with TLS mqtts://192.168.4.20:8883",
    ]
    assert "Labels carry https://hall7.local for years" in next_steps(box)


def test_without_https_and_name_the_address_has_the_port_of_the_service() -> None:
    box = Box("", "8080", "1884", None, ["192.168.4.20"], ["192.0.2.7", "192.0.2.8"])
    assert addresses_of(box) == [
        "  pages, API, labels   http://192.168.4.20:8080/",
        "  the same             http://192.168.4.20:8080/   (for phones that cannot resolve the name)",
        "  readers              mqtt://192.168.4.20:1884",
        "  The old box had the address 192.0.2.7 192.0.2.8. Give this box the same one if readers or handhelds use it",
    ]
    assert box._replace(http_port="80").url == "http://192.168.4.20"
    assert box._replace(https=Chosen(port="80")).url == "https://192.168.4.20:80"


def test_the_settings_of_edge_are_read_by_name() -> None:
    config = (
        "http.listen = 127.0.0.1:8080\nhttp.public_url = https://hall7.local\nmqtt.broker = mqtt://edge@127.0.0.1:1\n"
    )
    assert installation.setting(config, "http.public_url") == "https://hall7.local"
    assert installation.setting(config, "mqtt.broker") == "mqtt://edge@127.0.0.1:1"
    assert installation.setting(config, "http") == ""


def test_an_unknown_step_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "begin", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["-c", "/scripts", "what"])
    with pytest.raises(SystemExit, match="not a step: what"):
        installation.main()
