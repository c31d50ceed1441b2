"""What the README tells people to type exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from edge.cli import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.S)
LINES = [line.strip() for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
QUOTED = re.findall(r"`(edge [a-z][^`]*)`", README)
COMMANDS = sorted({line for line in [*LINES, *QUOTED] if line.startswith("edge ")})


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_in_the_readme_exists_with_its_options(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = cli
    while isinstance(command, click.Group) and (words or not command.invoke_without_command):
        assert words, f"{line} is not complete"
        subcommand = command.get_command(click.Context(command), words.pop(0))
        assert subcommand, f"{line}: no such command"
        command = subcommand
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known | {"--help"}


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_a_link_in_the_readme_leads_somewhere(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_two_commands_are_marked_for_the_scripts_that_run_them() -> None:
    assert len(re.findall(r"<!-- run:(demo|test) -->\n```sh\n", README)) == 2


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:[\w-]+/)+[\w-]*(?:\.(?:py|sh|example))?)`", README))))
def test_a_file_or_folder_the_readme_names_is_there(path: str) -> None:
    above = (ROOT, ROOT / "edge", ROOT / "edge" / "ingest")
    assert any((folder / path).exists() for folder in above), path
