"""`edge serve`: run the service."""

from __future__ import annotations

import click

from edge.commands.context import Setup, require_database
from edge.runtime import serve as runtime


@click.command()
@click.pass_obj
def serve(setup: Setup) -> None:
    """Run the service until it is stopped."""
    require_database(setup)
    runtime.serve(setup.config)
