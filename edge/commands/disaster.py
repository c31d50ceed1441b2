"""Hidden commands that pack and unpack a disaster file. systemd/edge-disaster and the installer run them as root."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from edge.commands.context import Setup
from edge.errors import SetupError
from edge.operations import disaster


@click.command("disaster-pack", hidden=True)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--settings", type=click.Path(path_type=Path), required=True, help="Folder /etc/edge.")
@click.option("--recipient", default="", help="Public key for encryption. Default: the one in the settings.")
@click.option("--hostname", default="", help="Host name of this box.")
@click.option("--network-name", default="", help="Name announced by avahi, without .local.")
@click.option("--address", "addresses", multiple=True, help="An address of this box.")
@click.pass_obj
def pack(
    setup: Setup,
    file: Path,
    settings: Path,
    recipient: str,
    hostname: str,
    network_name: str,
    addresses: tuple[str, ...],
) -> None:
    """Write FILE from the settings folder and a tar of keys and backup on standard input."""
    key = recipient or setup.config.backup_second_recipient
    if not key:
        raise SetupError(
            "A public key is required. Create a key pair with edge backup-key, store the private key away "
            "from this box, and pass the public key: --recipient age1..., or backup.second_recipient in the settings"
        )
    of_box = disaster.Names(hostname, network_name, addresses)
    names = disaster.pack(settings, sys.stdin.buffer, file, key, of_box)
    click.echo(f"Wrote {file} ({file.stat().st_size >> 10} KB): {', '.join(name.partition('/')[2] for name in names)}")


@click.command("disaster-unpack", hidden=True)
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--identity", type=click.Path(path_type=Path), required=True, help="File with the private key.")
def unpack(file: Path, folder: Path, identity: Path) -> None:
    """Take FILE apart into an empty FOLDER."""
    click.echo("\n".join(disaster.unpack(file, identity, folder)))
