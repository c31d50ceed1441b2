"""The `edge` command: parse, call one function, print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import click

from edge import __version__, clock, config, runtime
from edge.auth.passwords import hash_password
from edge.config import read_secret
from edge.errors import EdgeError, SetupError
from edge.ops import accounts
from edge.ops import backup as backups
from edge.ops.lock import hold
from edge.store import broker_accounts, migrate, organizations, people, readers
from edge.store.copies import CopyFacts
from edge.store.database import FILE_NAME


class Setup(NamedTuple):
    """The settings in force, as every command gets them."""

    config: config.Config
    shown: list[config.Value]


@click.group()
@click.option("--config", "file", type=click.Path(path_type=Path), envvar="EDGE_CONFIG", help="Settings file (TOML).")
@click.option("--set", "flags", multiple=True, metavar="NAME=VALUE", help="Set one setting; may be repeated.")
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context, file: Path | None, flags: tuple[str, ...]) -> None:
    """Asset and location tracking for a warehouse."""
    context.obj = Setup(*config.from_process(file, flags))


@cli.command("config")
@click.pass_obj
def show_config(setup: Setup) -> None:
    """Print every setting with its value, where it came from, and what it is for."""
    for value in setup.shown:
        click.echo(f"{value.name} = {value.value}\n    {value.help} [{value.source}]")


@cli.command()
@click.option("--org", required=True, help="Name of the organization.")
@click.option("--email", required=True, help="Email address its first administrator signs in with.")
@click.pass_obj
def init(setup: Setup, org: str, email: str) -> None:
    """Create the database, an organization and its first administrator.

    The password is asked for twice, or read as one line from standard input.
    """
    setup.config.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    migrate.migrate(setup.config.data_dir)
    existing = organizations.list_organizations()
    if existing:
        names = ", ".join(row.name for row in existing)
        click.echo(f"{setup.config.data_dir / FILE_NAME} exists, with: {names}. Nothing was changed.")
        return
    password_hash = hash_password(_ask_password())
    organization = organizations.add_organization(org)
    people.add_person(
        organization.id, email.partition("@")[0], people.Role.ADMINISTRATOR, email=email, password_hash=password_hash
    )
    click.echo(f"Created {org} with its administrator {email}. Start the service: edge serve")


@cli.command()
@click.pass_obj
def serve(setup: Setup) -> None:
    """Run the service until it is told to stop."""
    open_site(setup)
    runtime.serve(setup.config)


def _ask_password() -> str:
    if sys.stdin.isatty():
        answer: str = click.prompt("Password (at least 12 characters)", hide_input=True, confirmation_prompt=True)
        return answer
    return sys.stdin.readline().rstrip("\r\n")


@cli.command()
@click.pass_obj
def backup(setup: Setup) -> None:
    """Back up the database, while the service runs, and drop backups that are no longer kept."""
    open_site(setup)
    config = setup.config
    kept = backups.Kept(config.backup_daily, config.backup_weekly)
    made = backups.make_backup(config.data_dir, _backup_dir(config), kept, config.backup_second_dir)
    click.echo(f"Wrote {made.backup.path} ({made.backup.size >> 10} KB): {_told(made.facts)}. It was read back whole.")
    for path in made.removed:
        click.echo(f"Removed {path.name}")
    if made.second_fault:
        raise SetupError(f"The second copy failed: {made.second_fault}")


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def restore(setup: Setup, file: Path, yes: bool) -> None:
    """Make a backup the database of this box. Stop the service first; the present database is kept aside."""
    if not yes:
        click.confirm(f"Replace the database in {setup.config.data_dir} by {file}?", abort=True)
    with hold(setup.config.data_dir):
        restored = backups.restore_backup(file, setup.config.data_dir)
    click.echo(f"Restored {file.name}: {_told(restored.facts)}.")
    if restored.kept_aside:
        click.echo(f"The database before that is {restored.kept_aside}; remove it when all is well.")


@cli.command()
@click.argument("reader")
@click.option("--org", help="Name of the organization, when there are several.")
@click.pass_obj
def account(setup: Setup, reader: str, org: str | None) -> None:
    """Make the account of a reader at the broker, or give it a new password; shown once."""
    open_site(setup)
    organization = organizations.find_organization(org)
    found = [row for row in readers.list_readers(organization.id) if row.name == reader]
    if not found:
        raise SetupError(f"There is no reader called {reader}.")
    password = accounts.new_password()
    made = broker_accounts.set_account(organization.id, found[0].id, accounts.new_hash(password))
    _write_accounts(setup.config)
    click.echo(f"user      {made.name}\npassword  {password}\nmay publish under {made.topic} only")


@cli.command("accounts")
@click.pass_obj
def list_accounts(setup: Setup) -> None:
    """List the readers' accounts at the broker, and write its files anew."""
    open_site(setup)
    _write_accounts(setup.config)
    for row in broker_accounts.list_accounts():
        click.echo(f"{row.name}  publishes under {row.topic}")


def _write_accounts(config: config.Config) -> None:
    if not (config.mqtt_accounts_dir and config.mqtt_password_file):
        raise SetupError("Accounts are written to mqtt.accounts_dir, beside that of mqtt.password_file. Set both.")
    password = read_secret(config.mqtt_password_file, "mqtt.password_file")
    accounts.write_files(config.mqtt_accounts_dir, accounts.own_account(config.mqtt_broker, password))


def _backup_dir(config: config.Config) -> Path:
    return config.backup_dir or config.data_dir / "backups"


def _told(facts: CopyFacts) -> str:
    newest = clock.rfc3339(facts.newest_scan_at) if facts.newest_scan_at is not None else "none"
    return f"{facts.organizations} organizations, {facts.assets} assets, newest scan {newest}"


def open_site(setup: Setup) -> None:
    """For commands that work on a site that exists. Raises SetupError when there is none."""
    if not (setup.config.data_dir / FILE_NAME).exists():
        raise SetupError(
            f"There is no database in {setup.config.data_dir}. Create one: edge init --org NAME --email ADMIN"
        )
    migrate.migrate(setup.config.data_dir)


def main() -> None:
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except EdgeError as error:
        click.echo(f"edge: {error}", err=True)
        sys.exit(1)
