"""`edge demo` as a process: output and orderly shutdown."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from edge.cli import cli
from edge.errors import SetupError
from tests.mosquitto import free_port


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order_and_nothing_is_left(number: signal.Signals, tmp_path: Path) -> None:
    ports = ["--http-port", str(free_port()), "--mqtt-port", str(free_port())]
    with subprocess.Popen(
        [sys.executable, "-m", "edge", "demo", *ports],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any(line.startswith("Ctrl-C") for line in lines)
        process.send_signal(number)
        output, complaints = process.communicate(timeout=60)
    assert (process.returncode, output, complaints) == (0, "Stopping\n", "")
    assert list(tmp_path.iterdir()) == []


def test_settings_that_would_be_ignored_are_refused() -> None:
    refused = CliRunner().invoke(cli, ["--set", "http.listen=127.0.0.1:8091", "demo"])
    assert isinstance(refused.exception, SetupError)
    assert "remove --set http.listen" in str(refused.exception)


def test_a_folder_that_cannot_be_created_gives_a_plain_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = CliRunner().invoke(cli, ["demo", "--keep", str(tmp_path / "file" / "inside")])
    assert isinstance(refused.exception, SetupError)
    assert "cannot be used" in str(refused.exception)
