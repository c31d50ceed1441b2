"""`edge reader import`, `edge renew-passwords`: many readers at once, with their passwords in a new file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path

import click

from edge.audit.actors import Actor
from edge.bulk.import_columns import COLUMNS
from edge.bulk.import_rows import Reading, records_of
from edge.commands.context import Setup, writes
from edge.commands.readers.broker_accounts import write_accounts
from edge.errors import SetupError
from edge.readers import fleet
from edge.validation import csv_text
from edge.validation.encodings import ENCODINGS
from edge.validation.table_files import Layout, Table, read
from edge.validation.tables import names_of

MOST = 1_000
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}


@writes("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--accounts", type=click.Path(path_type=Path), required=True, help="File to create for users and passwords."
)
@click.option("--encoding", type=click.Choice(list(ENCODINGS)), help="Encoding. Default: recognized.")
@click.option("--separator", type=click.Choice(list(SEPARATORS)), help="Separator. Default: recognized.")
@click.option("--heading", type=int, default=0, metavar="LINE", help="Line of the heading. Default: recognized.")
@click.pass_obj
def import_readers(
    setup: Setup, actor: Actor, file: Path, accounts: Path, encoding: str | None, separator: str | None, heading: int
) -> None:
    """Set up all readers of a CSV or Excel file, or none of them. New ones get accounts.

    Its columns are those of the export of readers; only the name is required, for new readers also topic and format.
    An empty cell changes nothing.
    """
    layout = Layout(encoding or "", SEPARATORS.get(separator or "", ""), heading)
    table = read(file.read_bytes(), layout, COLUMNS["reader"])
    if not table.is_certain:
        raise SetupError(f"The encoding of {file} is uncertain. Choose it by its letters:{_choices(table)}")
    names = names_of(table.heading, COLUMNS["reader"], ("name",))
    if not 1 <= len(table.rows) <= MOST:
        raise SetupError(f"{file} has {len(table.rows)} rows; 1 to {MOST} can be imported at once")
    records = records_of(Reading("reader", names, False, UTC), table.rows, lambda _: None)
    with _new_file(accounts) as descriptor:
        done = fleet.import_readers(actor, records, setup.config.mqtt_broker)
        _write(descriptor, done.made)
    write_accounts(setup.config)
    changed = f" and changed {done.changed}" if done.changed else ""
    advice = f"Users and passwords are in {accounts}; delete the file once they are entered."
    click.echo(f"Added {len(done.made)} readers{changed}. {advice}")


@writes("renew-passwords")
@click.option(
    "--accounts", type=click.Path(path_type=Path), required=True, help="File to create for users and passwords."
)
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not prompt.")
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


def _choices(table: Table) -> str:
    return "".join(f"\n  --encoding {name:<10} {words}" for name, words in table.samples.items())


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
