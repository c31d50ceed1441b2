"""edge-accounts: divides the broker's queue by the number from the service, and accepts no other input."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.security.test_changed_wheel import ALONE

pytestmark = pytest.mark.slow

SYSTEMD = Path(__file__).parents[2] / "systemd"
SETTINGS = "max_queued_messages 1600\nmax_queued_bytes 16000\n"


def run(folder: Path, *shares: str) -> list[str]:
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
          printf '%s' "$shares" >/var/lib/edge/broker/shares
          sh {SYSTEMD}/edge-accounts
          paste -sd' ' /etc/mosquitto/conf.d/edge_share.conf
        done"""
    command = [*ALONE, script, "script", *shares]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.mosquitto
def test_the_queue_is_divided_and_the_broker_starts_again_only_when_that_changes(tmp_path: Path) -> None:
    divided = "max_queued_messages 400 max_queued_bytes 4000"
    whole = "max_queued_messages 1600 max_queued_bytes 16000"
    assert run(tmp_path, "4\n", "4\n", "3\n", "9; touch /x\n") == [
        *("systemctl try-restart", divided),
        *("systemctl try-reload-or-restart", divided),
        *("systemctl try-restart", whole),
        *("systemctl try-reload-or-restart", whole),
    ]
