"""`edge reader import`, `edge renew-passwords`: many readers at once, with their passwords in a new file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from edge.audit.actors import Actor
from edge.commands.context import Setup, for_actor, location_id_of
from edge.commands.readers.broker_accounts import write_accounts
from edge.errors import Invalid, NotFound, SetupError
from edge.formats.registry import check_format
from edge.readers import fleet
from edge.validation import csv_text, values

COLUMNS = ("name", "topic", "format", "location", "min_rssi")
MOST = 1_000


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--accounts", type=click.Path(path_type=Path), required=True, help="File to create for users and passwords."
)
@for_actor
@click.pass_obj
def import_readers(setup: Setup, actor: Actor, file: Path, accounts: Path) -> None:
    """Set up all readers of a CSV file, with their accounts, or none of them.

    Its columns are name, topic, format, location (an external key) and min_rssi; the last two may be missing.
    """
    text = csv_text.decode(file.read_bytes())
    lines = csv_text.lines(text, COLUMNS, ("name", "topic", "format"))
    if not 1 <= len(lines) <= MOST:
        raise SetupError(f"{file} has {len(lines)} readers; 1 to {MOST} can be added at once")
    described = [_parse_line(actor.organization_id, line) for line in lines]
    with _new_file(accounts) as descriptor:
        made = fleet.add_readers(actor, described, setup.config.mqtt_broker)
        _write(descriptor, made)
    write_accounts(setup.config)
    click.echo(
        f"Added {len(made)} readers. Users and passwords are in {accounts}; delete the file once they are entered."
    )


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


def _parse_line(organization_id: int, line: csv_text.Line) -> fleet.ReaderLine:
    cells = line.cells
    key, weakest = cells.get("location", ""), cells.get("min_rssi", "")
    if line.fault:
        raise Invalid.one("file", "invalid_value", line.fault)
    try:
        check_format(cells["format"], None)
        location_id = location_id_of(organization_id, key)
        min_rssi = values.signal_strength("min_rssi", weakest)
    except (Invalid, NotFound) as error:
        raise Invalid.one("file", "invalid_value", f"Line {line.number}: {error}") from error
    return fleet.ReaderLine(line.number, cells["name"], cells["topic"], cells["format"], location_id, min_rssi)


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
