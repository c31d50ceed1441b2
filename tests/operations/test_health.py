import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.operations.health import Check, Health, Notifier, Watchdog, persisted_warnings
from edge.operations.jobs import Housekeeper, Job


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(5)
        yield channel


def notifier(systemd: socket.socket, watchdog_usec: int = 0) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": str(watchdog_usec)})


def test_systemd_hears_that_the_service_is_ready(systemd: socket.socket) -> None:
    notifier(systemd).ready()
    assert systemd.recv(100) == b"READY=1"


def test_without_systemd_the_service_starts_all_the_same() -> None:
    Notifier({}).ready()
    Notifier({"NOTIFY_SOCKET": "/nowhere/at/all"}).ready()


def test_the_watchdog_is_fed_only_while_every_vital_part_lives(systemd: socket.socket) -> None:
    health, lives = Health(), [True]
    health.register(lambda: Check("writer", lives[0], "stuck"))
    health.register(lambda: Check("broker", False, "away"), is_vital=False)
    watchdog = Watchdog(health, notifier(systemd, 40_000))
    watchdog.start_if_needed()
    try:
        while systemd.recv(100) != b"STATUS=broker: away":
            pass
        assert systemd.recv(100) == b"WATCHDOG=1"
        lives[0] = False
        while systemd.recv(100) != b"STATUS=writer: stuck; broker: away":
            pass
        systemd.settimeout(0.1)
        with pytest.raises(TimeoutError):
            systemd.recv(100)
    finally:
        watchdog.stop()


def test_a_check_that_cannot_be_made_has_failed() -> None:
    faults: list[OSError] = []

    def check() -> Check:
        if faults:
            raise faults[0]
        return Check("database", True, "answers")

    health = Health()
    health.register(lambda: check())
    assert health.is_alive()
    faults.append(OSError("disk on fire"))
    assert health.checks() == [(Check("database", False, "disk on fire; see the log"), True)]
    assert not health.is_alive()


def test_a_check_cannot_inject_systemd_assignments(systemd: socket.socket) -> None:
    notifier(systemd).status("sync: the hub responded 500: x\nMAINPID=1")
    assert systemd.recv(200) == b"STATUS=sync: the hub responded 500: x\\nMAINPID=1"


def test_a_failing_job_is_reported_and_the_others_run() -> None:
    done, faults = threading.Event(), [ValueError("bad day")]

    def fail(_: object) -> None:
        if faults:
            raise faults[0]

    housekeeper = Housekeeper("housekeeping", [Job("first", 0, fail), Job("second", 0, lambda _: done.set())])
    housekeeper.start_if_needed()
    try:
        assert done.wait(60)
        assert housekeeper.check().detail == "first: ValueError('bad day')"
        faults.clear()
        done.clear()
        assert done.wait(60)
        assert housekeeper.check().ok
    finally:
        housekeeper.stop()


def test_a_thread_that_is_not_needed_yet_is_no_fault() -> None:
    done, is_needed = threading.Event(), False
    housekeeper = Housekeeper("bulk_changes", [Job("first", 0, lambda _: done.set())], is_needed=lambda: is_needed)
    try:
        housekeeper.start_if_needed()
        assert housekeeper.check().ok
        assert "bulk_changes" not in {thread.name for thread in threading.enumerate()}
        is_needed = True
        housekeeper.start_if_needed()
        housekeeper.start_if_needed()
        assert done.wait(60)
    finally:
        housekeeper.stop()


def test_what_a_script_left_behind_is_a_warning_until_it_is_removed(tmp_path: Path) -> None:
    assert persisted_warnings(tmp_path).ok
    (tmp_path / "warnings").mkdir()
    file = tmp_path / "warnings" / "broker-file"
    file.write_text("The queue file was damaged\n")
    assert not persisted_warnings(tmp_path).ok
    assert "The queue file was damaged" in persisted_warnings(tmp_path).detail
    file.unlink()
    assert persisted_warnings(tmp_path).ok


def test_names_that_the_certificate_leaves_out_are_a_warning(tmp_path: Path) -> None:
    of_https = tmp_path / "run" / "warnings"
    assert persisted_warnings(tmp_path, of_https).ok
    of_https.mkdir(parents=True)
    (of_https / "uncovered-names").write_text("HTTPS does not work at 100.64.0.7")
    assert "100.64.0.7" in persisted_warnings(tmp_path, of_https).detail
