"""`edge backup`, `edge restore`, `edge repair` and related commands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click

from edge import clock
from edge.commands.context import Setup, open_file, open_site, require_database, shell
from edge.config.settings import Config
from edge.errors import SetupError
from edge.operations import backup as backups
from edge.operations import counted_time, encryption
from edge.operations import restore_drill as drill
from edge.operations.files import hold
from edge.operations.snapshots import CopySummary
from edge.tracking import report


@click.command()
@click.pass_obj
def backup(setup: Setup) -> None:
    """Back up the database, while the service runs, and remove the backups that are too old to be kept."""
    open_file(setup)  # accepts an older schema: an upgrade begins with a backup
    config = setup.config
    kept = backups.Rotation(config.backup_keep_daily, config.backup_keep_weekly)
    second = None
    if config.backup_second_dir:
        second = backups.SecondFolder(config.backup_second_dir, config.backup_second_recipient)
    made = backups.make_backup(config.data_dir, config.backup_folder, kept, second)
    click.echo(
        f"Wrote {made.backup.path} ({made.backup.size >> 10} KB): {_summary(made.summary)}. Read back and verified."
    )
    for path in made.removed:
        click.echo(f"Removed {path.name}")
    if made.second_fault:
        raise SetupError(f"The second copy failed: {made.second_fault}")


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--at", metavar="TIME", help="State at this time, from the continuous backup: 2026-03-02T08:15")
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not prompt.")
@click.option("--identity", type=click.Path(path_type=Path), help="File with the private key of an encrypted backup.")
@click.pass_obj
def restore(setup: Setup, file: Path | None, at: str | None, is_confirmed: bool, identity: Path | None) -> None:
    """Replace the database of this box by a backup. Stop the service first; the present database is set aside.

    Without FILE it is the newest point of the continuous backup or, where there is none, the newest backup.
    """
    config, folder = setup.config, setup.config.backup_continuous_dir
    if at is not None and (file is not None or folder is None):
        raise click.UsageError("--at uses the continuous backup: omit FILE and set backup.continuous_dir")
    moment = _parse_time(at, config.pages_time_zone) if at is not None else None
    if file is None and folder is None:
        file = _newest_backup(config)
    source = str(file) if file else f"the continuous backup in {folder}, {f'of {at}' if at else 'as it last was'}"
    if not is_confirmed:
        click.confirm(f"Replace the database in {config.data_dir} with {source}?", abort=True)
    with hold(config.data_dir):
        if file:
            restored = backups.restore_backup(shell(), file, config.data_dir, identity)
        elif folder:
            restored = backups.restore_continuous(shell(), folder, config.data_dir, moment)
    click.echo(f"Restored {source}: {_summary(restored.summary)}.")
    click.echo("People, keys and devices are as of the backup: repeat any revocation made since.")
    if restored.summary.is_site:
        click.echo("The hub may have newer data than this backup. To fetch it: edge sync recover")
    if restored.previous_database:
        click.echo(f"The previous database is {restored.previous_database}; delete it once everything works.")


@click.command("trust-clock")
@click.pass_obj
def trust_clock(setup: Setup) -> None:
    """Confirm this box's clock: it is correct, and far ahead of the recorded times, or was ahead and is behind them.

    Reads then have their time of receipt again.
    """
    open_site(setup)
    now, newest = clock.now(), report.newest_scan()
    counted_time.confirm(setup.config.data_dir, newest)
    click.echo(f"It is {clock.rfc3339(now)}. The clock is now trusted.")
    if newest > now:
        click.echo(
            f"Scans up to {clock.rfc3339(newest)} were recorded by a clock that was ahead, and stay as they are."
        )


@click.command("restore-drill")
@click.pass_obj
def restore_drill(setup: Setup) -> None:
    """Restore the newest backups aside, and compare them with the live database; a timer does it every month."""
    open_site(setup)
    config = setup.config
    report = drill.run(config.data_dir, config.backup_folder, config.backup_continuous_dir)
    if not report.is_ok:
        raise SetupError(f"The restore drill failed: {report.text}")
    click.echo(f"Test restore compared: {report.text}")


@click.command()
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not prompt.")
@click.pass_obj
def repair(setup: Setup, is_confirmed: bool) -> None:
    """Repair a damaged database, filling gaps from the newest backup. Stop the service first.

    The damaged database is kept.
    """
    require_database(setup)
    config = setup.config
    if not is_confirmed:
        click.confirm(f"Replace the database in {config.data_dir} with its recoverable data?", abort=True)
    folders = [folder for folder in (config.backup_folder, config.backup_second_dir) if folder]
    with hold(config.data_dir):
        repaired = backups.repair_database(shell(), config.data_dir, folders, config.backup_continuous_dir)
    click.echo(f"Recovered {_summary(repaired.summary)}.")
    for line in _origins(repaired):
        click.echo(line)
    click.echo(f"The damaged database is {repaired.previous_database}; delete it once everything works.")


def _origins(repaired: backups.Repaired) -> Iterator[str]:
    """Yield lines that describe the origin of the recovered rows, and the losses."""
    recovered, origin = repaired.recovered, repaired.backup
    kept = sum(recovered.rows.values()) - sum(recovered.from_backup.values()) - sum(recovered.from_search.values())
    yield f"{kept} rows recovered from the damaged database"
    yield from (f"Not usable: {reason}" for reason in repaired.unusable)
    if origin is None:
        yield "No backup was available for damaged pages"
    for table, count in recovered.from_backup.items():
        yield f"{count} rows of {table} recovered from {origin}"
    for table, count in recovered.from_search.items():
        yield f"{count} rows of {table} recovered from the search index without letter case: check names and keys"
    for table, count in recovered.unreadable.items():
        since = f", newer than {origin}," if origin else ""
        yield f"{count} damaged pages contained rows of {table}; their rows{since} are lost"
    for table, count in recovered.rejected.items():
        yield f"Lost {count} rows of {table}: they conflict with other rows or their parent rows are lost"
    if recovered.has_new_secrets:
        yield "The id secret of this site was lost and a new one was created. A hub treats this box as a new one"


def _newest_backup(config: Config) -> Path:
    newest = backups.newest_backup(config.backup_folder)
    if newest is None:
        raise SetupError(f"There is no backup in {config.backup_folder}. Pass a backup file.")
    return newest.path


def _parse_time(text: str, time_zone: str) -> int:
    """Parse a time; one without an offset is in the site's time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.UsageError(f"--at {text} is not a time; use a format like 2026-03-02T08:15") from error
    return clock.to_micros(moment if moment.tzinfo else moment.replace(tzinfo=clock.zone(time_zone)))


@click.command("backup-key")
def backup_key() -> None:
    """Make a pair of keys for encrypted copies of the backups. Neither of them is kept on this box."""
    private, public = encryption.new_key()
    click.echo(f"{private}\n    Keep this key away from the box; without it the copies cannot be read.")
    click.echo(f'second_recipient = "{public}"\n    Add this to the settings under [backup].')


def _summary(summary: CopySummary) -> str:
    newest = clock.rfc3339(summary.newest_scan_at) if summary.newest_scan_at is not None else "none"
    return f"{summary.organizations} organizations, {summary.assets} assets, newest scan {newest}"
