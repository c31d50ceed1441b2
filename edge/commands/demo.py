"""`edge demo`: a complete site with simulated readers."""

from __future__ import annotations

from pathlib import Path

import click

from edge.commands.context import Setup
from edge.demo import publishing
from edge.demo.guide import guide
from edge.demo.run import running_demo
from edge.errors import SetupError
from edge.runtime.stop_signal import stop_on_signal

PORT = click.IntRange(1, 65535)


@click.group(invoke_without_command=True)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the site in DIR, or continue an existing one.",
)
@click.option("--http-port", type=PORT, help="Port of pages and API. Default: 8080 or a free one.")
@click.option("--mqtt-port", type=PORT, help="Port of the broker. Default: 1883 or a free one.")
@click.pass_context
def demo(context: click.Context, keep: Path | None, http_port: int | None, mqtt_port: int | None) -> None:
    """Run a made-up warehouse with simulated readers; everything else is real. Settings are ignored."""
    if context.invoked_subcommand is None:
        _run(context.obj, keep, http_port, mqtt_port)


def _run(setup: Setup, keep: Path | None, http_port: int | None, mqtt_port: int | None) -> None:
    for value in setup.shown:
        if value.source == "flag":
            raise SetupError(f"The demo uses its own settings: remove --set {value.name}. See edge demo --help.")
    stop = stop_on_signal()
    with running_demo(keep, http_port, mqtt_port) as running:
        click.echo(guide(running))
        stop.wait()
        click.echo("Stopping")


@demo.command()
@click.argument("topic")
@click.argument("message")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the broker.")
@click.option("--port", type=PORT, default=1883, show_default=True, help="Port of the broker.")
def publish(topic: str, message: str, host: str, port: int) -> None:
    """Publish a message as a reader would, to a broker without passwords."""
    publishing.publish(host, port, topic, message)
    click.echo(f"Published to {topic}")
