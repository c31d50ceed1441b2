"""`edge init`: the database, an organization and its first administrator."""

from __future__ import annotations

import click

from edge.commands.context import Setup, ask_new_password, require_disk, shell
from edge.database import migrate
from edge.database.connection import FILE_NAME, all_or_none
from edge.operations.doctor.machine import Machine
from edge.operations.files import hold
from edge.operations.own_address import own_address
from edge.people import organizations, people
from edge.people.passwords import hash_password
from edge.sync.store import sites
from edge.validation import values


@click.command()
@click.option("--org", required=True, help="Name of the organization.")
@click.option("--email", required=True, help="Email address of its first administrator.")
@click.option("--hub", "is_hub", is_flag=True, help="Make this box a hub for other boxes (sites).")
@click.pass_obj
def init(setup: Setup, org: str, email: str, is_hub: bool) -> None:
    """Create the database, an organization and its first administrator.

    The password is asked for twice, or read as one line from standard input.
    """
    require_disk(setup)
    setup.config.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with hold(setup.config.data_dir):
        migrate.migrate(setup.config.data_dir)
    existing = organizations.list_organizations()
    if existing:
        names = ", ".join(row.name for row in existing)
        click.echo(f"{setup.config.data_dir / FILE_NAME} exists, with: {names}. Nothing was changed.")
        return
    password_hash = hash_password(ask_new_password())
    all_or_none([lambda: _add_administrator(values.name("name", org), email, password_hash)])
    start = "" if Machine().is_site else " Start the service: edge serve"  # systemd starts it on an installed box
    click.echo(f"Created {org} with its administrator {email}.{start}")
    if is_hub:
        sites.make_hub(shell())
        click.echo("This box is a hub. For each site: edge sync add-site CODE NAME --url https://ADDRESS-OF-THIS-BOX")
    address = setup.config.http_public_url or own_address(setup.config.http_listen, Machine())
    if setup.config.http_public_url:
        click.echo(f"Pages and labels: {address}")
    elif address:
        click.echo(f'Before printing labels, set their address, for example: http.public_url = "{address}"')


def _add_administrator(org: str, email: str, password_hash: str) -> None:
    organization = organizations.add_organization(shell(), org)
    name, role = email.partition("@")[0], people.Role.ADMINISTRATOR
    people.add_person(shell(organization.id), name, role, email=email, password_hash=password_hash)
