"""`edge reader import`, `edge renew-passwords`: many readers at once, with their passwords in a new file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from edge.audit.actors import Actor
from edge.commands.context import Setup, for_actor
from edge.commands.readers.broker_accounts import write_accounts
from edge.errors import SetupError
from edge.readers import fleet
from edge.readers.reader_rows import records_of
from edge.readers.reader_table import COLUMNS
from edge.validation import csv_text

MOST = 1_000


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--accounts", type=click.Path(path_type=Path), required=True, help="File to create for users and passwords."
)
@for_actor
@click.pass_obj
def import_readers(setup: Setup, actor: Actor, file: Path, accounts: Path) -> None:
    """Set up all readers of a CSV file, or none of them. New ones get accounts.

    Its columns are those of the export of readers; only the name is required, for new readers also topic and format.
    An empty cell changes nothing.
    """
    text = csv_text.decode(file.read_bytes())
    lines = csv_text.lines(text, COLUMNS, ("name",))
    if not 1 <= len(lines) <= MOST:
        raise SetupError(f"{file} has {len(lines)} rows; 1 to {MOST} can be imported at once")
    records = records_of(lines, is_exact=False)
    with _new_file(accounts) as descriptor:
        done = fleet.import_readers(actor, records, setup.config.mqtt_broker)
        _write(descriptor, done.made)
    write_accounts(setup.config)
    changed = f" and changed {done.changed}" if done.changed else ""
    advice = f"Users and passwords are in {accounts}; delete the file once they are entered."
    click.echo(f"Added {len(done.made)} readers{changed}. {advice}")


@click.command("renew-passwords")
@click.option(
    "--accounts", type=click.Path(path_type=Path), required=True, help="File to create for users and passwords."
)
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not prompt.")
@for_actor
@click.pass_obj
def renew_passwords(setup: Setup, actor: Actor, accounts: Path, is_confirmed: bool) -> None:
    """Give every reader's account a new password. Readers stay connected until they sign in again."""
    if not is_confirmed:
        click.confirm("Every reader needs its new password. Continue?", abort=True)
    with _new_file(accounts) as descriptor:
        made = fleet.renew_passwords(actor, setup.config.mqtt_broker)
        _write(descriptor, made)
    write_accounts(setup.config)
    click.echo(f"{len(made)} accounts have new passwords in {accounts}; delete the file once they are entered.")


@contextmanager
def _new_file(path: Path) -> Iterator[int]:
    """Create a file that only this user can read. It is removed again if the block fails."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise SetupError(f"{path} cannot be created: {error}. Nothing was changed.") from error
    try:
        yield descriptor
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, made: Sequence[fleet.Credentials]) -> None:
    text = "".join(csv_text.write_rows(fleet.Credentials._fields, made))
    os.write(descriptor, text.encode())
    os.fsync(descriptor)
