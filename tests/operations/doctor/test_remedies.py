"""The commands in the advice of the doctor exist. tests/soak/diagnoses.py runs many of them on a Debian."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from edge.cli import cli

ROOT = Path(__file__).parents[3]
UNITS = {path.name for path in (ROOT / "systemd").glob("edge*.*")} | {
    *(f"{name}.service" for name in ("mosquitto", "caddy", "avahi-daemon", "systemd-journald", "postgresql"))
}
SOURCES = [*(ROOT / "edge/operations/doctor").glob("*.py"), ROOT / "edge/commands/doctor.py"]
_SYSTEMCTL = r"systemctl (?:start|stop|restart|status|unmask|reset-failed|enable --now) ([a-z][\w.-]*[a-z])"
PROSE = {"was", "again", "shows", "caddy"}  # words after the name of the program or its unit


def advice() -> Iterator[tuple[str, str]]:
    """Yield each advice with its module. A value that is filled in is `VALUE`."""
    for path in SOURCES:
        tree = ast.parse(path.read_text("utf-8"))
        texts = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("problem", "warning"):
                given = node.args[1] if len(node.args) > 1 else None
                given = texts.get(given.id, given) if isinstance(given, ast.Name) else given
                if isinstance(given, ast.Constant | ast.JoinedStr):
                    yield path.stem, written(given)


def written(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)
    assert isinstance(node, ast.Constant)
    return str(node.value)


ADVICE = sorted(set(advice()))


def test_the_advice_is_found() -> None:
    assert len(ADVICE) > 60


@pytest.mark.parametrize(("module", "text"), ADVICE, ids=[f"{module}-{n}" for n, (module, _) in enumerate(ADVICE)])
def test_every_command_of_an_advice_exists(module: str, text: str) -> None:
    for first, second in re.findall(r"(?:^|[ :;(])edge ([a-z][a-z-]+)(?: ([a-z][a-z-]+))?", text):
        if first in PROSE:
            continue
        command = cli.get_command(click.Context(cli), first)
        assert command, f"edge {first}"
        if isinstance(command, click.Group) and second and not command.invoke_without_command:
            assert second in command.commands, f"edge {first} {second}"
    for script in re.findall(r"\bedge-(?:https|mdns|upgrade|verify|disaster)\b(?!\.)", text):
        assert (ROOT / "systemd" / script).is_file()
    for name in re.findall(_SYSTEMCTL, text):
        assert name in UNITS or f"{name}.service" in UNITS, f"systemctl {name}"
    for unit in re.findall(r"journalctl -u ([a-z][\w.-]*)", text):
        assert unit in UNITS or f"{unit}.service" in UNITS, f"journalctl -u {unit}"
