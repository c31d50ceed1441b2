"""`edge upstream`: keep records equal in another service with the v1 API."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from edge import clock
from edge.audit.actors import Actor
from edge.commands.context import NETWORK, ask_secret, current_setup, print_table, reads, writes
from edge.errors import NotFound, SetupError
from edge.events.checked_connection import trust
from edge.operations.files import replace_text
from edge.outbound import Network
from edge.people import secrets
from edge.readers.broker_state import MOSQUITTO
from edge.upstream import bridges, counterparts, decisions, local_records, upstreams
from edge.upstream.client import SCOPES, Access, Client, check_authority, check_url, of_upstream
from edge.upstream.counterparts import Counterpart, TroubleKind
from edge.upstream.upstreams import NewUpstream, Upstream

MOST_SHOWN = 100
CERTIFICATES = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def upstream() -> None:
    """Keep assets, locations and tags equal in another service with the v1 API."""


@writes("add-v1", upstream)
@click.argument("url")
@click.option("--client-id", required=True, help="Client id of an API key of the service.")
@click.option("--ca", "authority", type=CERTIFICATES, help="Trust only this certificate authority (PEM).")
@click.option("--unchecked", is_flag=True, help="Add it although it cannot be reached now.")
@NETWORK
def add_v1(actor: Actor, url: str, client_id: str, network: str, authority: Path | None, *, unchecked: bool) -> None:
    """Copy all records of this box to the service at URL, and keep them equal. Prompts for the client secret.

    The box has the truth: its changes are written there. Nothing that others have changed there is overwritten; it is
    listed by `edge upstream show`.
    """
    pem = check_authority(_text(authority)) if authority else ""
    access = Access(check_url(url), Network(network), client_id, ask_secret("Client secret").strip())
    if not unchecked:
        click.echo(f"Signed in as {_check(access, pem)}.")
    row = upstreams.add(actor, NewUpstream(*access[:3], secrets.seal(access.secret), pem))
    click.echo(f"Added {row.url}. The service begins within seconds: edge upstream show")


@reads("show", upstream)
def show(organization_id: int) -> None:
    """Show the state, and the records that are not equal at the service with the reason."""
    row = upstreams.get(organization_id)
    number, troubles = counterparts.count(row.no)
    print_table(["", ""], _state_rows(row, number))
    if not troubles:
        return
    rows = counterparts.troubles(row.no, MOST_SHOWN)
    here = local_records.read(organization_id, [one.record_id for one in rows])
    click.echo()
    table = [
        (
            one.kind.name.lower(),
            here[one.record_id].key if one.record_id in here else one.record_id,
            clock.rfc3339(one.trouble_at or 0),
            *(_trouble(one)),
        )
        for one in rows
    ]
    print_table(["KIND", "KEY", "SINCE", "TROUBLE", "WHY"], table)
    if sum(troubles.values()) > len(rows):
        click.echo(f"… and {sum(troubles.values()) - len(rows)} more")
    click.echo(
        "\nTo write this box's values there: edge upstream overwrite KEY. To have theirs here: edge upstream keep KEY"
    )


@writes("overwrite", upstream)
@click.argument("keys", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All records that others have changed there.")
def overwrite(actor: Actor, keys: tuple[str, ...], *, is_all: bool) -> None:
    """Overwrite at the service what others have changed in the records with these KEYS, assets or locations."""
    if bool(keys) == is_all:
        raise click.UsageError("Give either KEYS or --all")
    number = upstreams.overwrite(actor, _listed(actor.organization_id, keys))
    if not number:
        raise NotFound("None of these records was changed there by others: edge upstream show")
    click.echo(f"{number} will be overwritten within seconds.")


@writes("keep", upstream)
@click.argument("keys", nargs=-1, required=True)
def keep(actor: Actor, keys: tuple[str, ...]) -> None:
    """Give the records with these KEYS the values that others have set at the service, or delete them like there."""
    ids = _listed(actor.organization_id, keys, TroubleKind.CHANGED)
    if not ids:
        raise NotFound("None of these records was changed there by others: edge upstream show")
    row = upstreams.get(actor.organization_id)
    with closing(of_upstream(row, current_setup().config.events_authority_file)) as client:
        for record_id in ids:
            decisions.keep_theirs(actor, client, record_id)
    click.echo(f"{len(ids)} changed here.")


@writes("compare", upstream)
def compare(actor: Actor) -> None:
    """Compare all records with the service now, which otherwise happens once a day, and check all troubles again."""
    upstreams.retry(actor)
    click.echo("Begins within seconds: edge upstream show")


@writes("pause", upstream)
def pause(actor: Actor) -> None:
    """Write nothing until `edge upstream resume`. Changes wait."""
    upstreams.pause(actor)
    click.echo("Paused. To continue: edge upstream resume")


@writes("resume", upstream)
def resume(actor: Actor) -> None:
    """Continue after `edge upstream pause`, or at once after an outage."""
    upstreams.resume(actor)
    click.echo("Continues within seconds.")


@writes("new-secret", upstream)
@click.option("--client-id", help="Client id of the other API key; default: unchanged.")
def new_secret(actor: Actor, client_id: str | None) -> None:
    """Use another client secret, for example after the API key was revoked. Prompts for it."""
    row = upstreams.get(actor.organization_id)
    access = Access(row.url, row.network, client_id or row.client_id, ask_secret("Client secret").strip())
    click.echo(f"Signed in as {_check(access, row.authority)}.")
    upstreams.change_secret(actor, access.client_id, secrets.seal(access.secret))


@writes("new-ca", upstream)
@click.argument("file", type=CERTIFICATES)
def new_ca(actor: Actor, file: Path) -> None:
    """Trust only the certificate authority in FILE (PEM), for example before the certificate of the service changes."""
    upstreams.change_authority(actor, check_authority(_text(file)))
    click.echo("Used from the next connection on: edge upstream show")


@writes("remove", upstream)
@click.confirmation_option(prompt="Stop writing to the service? Its records stay there")
def remove(actor: Actor) -> None:
    """Stop writing to the service. Its records stay there, and are matched by key if it is added again."""
    upstreams.remove(actor)
    click.echo("Removed.")


@writes("bridge", upstream)
@click.argument("url")
@click.option("--user", help="User at that broker. Prompts for the password.")
@click.option(
    "--ca",
    "authority",
    type=click.Path(path_type=Path),
    help="Certificate authority of that broker (PEM).",
)
@click.option("--insecure", is_flag=True, help="Without TLS; only for a broker on this computer, for tests.")
def bridge(actor: Actor, url: str, user: str | None, authority: Path | None, *, insecure: bool) -> None:
    """Write the configuration by which mosquitto sends the messages of all readers to the broker at URL.

    Run it again, with the same options, after adding readers.
    """
    if current_setup().config.mqtt_broker == "embedded":
        raise SetupError("The embedded broker has no bridges. Install mosquitto: see the chapter Broker of the manual")
    address = bridges.check_url(url, is_insecure=insecure)
    credentials = bridges.Credentials(user, ask_secret("Password").strip()) if user else None
    if credentials:
        bridges.check_credentials(credentials)
    if authority:
        bridges.check_authority(authority)
    row = bridges.write(actor, address)
    name = _bridge_file(row)
    file = current_setup().config.data_dir / name
    replace_text(file, bridges.configuration(row, credentials, authority and authority.resolve()))
    for topic in bridges.topics_of(actor.organization_id)[1]:
        click.echo(f"Not bridged, because mosquitto allows no spaces: {topic}", err=True)
    click.echo(f"Wrote {file} with {len(row.topics)} topics. Install it, and again after each change of readers:\n")
    click.echo(f"sudo install -o mosquitto -m 600 {file} {MOSQUITTO}/conf.d/{name}")
    click.echo("sudo systemctl restart mosquitto")
    click.echo("\nThen check it: edge doctor")


@writes("remove-bridge", upstream)
@click.confirmation_option(prompt="Stop sending messages of readers to the other broker?")
def remove_bridge(actor: Actor) -> None:
    """Forget the bridge, and print the commands that remove it from mosquitto."""
    row = bridges.get(actor.organization_id)
    bridges.remove(actor)
    name = _bridge_file(row)
    (current_setup().config.data_dir / name).unlink(missing_ok=True)
    click.echo(f"sudo rm {MOSQUITTO}/conf.d/{name}")
    click.echo("sudo systemctl restart mosquitto")


def _bridge_file(row: bridges.Bridge) -> str:
    """Return the name of the configuration. mosquitto must read it after its other files."""
    return f"zz-edge-upstream-{row.organization_id}.conf"


def _check(access: Access, authority: str) -> str:
    """Return the organization of the credentials. Raises SetupError if they lack a scope."""
    with closing(Client(access, trust(current_setup().config.events_authority_file, authority))) as client:
        organization = client.organization()
    if missing := [scope for scope in SCOPES if scope not in organization["scopes"]]:
        raise SetupError(f"The API key lacks {', '.join(missing)}. Create another key with these scopes")
    return str(organization["name"])


def _listed(organization_id: int, keys: tuple[str, ...], *kinds: TroubleKind) -> list[int]:
    """Return the listed records with these keys, or all. `kinds` of trouble limits them further."""
    rows = counterparts.troubles(upstreams.get(organization_id).no, -1)
    ids = [one.record_id for one in rows if not kinds or (one.trouble and one.trouble.kind in kinds)]
    if not keys:
        return ids
    here = local_records.read(organization_id, ids)
    return [one for one in ids if one in here and here[one].key in keys]


def _text(file: Path) -> str:
    try:
        return file.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{file} cannot be read as PEM: {error}") from error


def _state_rows(row: Upstream, number: int) -> list[tuple[str, object]]:
    compared = "under way" if row.walk_id is not None else _when(row.walked_at)
    return [
        ("Service", row.url),
        ("State", row.state),
        ("Records there", number),
        ("Changes waiting", upstreams.count_waiting(row)),
        ("Written", row.written),
        ("Compared", compared),
        ("Last success", _when(row.last_success_at)),
        ("Last error", f"{row.last_error} (since {_when(row.failing_since)})" if row.last_error else "none"),
    ]


def _when(moment: int | None) -> str:
    return clock.rfc3339(moment) if moment else "never"


def _trouble(one: Counterpart) -> tuple[str, str]:
    return (str(one.trouble.kind), one.trouble.text) if one.trouble else ("", "")
