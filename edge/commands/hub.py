"""`edge hub`: where a hub keeps the history of its sites."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from edge.commands.context import Setup, open_file, shell
from edge.database import migrate
from edge.errors import HistoryUnavailable, SetupError
from edge.operations.files import hold
from edge.sync.store import remote_batches
from edge.tracking import history_engine


@click.group()
def hub() -> None:
    """Keep the history of all sites in PostgreSQL."""


@hub.command("move-history")
@click.option("--to", "url", help="URL of an empty database of PostgreSQL.")
@click.option("--back", is_flag=True, help="From PostgreSQL back to this box's own database.")
@click.pass_obj
def move_history(setup: Setup, url: str | None, *, back: bool) -> None:
    """Move the stays of all sites to PostgreSQL, or back.

    Run it while the service runs, then again after stopping the service: the second run copies only what has changed.
    It can be interrupted and repeated.
    """
    if (url is None) == (not back):
        raise click.UsageError("Give either --to URL or --back")
    with _opened(setup, url or setup.config.hub_history), ExitStack() as stack:
        is_stopped = True
        try:
            stack.enter_context(hold(setup.config.data_dir))
        except SetupError:
            is_stopped = False
        if back:
            _bring_back(is_stopped=is_stopped)
        else:
            _move_there(is_stopped=is_stopped)


@hub.command("take-over")
@click.confirmation_option(
    prompt="Only one machine may write. Is the other one off, or is it to be refused from now on?"
)
@click.pass_obj
def take_over(setup: Setup) -> None:
    """Let this machine write to PostgreSQL instead of another one with the same hub, for example after a restore.

    Also while the service runs. The other machine is refused at once. Sites send what is missing with the next
    comparison, and readers of the open feed start again with a copy.
    """
    with _opened(setup, setup.config.hub_history):
        if history_engine.this_hub() is None:
            raise SetupError("This box is no hub")
        history_engine.moving.take_over()
        remote_batches.note_takeover(shell())
    click.echo("This machine writes to PostgreSQL now. Another one with the same hub is refused.")


@contextmanager
def _opened(setup: Setup, url: str) -> Iterator[None]:
    """Open the database, and the history in PostgreSQL. Raises SetupError if that cannot be used."""
    open_file(setup)
    migrate.check_schema(setup.config.data_dir)
    history_engine.use(url, history_engine.this_hub())
    if not history_engine.is_remote():
        raise SetupError("hub.history is empty, so the history is here already")
    try:
        yield
    except HistoryUnavailable as error:
        reason = history_engine.why_away() or error
        raise SetupError(f"PostgreSQL does not answer: {reason}. Correct this, and run the command again") from error
    finally:
        history_engine.close()


def _move_there(*, is_stopped: bool) -> None:
    moving = history_engine.moving
    moving.check_free()
    done = 0
    for done in moving.copy_there():
        click.echo(f"{done} stays are equal in PostgreSQL")
    if not is_stopped:
        click.echo("Now stop the service, and run this command again to complete the move.")
        return
    number = moving.finish_there()
    moving.record_move(shell(), "moved_to_postgresql", number)
    click.echo(f"{number} stays moved and compared. Set hub.history to this URL and start the service.")


def _bring_back(*, is_stopped: bool) -> None:
    if not is_stopped:
        raise SetupError("The service is running; stop it first: systemctl stop edge")
    remote_batches.settle_all()
    number = history_engine.moving.bring_back()
    history_engine.moving.record_move(shell(), "moved_back", number)
    click.echo(f"{number} stays are back and compared. Empty hub.history and start the service.")
