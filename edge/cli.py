"""The `edge` command. Each subcommand parses its arguments, calls one function and prints the result."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

import click

from edge import __version__
from edge.errors import Damaged, EdgeError, SetupError
from edge.manual import generated
from edge.terminal import PrintableStream

DAMAGED = 3  # exit code after which systemd does not restart the service
MODULES = {  # of edge/commands, with their commands
    "audit": ("audit",),
    "config": ("config",),
    "demo": ("demo",),
    "destinations": ("channel", "events", "output"),
    "disaster": ("disaster-pack", "disaster-unpack"),
    "doctor": ("doctor",),
    "doors": ("door",),
    "hub": ("hub",),
    "init": ("init",),
    "operations": ("backup", "backup-key", "repair", "restore", "restore-drill", "trust-clock"),
    "portable": ("export", "import"),
    "probation": ("downgrade-database", "note-reads", "watch-upgrade"),
    "readers": ("reader",),
    "readers.broker_accounts": ("account", "accounts", "broker-session"),
    "readers.fleet": ("renew-passwords",),
    "records": ("asset", "location", "org", "tag", "user"),
    "rules": ("rules",),
    "serve": ("serve",),
    "sync": ("sync",),
    "upgrade": ("trial",),
    "upstream": ("upstream",),
}
COMMANDS = {name: module for module, names in MODULES.items() for name in names}


class _Commands(click.Group):
    """Imports each command on first use: importing all of them takes a second on a small box."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"edge.commands.{COMMANDS[name]}")
        commands = (one for one in vars(module).values() if isinstance(one, click.Command))
        return next(one for one in commands if one.name == name)


@click.group(cls=_Commands)
@click.option(
    "--config",
    "file",
    type=click.Path(readable=False, path_type=Path),
    envvar="EDGE_CONFIG",
    help="Settings file (TOML).",
)
@click.option("--set", "flags", multiple=True, metavar="NAME=VALUE", help="Set one setting; repeatable.")
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context, file: Path | None, flags: tuple[str, ...]) -> None:
    """Asset and location tracking for a warehouse."""
    from edge.commands.context import Setup
    from edge.config import settings

    try:
        context.obj = Setup(*settings.from_process(file, flags))
    except SetupError as error:
        if context.invoked_subcommand != "doctor":
            raise
        context.obj = Setup(*settings.load(None, {}), str(error))


def _commands_for_manual() -> str:
    reference = import_module("edge.commands.reference")
    return str(reference.markdown(cli))


def _settings_for_manual() -> str:
    reference = import_module("edge.config.reference")
    return str(reference.markdown())


generated.register("commands", _commands_for_manual)
generated.register("settings", _settings_for_manual)


def main() -> None:
    os.umask(0o077)  # only the service's user may read the data and its copies
    with redirect_stdout(PrintableStream(sys.stdout)), redirect_stderr(PrintableStream(sys.stderr)):
        code = _run()
    if code:
        sys.exit(code)


def _run() -> int:
    """Run the command line and return the exit code."""
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except Damaged as error:
        click.echo(f"edge: {error}", err=True)
        return DAMAGED
    except EdgeError as error:
        click.echo(f"edge: {error}", err=True)
        return 1
    except OSError as error:
        if error.filename is None:  # not about a file: a bug, so keep the traceback
            raise
        click.echo(f"edge: {error.filename} cannot be used: {error.strerror}", err=True)
        return 1
    return 0
