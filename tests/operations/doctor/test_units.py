"""Doctor: systemd units, the network name, and interrupted upgrades."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edge.errors import Unavailable
from edge.operations.doctor.doctor import CHECKS, ON_SITES, examine
from edge.operations.doctor.findings import Level, Subject
from edge.operations.doctor.machine import Machine, run
from tests.operations.doctor.test_doctor import finding_of, subject, with_message, with_settings

__all__ = ["subject"]

WELL = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "Result": "success"}
STARTED = 1_790_000_000


class Site:
    """A computer as the installer leaves it, with scripted answers of systemd and avahi."""

    def __init__(self, folder: Path, subject: Subject) -> None:
        self.folder = folder
        self.units: dict[str, dict[str, str]] = {}
        self.name = "hall7.local"
        self.listening = ["127.0.0.1:8080", "0.0.0.0:1883"]
        for name in ("edge.toml", "Caddyfile", "mosquitto/conf.d/edge.conf", "avahi/services/edge.service"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        (folder / "venv").symlink_to(folder)
        (folder / "Caddyfile").write_text("# with the certificate that edge-https makes\nhttps://:443 {\n}\n")
        (folder / "avahi/avahi-daemon.conf").write_text("[server]\nhost-name=hall7\n")
        os.utime(folder / "edge.toml", (STARTED - 60, STARTED - 60))
        accounts = folder / "broker"
        accounts.mkdir()
        for name in ("passwd", "acl"):
            (accounts / name).write_text(f"{name} of two readers")
            (folder / "mosquitto" / f"edge.{name}").write_text(f"{name} of two readers")
        machine = Machine(
            self._answer,
            folder,
            folder / "edge.toml",
            folder / "Caddyfile",
            folder / "mosquitto",
            folder / "avahi",
            control_groups=folder / "groups",
            localtime=folder / "zoneinfo/Europe/Berlin",
            systemd=folder / "systemd",
            packaged_units=folder / "packaged",
            upgrade_lock=folder / "upgrade.lock",
        )
        self.subject = with_settings(subject, mqtt_accounts_dir=accounts)._replace(machine=machine)

    def _answer(self, command: Sequence[str]) -> str:
        if command[0] == "ss":
            return "".join(f"LISTEN 0 100 {address} 0.0.0.0:*\n" for address in self.listening)
        if command[0] == "busctl":
            if not self.name:
                raise Unavailable("busctl does not respond")
            return f's "{self.name}"\n'
        usual = {**WELL, "ActiveEnterTimestamp": f"@{STARTED}", "NRestarts": "0"}
        shown = [
            {"Id": name, **usual, **self.units.get(name, {})} for name in command if "." in name and "=" not in name
        ]
        return "\n\n".join("\n".join(f"{key}={value}" for key, value in unit.items()) for unit in shown)

    def finding_of(self, check: str) -> tuple[Level, str]:
        return finding_of(self.subject, check)


@pytest.fixture
def computer(tmp_path: Path, subject: Subject) -> Site:
    folder = tmp_path / "machine"
    folder.mkdir()
    return Site(folder, subject)


ALL = ("units", "restarts", "settings", "name", "upgrade", "broker-accounts")


def test_a_site_as_it_was_installed_is_well(computer: Site) -> None:
    assert {check: computer.finding_of(check)[0] for check in ALL} == dict.fromkeys(ALL, Level.OK)


def test_a_computer_without_an_installation_has_nothing_to_check(subject: Subject) -> None:
    found = {item.name: item.finding.level for item in examine(subject)}
    assert {check: found[check] for check in (*ALL, *ON_SITES)} == dict.fromkeys((*ALL, *ON_SITES), Level.OK)


@pytest.mark.parametrize(
    ("unit", "state", "text"),
    [
        ("caddy.service", {"ActiveState": "inactive"}, "caddy.service is not running"),
        ("caddy.service", {"UnitFileState": "disabled"}, "caddy.service does not start at boot"),
        ("edge-drill.timer", {"LoadState": "masked"}, "edge-drill.timer is masked"),
        ("mosquitto.service", {"LoadState": "masked"}, "mosquitto.service is not installed: its package was removed"),
        ("caddy.service", {"LoadState": "not-found"}, "caddy.service is not installed"),
        ("edge-backup.timer", {"ActiveState": "inactive"}, "edge-backup.timer is not running"),
        ("edge-https.timer", {"LoadState": "not-found"}, "edge-https.timer is missing"),
        ("edge-accounts.path", {"ActiveState": "failed"}, "edge-accounts.path has failed"),
        ("edge-backup.service", {"ActiveState": "failed", "Result": "exit-code"}, "edge-backup.service has failed"),
        ("avahi-daemon.service", {"ActiveState": "inactive"}, "avahi-daemon.service is not running"),
    ],
)
def test_a_unit_that_is_not_as_it_should_be(computer: Site, unit: str, state: dict[str, str], text: str) -> None:
    computer.units[unit] = state
    level, said = computer.finding_of("units")
    assert level is Level.PROBLEM
    assert text in said


@pytest.mark.parametrize("unit", ["edge-backup.service", "edge-upgrade.service"])
def test_the_remedy_for_a_failed_job_ends_its_failure(computer: Site, unit: str) -> None:
    """Regression: systemd skips edge-upgrade if nothing is left to do, and then it keeps the failure of before."""
    computer.units[unit] = {"ActiveState": "failed", "Result": "exit-code"}
    assert f"systemctl reset-failed {unit}" in CHECKS["units"](computer.subject).advice


def test_a_removed_package_is_not_masked_by_a_person(computer: Site) -> None:
    """Debian masks the units of a package when it removes it."""
    computer.units["caddy.service"] = {"LoadState": "masked"}
    assert CHECKS["units"](computer.subject).advice.startswith("apt-get install caddy; systemctl unmask caddy.service")
    (computer.folder / "packaged").mkdir()
    (computer.folder / "packaged/caddy.service").touch()
    assert "caddy.service is masked" in computer.finding_of("units")[1]


def test_an_old_failure_is_not_reported_as_a_rollback(computer: Site) -> None:
    computer.units["edge-upgrade.service"] = {"ActiveState": "failed", "Result": "exit-code"}
    finding = CHECKS["units"](computer.subject)
    assert "was rolled back" not in finding.text
    assert "says when and why, and whether a release was rolled back" in finding.advice


def test_jobs_are_done_and_not_running(computer: Site) -> None:
    computer.units["edge-backup.service"] = {"ActiveState": "inactive", "UnitFileState": "static"}
    assert computer.finding_of("units")[0] is Level.OK


def test_without_https_nobody_asks_for_caddy(computer: Site) -> None:
    (computer.folder / "Caddyfile").unlink()
    computer.units |= {"caddy.service": {"LoadState": "not-found"}, "edge-https.timer": {"LoadState": "not-found"}}
    assert computer.finding_of("units")[0] is Level.OK


def test_a_service_that_failed_repeatedly_is_named_for_a_day(computer: Site) -> None:
    for hours_ago, level in ((1, Level.WARNING), (25, Level.OK)):
        started = f"@{int(time.time()) - hours_ago * 3600}"
        computer.units["edge.service"] = {"NRestarts": "7", "ActiveEnterTimestamp": started}
        assert computer.finding_of("restarts")[0] is level


@pytest.mark.parametrize(
    ("folder", "stat", "limit", "level"),
    [
        ("", "anon 390000000\nfile 0\n", "402653184", Level.WARNING),
        ("memory", "cache 0\ntotal_rss 390000000\n", "402653184", Level.WARNING),
        ("", "anon 90000000\nfile 300000000\n", "402653184", Level.OK),  # the page cache is not the service's
        ("", "anon 390000000\n", "infinity", Level.OK),
        ("", "anon 390000000\n", "18446744073709551615", Level.OK),
        ("elsewhere", "", "402653184", Level.OK),
    ],
)
def test_a_service_that_swells(computer: Site, folder: str, stat: str, limit: str, level: Level) -> None:
    group = computer.folder / "groups" / folder / "system.slice/edge.service"
    group.mkdir(parents=True)
    (group / "memory.stat").write_text(stat)
    computer.units["edge.service"] = {"ControlGroup": "/system.slice/edge.service", "MemoryHigh": limit}
    assert computer.finding_of("restarts")[0] is level


def test_settings_that_the_service_has_not_read(computer: Site) -> None:
    os.utime(computer.folder / "edge.toml", (STARTED + 60, STARTED + 60))
    assert computer.finding_of("settings")[0] is Level.WARNING


@pytest.mark.parametrize(
    ("name", "text"), [("", "avahi does not respond"), ("hall7-2.local", "another one is hall7.local")]
)
def test_a_box_with_another_name_in_the_network(computer: Site, name: str, text: str) -> None:
    computer.name = name
    level, text = computer.finding_of("name")
    assert (level, text in text) == (Level.WARNING, True)


def test_a_box_that_is_not_announced(computer: Site) -> None:
    (computer.folder / "avahi/services/edge.service").unlink()
    assert computer.finding_of("name")[0] is Level.WARNING


@pytest.mark.parametrize(
    ("hours", "is_running", "level"),
    [(0.1, True, Level.OK), (0.1, False, Level.PROBLEM), (2, True, Level.PROBLEM)],
)
def test_an_upgrade_that_did_not_end(computer: Site, hours: float, is_running: bool, level: Level) -> None:
    """Regression: a killed upgrade was said to be running, and one of `sudo edge upgrade` to be interrupted."""
    state = computer.folder / "upgrade"
    state.touch()
    began = time.time() - hours * 3600
    os.utime(state, (began, began))
    with (computer.folder / "upgrade.lock").open("w") as lock:  # a killed upgrade leaves the file
        if is_running:
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert computer.finding_of("upgrade")[0] is level


@pytest.mark.parametrize(("hours", "level"), [(0.1, Level.OK), (2, Level.WARNING)])
def test_releases_of_killed_upgrades(computer: Site, hours: float, level: Level) -> None:
    """Regression: a killed upgrade left 777 MB that nothing mentioned."""
    (computer.folder / "previous").write_text(f"OLD={computer.folder}/releases/second\nBACKUP=\n")
    at = time.time() - hours * 3600
    for name in ("first", "second"):
        (computer.folder / "releases" / name).mkdir(parents=True)
        os.utime(computer.folder / "releases" / name, (at, at))
    found, text = computer.finding_of("upgrade")
    assert (found, "left first in" in text) == (level, level is not Level.OK)


@pytest.mark.parametrize("name", ["passwd", "acl"])
def test_accounts_that_are_not_those_of_edge(computer: Site, name: str) -> None:
    used = computer.folder / "mosquitto" / f"edge.{name}"
    used.write_text("")
    assert computer.finding_of("broker-accounts")[0] is Level.PROBLEM
    used.unlink()
    assert computer.finding_of("broker-accounts")[0] is Level.PROBLEM


def test_accounts_that_mosquitto_has_not_got_yet(computer: Site) -> None:
    used = computer.folder / "mosquitto" / "edge.acl"
    os.utime(used, (STARTED, STARTED))
    assert computer.finding_of("broker-accounts")[0] is Level.PROBLEM


def test_a_systemd_that_gives_no_answer(computer: Site) -> None:
    def silent(_: Any) -> str:
        raise Unavailable("systemctl does not respond")

    silenced = computer.subject._replace(machine=computer.subject.machine._replace(run=silent))
    assert finding_of(silenced, "units")[0] is Level.PROBLEM


def test_a_program_of_the_system_that_fails_or_does_not_exist() -> None:
    assert run(["echo", "yes"]) == "yes\n"
    for command in (["false"], ["/nonexistent/program"]):
        with pytest.raises(Unavailable, match="does not respond"):
            run(command)


@pytest.mark.parametrize(
    ("listening", "level"),
    [
        (["0.0.0.0:1883", "127.0.0.1:8080"], Level.OK),
        (["127.0.0.1:1883", "[::1]:1883", "0.0.0.0:8080"], Level.PROBLEM),
        (["127.0.0.1:1883", "*:8883"], Level.OK),  # with TLS
        ([], Level.OK),  # the check of the broker reports it
    ],
)
def test_a_broker_that_no_reader_can_reach(computer: Site, listening: list[str], level: Level) -> None:
    computer.listening = ["127.0.0.1:1883"]
    assert computer.finding_of("broker-reachable")[0] is Level.OK, "there is no reader"
    with_message("gateway")
    assert computer.finding_of("broker-reachable")[0] is Level.OK, "the only reader sends from this box"
    with_message("dock", hours_ago=25)
    computer.listening = listening
    computer.subject = with_settings(computer.subject, mqtt_tls_port=8883)
    assert computer.finding_of("broker-reachable")[0] is level


@pytest.mark.parametrize(
    ("listen", "level"), [("127.0.0.1:8080", Level.OK), ("0.0.0.0:8080", Level.WARNING), ("[::]:8080", Level.WARNING)]
)
def test_plain_http_for_everybody_with_https_on(computer: Site, listen: str, level: Level) -> None:
    computer.subject = with_settings(computer.subject, http_listen=listen)
    assert computer.finding_of("http-listen")[0] is level
    (computer.folder / "Caddyfile").unlink()
    assert computer.finding_of("http-listen")[0] is Level.OK


@pytest.mark.parametrize("zone", ["Etc/UTC", "UTC", ""])
def test_a_box_without_a_time_zone(computer: Site, zone: str) -> None:
    assert computer.finding_of("time-zone") == (Level.OK, "Europe/Berlin")
    path = computer.folder / ("zoneinfo" if zone else "localtime") / zone
    computer.subject = computer.subject._replace(machine=computer.subject.machine._replace(localtime=path))
    assert computer.finding_of("time-zone")[0] is Level.WARNING
    computer.subject = with_settings(computer.subject, pages_time_zone="UTC")
    assert computer.finding_of("time-zone") == (Level.OK, "UTC")


def test_a_journal_that_is_off(computer: Site) -> None:
    assert computer.finding_of("journal")[0] is Level.OK
    folder = computer.folder / "systemd/journald.conf.d"
    folder.mkdir(parents=True)
    (folder.parent / "journald.conf").write_text("[Journal]\n#Storage=none\n")
    assert computer.finding_of("journal")[0] is Level.OK
    (folder / "small.conf").write_text("[Journal]\nStorage=none\n")
    assert computer.finding_of("journal")[0] is Level.WARNING


def test_a_log_of_the_database_that_does_not_shrink(computer: Site) -> None:
    assert computer.finding_of("write-ahead-log")[0] is Level.OK
    with (computer.subject.data_dir / "edge.db-wal").open("ab") as wal:
        wal.truncate(605 << 20)
    level, text = computer.finding_of("write-ahead-log")
    assert (level, "605 MB" in text) == (Level.WARNING, True)
