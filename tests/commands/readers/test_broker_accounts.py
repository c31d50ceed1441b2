"""`edge account` and `edge accounts`: broker accounts of readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import Shell


@pytest.fixture
def settings(edge: Shell, tmp_path: Path) -> list[str]:
    """Return settings of a box with broker accounts and a reader `dock1`."""
    edge.ok("reader", "add", "dock1", "--topic", "site/dock1", "--format", "edge")
    (tmp_path / "password").write_text("secret of the service")
    return ["--set", f"mqtt.accounts_dir={tmp_path / 'broker'}", "--set", f"mqtt.password_file={tmp_path / 'password'}"]


def test_an_account_is_made_and_its_password_shown_once(edge: Shell, settings: list[str], tmp_path: Path) -> None:
    output = edge.ok(*settings, "account", "dock1")
    given = dict(line.split(maxsplit=1) for line in output.splitlines()[:3])
    assert given["port"] == "1883"
    assert "may publish to site/dock1 only" in output
    written = {file.name: file.read_text() for file in (tmp_path / "broker").iterdir()}
    assert any(given["user"] in text for text in written.values())
    assert not any(given["password"] in text for text in written.values())
    assert edge.ok(*settings, "accounts") == f"{given['user']}  publishes under site/dock1\n"


def test_a_new_password_replaces_the_one_before(edge: Shell, settings: list[str]) -> None:
    first, second = edge.ok(*settings, "account", "dock1"), edge.ok(*settings, "account", "dock1")
    assert first.splitlines()[0] == second.splitlines()[0]
    assert first.splitlines()[1] != second.splitlines()[1]
    assert edge.ok(*settings, "accounts").count("\n") == 1


def test_account_of_a_wildcard_topic_comes_with_a_warning(edge: Shell, settings: list[str]) -> None:
    edge.ok("reader", "add", "gate", "--topic", "home/gate/+", "--format", "edge")
    assert "retained messages" in edge.ok(*settings, "account", "gate")
    assert "retained messages" not in edge.ok(*settings, "account", "dock1")


def test_without_a_place_for_the_files_nothing_is_made(edge: Shell) -> None:
    edge.ok("reader", "add", "dock1", "--topic", "site/dock1", "--format", "edge")
    code, output = edge("account", "dock1")
    assert code
    assert "mqtt.accounts_dir" in output
