"""`edge export` and `edge import`: a site's records in a file that later releases can read."""

from __future__ import annotations

from pathlib import Path

import click

from edge.commands.context import Setup, open_site, shell
from edge.operations import portable_file, portable_records
from edge.operations.files import hold


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "number",
    type=click.IntRange(1, portable_records.FORMAT),
    default=portable_records.FORMAT,
    show_default=True,
    help="An earlier format, for an earlier release. 2 lacks outputs and musters, 1 also doors and rules.",
)
@click.pass_obj
def export_site(setup: Setup, file: Path, number: int) -> None:
    """Write the records of the site and all history to FILE, a zip of JSON lines, while the service runs.

    These are assets, locations, tags, readers, people, doors, rules and expected lists. Passwords, PINs, badges, API
    keys, the readers' accounts and the secrets of channels are left out.
    """
    open_site(setup)
    made = portable_file.write_export(file, number)
    click.echo(f"Wrote {file} ({made.size >> 10} KB): {_count_text(made.rows)}")


@click.command("import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not prompt.")
@click.pass_obj
def import_site(setup: Setup, file: Path, is_confirmed: bool) -> None:
    """Replace the database of this box with an export of any release. Stop the service first.

    The present database is kept. If the import fails, nothing is changed.
    """
    data_dir = setup.config.data_dir
    if not is_confirmed:
        click.confirm(f"Replace the database in {data_dir} with {file}?", abort=True)
    with hold(data_dir):
        done = portable_file.import_file(shell(), file, data_dir)
    click.echo(f"Imported {file}: {done.summary.organizations} organizations, {done.summary.assets} assets.")
    click.echo(
        "Exports contain no passwords. Add an administrator: edge user add --role administrator --email NEW@ADDRESS"
    )
    click.echo("Create reader accounts: edge account NAME. Create API keys: page API Keys")
    click.echo("Channels with a password, token or webhook address are disabled: enter it again on the page Channels")
    if done.previous_database:
        click.echo(f"The previous database is {done.previous_database}; delete it once everything works.")


def _count_text(rows: dict[str, int]) -> str:
    shown = {"asset": "assets", "location": "locations", "tag": "tags", "reader": "readers", "person": "people"}
    counted = [f"{rows[table]} {name}" for table, name in shown.items()]
    return ", ".join([*counted, f"{rows['history']} rows of history"])
