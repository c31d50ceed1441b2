"""`edge config`: show all settings, and change those that may change while the service runs."""

from __future__ import annotations

import click

from edge.audit.actors import THE_BOX, Actor
from edge.commands.context import Setup, in_force, open_site, shell
from edge.config import live
from edge.config.changed_settings import changed_settings
from edge.config.live import CHANGEABLE
from edge.config.settings import Change, Value
from edge.database.connection import FILE_NAME
from edge.errors import EdgeError
from edge.people import organizations
from edge.terminal import printable
from edge.tracking import history_engine

_NAME = click.Choice(list(CHANGEABLE))


@click.group("config", invoke_without_command=True)
@click.pass_context
def config(context: click.Context) -> None:
    """Print every setting with its value, its source and its purpose."""
    if context.invoked_subcommand:
        return
    for value in shown(context.obj):
        text = history_engine.shown_url(value.value) if value.name == "hub.history" and value.value else value.value
        click.echo(f"{value.name} = {text}\n    {value.help} [{value.source}]")


@config.command("change")
@click.argument("name", type=_NAME, metavar="NAME")
@click.argument("value")
@click.pass_obj
def change(setup: Setup, name: str, value: str) -> None:
    """Change a setting while the service runs; it counts over the settings file until it is reset."""
    open_site(setup)
    live.change(setup.config, _actor(), name, value)
    _print_effect(name)


@config.command("reset")
@click.argument("name", type=_NAME, metavar="NAME")
@click.pass_obj
def reset(setup: Setup, name: str) -> None:
    """Let the settings file, the environment or the default count again."""
    open_site(setup)
    live.reset(setup.config, _actor(), name)
    _print_effect(name)


def shown(setup: Setup) -> list[Value]:
    """Return all settings, including live changes if there is a site. An unreadable database does not hide the rest.

    Root scripts parse the output by line, so names from the database must not add lines.
    """
    if not (setup.config.data_dir / FILE_NAME).exists():
        return setup.shown
    try:
        open_site(setup)
        changed, values = changed_settings(), live.by_name(in_force(setup))
    except EdgeError as error:
        click.echo(f"edge: settings saved on pages cannot be read: {error}", err=True)
        return setup.shown
    return [
        one._replace(value=values[one.name], source=f"changed by {printable(changed[one.name].changed_by)}")
        if one.name in changed
        else one
        for one in setup.shown
    ]


def _actor() -> Actor:
    """Return the actor for a change: of the only organization, whose administrators then see it in their audit."""
    rows = organizations.list_organizations()
    return shell(rows[0].id if len(rows) == 1 else THE_BOX)


def _print_effect(name: str) -> None:
    at_once = CHANGEABLE[name] is Change.AT_ONCE
    click.echo("Takes effect within seconds." if at_once else "Takes effect after: sudo systemctl restart edge")
