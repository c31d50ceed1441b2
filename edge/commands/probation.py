"""Hidden commands that systemd/edge-upgrade runs before and after the switch to another release."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import NamedTuple

import click

from edge import clock
from edge.commands.context import Setup, open_file
from edge.database.downgrade import downgrade
from edge.errors import SetupError
from edge.operations.files import hold, replace_text
from edge.operations.own_address import local_address
from edge.operations.upgrade import probation_sources
from edge.operations.upgrade.probation import LOOK_SECONDS, Probation, Sample, Tally
from edge.readers.ledger import hour_of


@click.command("note-reads", hidden=True)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--at-switch", "is_stopped", is_flag=True, help="The service has stopped; later reads are of the next one."
)
@click.pass_obj
def note_reads(setup: Setup, file: Path, is_stopped: bool) -> None:
    """Add to FILE how many reads each reader has sent so far, and whether the service is ready."""
    open_file(setup)
    before = _read(file) or _Noted(hour_of(clock.now()) - 1, False, [], {})
    readers = probation_sources.tallies(before.since_hour)
    if is_stopped:
        noted = before._replace(at_switch=readers)
    else:
        is_ready = probation_sources.answer(f"{local_address(setup.config.http_listen)}/readyz") is not None
        samples = [*before.samples[:1], Sample(time.monotonic(), readers)]
        noted = _Noted(before.since_hour, is_ready, samples, readers)
    replace_text(file, json.dumps(noted._asdict()))


@click.command("watch-upgrade", hidden=True)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--seconds", type=float, default=600.0, help="Seconds in which the service runs.")
@click.pass_obj
def watch_upgrade(setup: Setup, file: Path, seconds: float) -> None:
    """Watch the release that runs; fail with the reason as soon as it does worse than the one that FILE describes."""
    open_file(setup)
    before = _read(file) or _Noted(hour_of(clock.now()), False, [], {})
    probation = Probation(before.samples, before.at_switch, before.was_ready)
    base = local_address(setup.config.http_listen)
    while probation.watched_seconds < seconds:
        fault = probation.fault(probation_sources.observe(base, before.since_hour))
        if fault:
            raise SetupError(fault)
        time.sleep(min(LOOK_SECONDS, max(0.0, seconds - probation.watched_seconds)))


@click.command("downgrade-database", hidden=True)
@click.argument("schema", type=int)
@click.pass_obj
def downgrade_database(setup: Setup, schema: int) -> None:
    """Change the database to that of an earlier release. Data that only newer releases have is dropped."""
    with hold(setup.config.data_dir):
        done = downgrade(setup.config.data_dir, schema)
    rows = ", ".join(f"{name} ({count} rows)" for name, count in sorted(done.dropped.items()) if count)
    changed = f"Changed the database from schema {done.schema_before} to {schema}; left out: {rows or 'nothing'}"
    click.echo(". ".join([changed, *done.warnings]))  # one line, which edge-upgrade repeats


class _Noted(NamedTuple):
    since_hour: int
    was_ready: bool
    samples: list[Sample]
    at_switch: dict[str, Tally]


def _read(file: Path) -> _Noted | None:
    try:
        saved = json.loads(file.read_text("utf-8"))
        samples = [Sample(at, _tallies(readers)) for at, readers in saved["samples"]]
        return _Noted(saved["since_hour"], saved["was_ready"], samples, _tallies(saved["at_switch"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tallies(saved: dict[str, list[int]]) -> dict[str, Tally]:
    return {name: Tally(*counts) for name, counts in saved.items()}
