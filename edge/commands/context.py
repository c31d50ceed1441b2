"""Helpers of all commands: settings, open site, organization, actor, and records by their typed name or key."""

from __future__ import annotations

import functools
import getpass
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import click

from edge import listeners
from edge.audit import actors
from edge.audit.actors import Actor
from edge.config import live
from edge.config.settings import Config, Value
from edge.database import migrate
from edge.database.connection import FILE_NAME, open_database
from edge.errors import Invalid, NotFound, SetupError
from edge.operations.backup import newest_backup
from edge.operations.doctor.machine import Machine, missing_disk
from edge.outbound import Network
from edge.people import organizations, passwords, people
from edge.people.people import PersonRow
from edge.readers import readers
from edge.readers.readers import ReaderRow
from edge.records import assets, locations
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.record import RecordFilter
from edge.tracking import history_engine

NETWORK = click.option(
    "--network",
    type=click.Choice([network.value for network in Network]),
    default=Network.INTERNET.value,
    show_default=True,
    help="Allowed networks: the internet, also private networks, also this box.",
)


class HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=HasName)
Row = TypeVar("Row")


class Setup(NamedTuple):
    """The settings, as every command receives them."""

    config: Config
    shown: list[Value]
    fault: str = ""  # for the doctor: why these are the default settings


def open_site(setup: Setup) -> None:
    """Open the database without migrating it, because the service may be running.

    Raises SetupError if there is no database or its schema is of another version.
    """
    open_file(setup)
    listeners.connect()
    migrate.check_schema(setup.config.data_dir)
    history_engine.use(setup.config.hub_history, history_engine.this_hub())


def open_file(setup: Setup) -> None:
    """Open the database with any schema, even if damaged. Raises SetupError if there is none."""
    require_database(setup)
    open_database(setup.config.data_dir / FILE_NAME, checkpoints=False)


def require_database(setup: Setup) -> None:
    """Raise SetupError if there is no database, with the disk that is not mounted if there is one."""
    if not (setup.config.data_dir / FILE_NAME).exists():
        require_disk(setup)
        way = "for a new site: edge init --org NAME --email ADMIN"
        if newest := newest_backup(setup.config.backup_folder):
            file = "" if setup.config.backup_continuous_dir else newest.path
            way = f"else: sudo systemctl stop edge; sudo edge restore --yes {file}; sudo systemctl start edge"
        raise SetupError(
            f"There is no database in {setup.config.data_dir}. If it is on another disk, set data_dir; {way}"
        )


def require_disk(setup: Setup) -> None:
    """Raise SetupError if the disk of the data is not mounted, or if the folder of an installed site is missing."""
    folder = setup.config.data_dir
    if disk := missing_disk(folder):
        raise SetupError(f"{disk}, which holds {folder}, is not mounted. Mount it: mount {disk}")
    if Machine().is_site and not folder.exists():
        raise SetupError(f"{folder} does not exist. Mount its disk, or fix data_dir in {Machine().settings}")


def reads(
    name: str, group: click.Group | None = None, **settings: Any
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function that gets the id of an organization, with `--org` and an open site.

    It is added to the group. `settings` are those of `click.command`.
    """

    def make(function: Callable[..., None]) -> click.Command:
        @click.pass_obj
        @functools.wraps(function)
        def with_site(setup: Setup, /, *, org: str | None, **options: Any) -> None:
            open_site(setup)
            function(organizations.find_organization(org).id, **options)

        command = click.command(name, click.Command, **settings)(with_site)
        command.params.append(click.Option(["--org"], help="Organization; optional if there is only one."))
        if group:
            group.add_command(command)
        return command

    return make


def writes(
    name: str, group: click.Group | None = None, **settings: Any
) -> Callable[[Callable[..., None]], click.Command]:
    """Like `reads`, for a function that writes: it gets the Actor."""

    def make(function: Callable[..., None]) -> click.Command:
        @functools.wraps(function)
        def with_actor(organization_id: int, /, **options: Any) -> None:
            function(shell(organization_id), **options)

        return reads(name, group, **settings)(with_actor)

    return make


def current_setup() -> Setup:
    """Return the setup of the command that runs."""
    setup: Setup = click.get_current_context().obj
    return setup


def in_force(setup: Setup) -> Config:
    """Return the settings with live changes. The site must be open."""
    return live.in_force(setup.config)


def shell(organization_id: int = actors.THE_BOX) -> Actor:
    """Return the shell user as Actor: the account that signed in, also behind sudo."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # an id without a name, as in a container
        user = str(os.getuid())
    return actors.shell(organization_id, user)


def ask_password() -> str:
    """Read a password: typed twice, or one line of standard input. Never an argument, which `ps` would show."""
    return ask_secret("Password", is_new=True)


def ask_new_password() -> str:
    """Like `ask_password`, for an account of this box. A terminal asks again for one that is not acceptable."""
    return ask_secret(f"Password (at least {passwords.MIN_LENGTH} characters)", _acceptable, is_new=True)


def ask_secret(prompt: str, accept: Callable[[str], str] = str, *, is_new: bool = False) -> str:
    """Read a secret like `ask_password`; only a new one is typed twice."""
    if sys.stdin.isatty():
        answer: str = click.prompt(prompt, hide_input=True, confirmation_prompt=is_new, value_proc=accept)
        return answer
    return sys.stdin.readline().rstrip("\r\n")


def _acceptable(password: str) -> str:
    try:
        passwords.check(password)
    except Invalid as error:
        raise click.UsageError(str(error)) from error
    return password


def print_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print columns as wide as their widest value. None is an empty cell."""
    cells = [[str(cell) for cell in head], *[["" if cell is None else str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for row in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def asset_of(organization_id: int, key: str) -> AssetRow:
    """Return the asset with this external key. Raises NotFound."""
    return _first(assets.list_page(organization_id, RecordFilter(external_keys=[key]), limit=1).rows, "asset", key)


def location_of(organization_id: int, key: str) -> LocationRow:
    """Return the location with this external key. Raises NotFound."""
    rows = locations.list_page(organization_id, RecordFilter(external_keys=[key]), limit=1).rows
    return _first(rows, "location", key)


def reader_of(organization_id: int, name: str) -> ReaderRow:
    """Return the reader with this name. Raises NotFound."""
    return _first([row for row in readers.list_readers(organization_id) if row.name == name], "reader", name)


def person_of(organization_id: int, email: str) -> PersonRow:
    """Return the person with this email. Raises NotFound."""
    known = people.list_people(organization_id)
    rows = [row for row in known if (row.email or "").lower() == email.strip().lower()]
    return _first(rows, "person with the email", email, "user")


def _first(rows: Sequence[Row], noun: str, name: str, command: str = "") -> Row:
    if not rows:
        raise NotFound(f"There is no {noun} {name}. `edge {command or noun} list` shows them.")
    return rows[0]


def location_id_of(organization_id: int, key: str | None) -> int | None:
    """Return the id of the location with this external key, None for no key. Raises NotFound."""
    return location_of(organization_id, key).id if key else None


def key_of(organization_id: int, location_id: int | None) -> str:
    return locations.get(organization_id, location_id).external_key if location_id else ""


def quoted(name: str) -> str:
    """Return a name as it is typed in a shell."""
    return f"'{name}'" if " " in name else name


def named(rows: Iterable[Named], name: str, noun: str, command: str) -> Named:
    """Return the row with this name; case does not count unless two differ in it. Raises NotFound."""
    same = [row for row in rows if row.name.casefold() == name.casefold()]
    if not same:
        raise NotFound(f"There is no {noun} {name}. List all: edge {command} list")
    return next((row for row in same if row.name == name), same[0])
