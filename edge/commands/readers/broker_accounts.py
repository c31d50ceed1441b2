"""`edge account`, `edge accounts`: broker accounts of readers."""

from __future__ import annotations

from urllib.parse import urlsplit

import click

from edge.audit.actors import Actor
from edge.commands.context import Setup, open_site, reader_of, writes
from edge.config.settings import Config, read_secret
from edge.errors import Conflict, SetupError
from edge.ingest import broker_probe
from edge.ingest.sessions import Broker
from edge.readers import broker_accounts, broker_files
from edge.validation.topics import DOCTOR_TOPIC, has_wildcard


@writes("account")
@click.argument("reader")
@click.pass_obj
def account(setup: Setup, actor: Actor, reader: str) -> None:
    """Make the account of a reader at the broker, or give it a new password; shown once."""
    make_account(setup.config, actor, reader_of(actor.organization_id, reader).id)


@click.command("accounts")
@click.option("--end", "ends", is_flag=True, help="Without mqtt.accounts_dir: read all topics with one session again.")
@click.pass_obj
def list_accounts(setup: Setup, ends: bool) -> None:
    """List the readers' accounts at the broker, and rewrite its files."""
    open_site(setup)
    if ends:
        if setup.config.mqtt_accounts_dir:
            raise Conflict("mqtt.accounts_dir is set. Remove it, and acl_file from mosquitto; then run this again.")
        broker_accounts.end_sessions()
        click.echo("Takes effect after: sudo systemctl restart edge")
        return
    write_accounts(setup.config)
    for row in broker_accounts.list_accounts():
        click.echo(f"{row.name}  publishes under {row.topic}")


@click.command("broker-session", hidden=True)
@click.argument("socket")
@click.option("--clear", "clears", is_flag=True, help="Delete retained messages and sessions of readers instead.")
@click.pass_obj
def leave_session(setup: Setup, socket: str, clears: bool) -> None:
    """Create edge's sessions at a broker that lost them. Reads published before that would be lost."""
    config = setup.config
    if clears:
        name = broker_files.doctor_name(broker_files.own_account(config.mqtt_broker, "").name)
        count = broker_probe.clear_retained(name, socket, [DOCTOR_TOPIC])
        click.echo(f"deleted {count} retained messages")
        accounts = config.mqtt_accounts_dir / "accounts" if config.mqtt_accounts_dir else None
        if accounts and accounts.exists():
            broker_probe.clear_sessions(accounts.read_text("utf-8").split(), socket)
        return
    broker = Broker(config.mqtt_broker, config.mqtt_client_id)
    count = broker_accounts.SESSIONS if config.mqtt_accounts_dir else 1
    broker_probe.leave_sessions(broker, config.mqtt_topics, socket, count)


def make_account(config: Config, actor: Actor, reader_id: int) -> None:
    """Create an account and print user and password; the password is not shown again."""
    made, password = broker_files.issue_account(actor, reader_id, config.mqtt_broker)
    print_account(config, made.name, password)
    click.echo(f"may publish to {made.topic} only; use it for one reader, a second one disconnects the first")
    if has_wildcard(made.topic):
        click.echo(
            "a topic with + or # can fill the broker's memory with retained messages: use a topic without them if"
        )
        click.echo('the reader sends to one topic, and turn off "retain" in the reader')


def print_account(config: Config, name: str, password: str) -> None:
    """Let the broker know a new account, and print it."""
    write_accounts(config)
    click.echo(f"user      {name}\npassword  {password}\nport      {_ports(config)}")


def _ports(config: Config) -> str:
    plain = str(urlsplit(config.mqtt_broker).port or 1883)
    if not config.mqtt_tls_port:
        return plain
    return f"{config.mqtt_tls_port} with TLS, if supported (install the authority from /certificate); {plain} without"


def write_accounts(config: Config) -> None:
    if not (config.mqtt_accounts_dir and config.mqtt_password_file):
        raise SetupError("Accounts require mqtt.accounts_dir and mqtt.password_file. Set both.")
    password = read_secret(config.mqtt_password_file, "mqtt.password_file")
    broker_files.write_files(config.mqtt_accounts_dir, broker_files.own_account(config.mqtt_broker, password))
