"""edge-accounts: divides the broker's queue by the number from the service, and accepts no other input."""

from __future__ import annotations

import runpy
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security.test_changed_wheel import ALONE

SYSTEMD = Path(__file__).parents[2] / "systemd"
SETTINGS = "max_queued_messages 1600\nmax_queued_bytes 16000\n"


def run(folder: Path, *shares: str, restart: str = "") -> list[str]:
    """Run the script for each share. Returns the content of edge_share.conf and the calls of systemctl."""
    programs = folder / "programs"
    programs.mkdir()
    for name, content in (
        ("setpriv", 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"'),
        ("chown", ":"),
        ("systemctl", "echo systemctl $1"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{content}\n")
        (programs / name).chmod(0o755)
    (folder / "edge.conf").write_text(SETTINGS)
    script = f"""
        mount -t tmpfs none /etc/mosquitto; mount -t tmpfs none /var/lib
        mkdir -p /etc/mosquitto/conf.d /var/lib/edge/broker
        cp {folder}/edge.conf /etc/mosquitto/conf.d/
        touch /var/lib/edge/broker/passwd /var/lib/edge/broker/acl
        export PATH={programs}:$PATH
        for shares in "$@"; do
          case $shares in *[a-z]*=*) sed -i "s/^max_queued_messages .*/max_queued_messages ${{shares#*=}}/" \
            /etc/mosquitto/conf.d/edge.conf; shares=${{shares%%[a-z]*}};; esac
          printf '%s' "$shares" >/var/lib/edge/broker/shares
          printf '%s' '{restart}' >/var/lib/edge/broker/restart
          {SYSTEMD}/edge-accounts
          grep -v '^#' /etc/mosquitto/conf.d/edge_share.conf | paste -sd' '
        done
        cp /etc/mosquitto/edge.restart {folder}/asked 2>/dev/null || touch {folder}/asked"""
    command = [*ALONE, script, "script", *shares]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


RESTARTED, RELOADED = "systemctl try-restart", "systemctl try-reload-or-restart"
WHOLE = "max_queued_messages 1600 max_queued_bytes 16000"
HALF = "max_queued_messages 800 max_queued_bytes 8000"
QUARTER = "max_queued_messages 400 max_queued_bytes 4000"


@pytest.mark.slow
@pytest.mark.mosquitto
def test_the_queue_is_divided_and_only_smaller_shares_need_a_restart(tmp_path: Path) -> None:
    assert run(tmp_path, "1\n", "4\n", "4\n", "2\n", "4\n", "3\n", "9; touch /x\n") == [
        *(RELOADED, WHOLE),  # as mosquitto runs already
        *(RESTARTED, QUARTER),
        *(RELOADED, QUARTER),
        *(RELOADED, HALF),  # with its next start
        *(RESTARTED, QUARTER),
        *(RELOADED, WHOLE),
        *(RELOADED, WHOLE),
    ]


@pytest.mark.slow
@pytest.mark.mosquitto
def test_a_total_that_a_technician_sets_is_divided_and_used(tmp_path: Path) -> None:
    own = "max_queued_messages 800000 max_queued_bytes 8000"
    assert run(tmp_path, "2", "2messages=1600000", "2") == [
        *(RESTARTED, HALF),
        *(RESTARTED, own),
        *(RELOADED, own),
    ]


@pytest.mark.slow
@pytest.mark.mosquitto
@pytest.mark.parametrize(("asked", "done"), [("1795444355", "1795444355"), ("", ""), ("1; touch /x", "")])
def test_the_broker_restarts_once_for_each_request(tmp_path: Path, asked: str, done: str) -> None:
    calls = [line for line in run(tmp_path, "1", "1", "1", restart=asked) if line.startswith("systemctl")]
    assert calls == [RESTARTED if done else RELOADED, RELOADED, RELOADED]
    assert (tmp_path / "asked").read_text() == done


SCRIPT = runpy.run_path(str(SYSTEMD / "edge-accounts"))
divided: Callable[[str, int], str] = SCRIPT["divided"]
must_restart: Callable[[str, str], bool] = SCRIPT["must_restart"]


@pytest.mark.parametrize(
    ("before", "after", "is_due"),
    [
        ((SETTINGS, 1), (SETTINGS, 4), True),
        ((SETTINGS, 4), (SETTINGS, 2), False),
        ((SETTINGS, 4), (SETTINGS.replace("16000", "8000"), 2), True),  # less by another total
        ((SETTINGS, 2), (f"# a comment\n{SETTINGS}\nautosave_interval 30\n", 2), False),
    ],
)
def test_mosquitto_restarts_for_smaller_shares_and_another_total(
    before: tuple[str, int], after: tuple[str, int], is_due: bool
) -> None:
    assert must_restart(divided(*before), divided(*after)) == is_due


def test_a_file_of_an_earlier_release_has_no_totals() -> None:
    assert must_restart("max_queued_messages 800\nmax_queued_bytes 8000\n", divided(SETTINGS, 4))


@pytest.mark.parametrize(
    ("content", "shares"), [(b"4\n", 4), (b"16", 16), (b"3\n", 1), (b"", 1), (None, 1), (b"\xff", 1), (b"+4", 1)]
)
def test_only_a_power_of_two_is_taken_from_the_service(content: bytes | None, shares: int) -> None:
    assert SCRIPT["shares_of"](content) == shares


def test_a_comment_of_a_technician_may_have_any_encoding(tmp_path: Path) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/edge.conf").write_bytes(b"# f\xfcr Halle 2\n" + SETTINGS.encode())
    script = runpy.run_path(str(SYSTEMD / "edge-accounts"))
    share_out = script["share_out"]
    share_out.__globals__["MOSQUITTO"] = tmp_path
    assert share_out(4)
    assert (tmp_path / "conf.d/edge_share.conf").read_text().startswith("max_queued_messages 400")
