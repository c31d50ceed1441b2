"""The commands as a chapter of the manual: made from click."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from edge.manual.generated import escape, table


def markdown(program: click.Group) -> str:
    """Return a section for each command, and for each group one with its commands. Hidden commands are left out."""
    return "\n".join(_sections(program, "edge", 2))


def _sections(group: click.Group, path: str, level: int) -> Iterator[str]:
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield _section(command, f"{path} {name}", level)
        if isinstance(command, click.Group):
            yield from _sections(command, f"{path} {name}", level + 1)


def _section(command: click.Command, path: str, level: int) -> str:
    blocks = [f"{'#' * level} {path}", escape(inspect.cleandoc(command.help or "").replace("\b\n", ""))]
    if not isinstance(command, click.Group):
        blocks.append(f"```sh\n{' '.join([path, *_usage(command)])}\n```")
    if rows := [_option(one) for one in command.params if isinstance(one, click.Option) and not one.hidden]:
        blocks.append(table(("Option", "Meaning"), rows))
    return "\n\n".join(part for part in blocks if part) + "\n"


def _usage(command: click.Command) -> list[str]:
    with click.Context(command) as context:
        return command.collect_usage_pieces(context)


def _option(option: click.Option) -> tuple[str, str]:
    names = ", ".join((*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {option.metavar or option.type.name.upper()}"
    required = " Required." if option.required else ""
    return f"`{names}{value}`", escape(option.help or "") + required
