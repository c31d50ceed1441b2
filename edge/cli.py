"""The `edge` command: parse, call one function, print."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import click

from edge import __version__
from edge.commands import (
    audit,
    config,
    demo,
    disaster,
    doctor,
    events,
    operations,
    portable,
    probation,
    records,
    sync,
    upgrade,
)
from edge.commands.context import Setup, ask_password, require_database, shell
from edge.commands.readers import broker_accounts, fleet, readers
from edge.config import settings
from edge.database import migrate
from edge.database.connection import FILE_NAME, all_or_none
from edge.errors import Damaged, EdgeError
from edge.operations.doctor.machine import Machine
from edge.operations.files import hold
from edge.operations.own_address import own_address
from edge.people import organizations, people
from edge.people.passwords import hash_password
from edge.runtime import serve as runtime
from edge.sync.store import sites
from edge.terminal import PrintableStream
from edge.validation import values

DAMAGED = 3  # exit code; systemd does not restart the service then


@click.group()
@click.option("--config", "file", type=click.Path(path_type=Path), envvar="EDGE_CONFIG", help="Settings file (TOML).")
@click.option("--set", "flags", multiple=True, metavar="NAME=VALUE", help="Set one setting; may be repeated.")
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context, file: Path | None, flags: tuple[str, ...]) -> None:
    """Asset and location tracking for a warehouse."""
    context.obj = Setup(*settings.from_process(file, flags))


@cli.command()
@click.option("--org", required=True, help="Name of the organization.")
@click.option("--email", required=True, help="Email address its first administrator signs in with.")
@click.option("--hub", "is_hub", is_flag=True, help="This box is a hub: it shows what other boxes, its sites, report.")
@click.pass_obj
def init(setup: Setup, org: str, email: str, is_hub: bool) -> None:
    """Create the database, an organization and its first administrator.

    The password is asked for twice, or read as one line from standard input.
    """
    setup.config.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with hold(setup.config.data_dir):
        migrate.migrate(setup.config.data_dir)
    existing = organizations.list_organizations()
    if existing:
        names = ", ".join(row.name for row in existing)
        click.echo(f"{setup.config.data_dir / FILE_NAME} exists, with: {names}. Nothing was changed.")
        return
    password_hash = hash_password(ask_password())
    all_or_none([lambda: _add_administrator(values.name("name", org), email, password_hash)])
    click.echo(f"Created {org} with its administrator {email}. Start the service: edge serve")
    if is_hub:
        sites.make_hub(shell())
        click.echo("It is a hub. For each site: edge sync add-site CODE NAME --url https://ADDRESS-OF-THIS-BOX")
    address = setup.config.http_public_url or own_address(setup.config.http_listen, Machine())
    if setup.config.http_public_url:
        click.echo(f"Pages and labels: {address}")
    elif address:
        click.echo(f'Before you print labels, set the address they carry, for example: http.public_url = "{address}"')


def _add_administrator(org: str, email: str, password_hash: str) -> None:
    organization = organizations.add_organization(shell(), org)
    name, role = email.partition("@")[0], people.Role.ADMINISTRATOR
    people.add_person(shell(organization.id), name, role, email=email, password_hash=password_hash)


@cli.command()
@click.pass_obj
def serve(setup: Setup) -> None:
    """Run the service until it is stopped."""
    require_database(setup)
    runtime.serve(setup.config)


for group in (
    *(records.org, records.user, records.location, records.asset, records.tag, readers.reader),
    *(events.events, sync.sync, config.config),
):
    cli.add_command(group)
readers.reader.add_command(fleet.import_readers)
for command in (
    demo.demo,
    audit.audit,
    broker_accounts.account,
    broker_accounts.list_accounts,
    fleet.renew_passwords,
    broker_accounts.leave_session,
    operations.backup,
    operations.restore,
    operations.restore_drill,
    operations.trust_clock,
    operations.repair,
    operations.backup_key,
    disaster.pack,
    disaster.unpack,
    portable.export_site,
    portable.import_site,
    upgrade.try_release,
    probation.note_reads,
    probation.watch_upgrade,
    doctor.doctor,
):
    cli.add_command(command)


def main() -> None:
    os.umask(0o077)  # the data, and every copy of it, is readable by the user of the service only
    with redirect_stdout(PrintableStream(sys.stdout)), redirect_stderr(PrintableStream(sys.stderr)):
        code = _run()
    if code:
        sys.exit(code)


def _run() -> int:
    """Run the command that was typed, and return its exit code."""
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
        if error.filename is None:  # not about a file: a bug, whose traceback must be seen
            raise
        click.echo(f"edge: {error.filename} cannot be used: {error.strerror}", err=True)
        return 1
    return 0
