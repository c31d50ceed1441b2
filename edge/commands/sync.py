"""`edge sync`: a site and its hub, from a shell."""

from __future__ import annotations

import time

import click

from edge import clock
from edge.auth import join_codes
from edge.auth.secrets import hash_secret, new_token
from edge.commands.site import Setup, for_actor, for_organization, print_table
from edge.errors import NotFound, Unavailable
from edge.store import changes, sites, target
from edge.store.actors import Actor
from edge.store.target import Target
from edge.sync import files
from edge.sync.client import HubClient, check_address
from edge.validation import values

MINUTE = 60 * clock.SECOND


@click.group()
def sync() -> None:
    """One hub that shows what many sites see."""


@sync.command("add-site")
@click.argument("code")
@click.argument("name")
@click.option("--url", required=True, help="Address of this hub, as the site reaches it, for example https://hub.lan.")
@for_actor
def add_site(actor: Actor, code: str, name: str, url: str) -> None:
    """At the hub: add a site and print its one-time join code. CODE is put before the keys of its locations."""
    check_address(url)
    secret = new_token()
    key, title = values.external_key("code", code), values.name("name", name)
    made = sites.add_site(actor, key, title, hash_secret(secret))
    authority = _setup().config.data_dir / "authority.crt"
    pem = authority.read_text("ascii") if authority.is_file() else ""
    click.echo(f"Added the site {made.code}. At its box, within {sites.JOIN_DAYS} days:\n")
    click.echo(f"edge sync join {join_codes.write(join_codes.JoinCode(url, secret, pem))}")


@sync.command("join")
@click.argument("code", required=False)
@for_actor
def join(actor: Actor, code: str | None) -> None:
    """At a site: report to a hub from now on, by the one-time CODE of its Sites page."""
    read = join_codes.read(code or click.prompt("Join code"))
    here = target.find()
    if here and not here.stopped:
        target.refuse_second()
    config = _setup().config
    files.write(config.data_dir, "", read.authority)
    _, authority = files.read(config.data_dir)
    client = HubClient(read.url, "", "", authority)
    answer = client.join(read.secret, config.environment)
    files.write(config.data_dir, answer["client_secret"], read.authority)
    hub = (read.url, answer["code"], answer["hub_name"], answer["client_id"])
    target.begin(actor, *hub, is_instead=here is not None)
    waiting = changes.count_after((target.find() or _none()).acked_seq)
    click.echo(f"Joined {answer['hub_name']} at {read.url} as {answer['code']}. {waiting} changes wait to be sent.")


@sync.command("status")
@for_organization
def status(organization_id: int) -> None:
    """How far the hub is, or how far its sites are."""
    here = target.find()
    if here:
        print_table(["", ""], _told(here))
        return
    rows = [
        (row.code, row.name, _when(row.last_contact_at), _when(row.last_commit_at), row.acked_seq)
        for row in sites.list_sites(organization_id)
    ]
    if not rows:
        click.echo(
            "This box neither reports to a hub nor is one. At a hub: edge sync add-site. At a site: edge sync join."
        )
        return
    print_table(["SITE", "NAME", "LAST HEARD", "LAST CHANGE", "CHANGES"], rows)


@sync.command("pause")
@for_actor
def pause(actor: Actor) -> None:
    """At a site: send nothing until `edge sync resume`. What happens meanwhile waits here."""
    target.steer(actor, "hub.paused", paused_at=clock.now())
    click.echo("Paused. What happens meanwhile is kept, and sent after: edge sync resume")


@sync.command("resume")
@for_actor
def resume(actor: Actor) -> None:
    """At a site: go on after `edge sync pause`."""
    target.steer(actor, "hub.resumed", paused_at=None)
    click.echo("Goes on within seconds.")


@sync.command("verify")
@click.option("--wait", default=600, show_default=True, help="Seconds to wait for the result.")
@for_actor
def verify(actor: Actor, wait: int) -> None:
    """At a site: compare all history with the hub's, and have the truth sent where it differs.

    The service does it, once nothing waits to be sent.
    """
    began = clock.now()
    target.steer(actor, "hub.verification_asked", verify_wanted=1)
    for _ in range(wait):
        here = _here()
        if here.verified_at and here.verified_at > began:
            click.echo(here.verify_result)
            return
        time.sleep(1)
    raise Unavailable("No result yet. Is the service running, and the hub there? Ask: edge sync status")


@sync.command("resend")
@for_actor
def resend(actor: Actor) -> None:
    """At a site: tell the hub everything once more as it is here. What the hub has more of these assets, it drops."""
    target.steer(actor, "hub.resent", restored_from=None)
    here = _here()
    changes.add_everything(here.organization_id)
    click.echo(f"{changes.count_after(here.acked_seq)} changes wait to be sent.")


@sync.command("leave")
@click.confirmation_option(prompt="Report to no hub any more? What it got from here stays there")
@for_actor
def leave(actor: Actor) -> None:
    """At a site: report to no hub any more. Assets that came from it stay, and are this box's own."""
    _here()
    target.end(actor)
    files.remove(_setup().config.data_dir)
    click.echo("Left. What the hub got from here stays there until it removes the site.")


@sync.command("conflicts")
@for_organization
def conflicts(organization_id: int) -> None:
    """Records of two boxes with one key or tag, and what could not be taken."""
    peers = [(0, "hub")] if target.find() else [(row.no, row.code) for row in sites.list_sites(organization_id)]
    rows = [(name, row.what, row.reason) for peer, name in peers for row in sites.list_trouble(peer)]
    if not rows:
        click.echo("None.")
        return
    print_table(["FROM", "WHAT", "WHY"], rows)


def _setup() -> Setup:
    found: Setup = click.get_current_context().obj
    return found


def _here() -> Target:
    return target.find() or _none()


def _none() -> Target:
    raise NotFound("This box reports to no hub. Join one: edge sync join CODE")


def _told(here: Target) -> list[tuple[str, str]]:
    mode = "stopped" if here.stopped else "paused" if here.paused_at else "running"
    return [
        ("Hub", f"{here.hub_name}, {here.url}"),
        ("This site", here.code),
        ("Mode", f"{mode}: {here.stopped}" if here.stopped else mode),
        ("Waiting", f"{changes.count_after(here.acked_seq)} changes"),
        ("Last answer", _when(here.last_contact_at)),
        ("Last commit at the hub", _when(here.last_commit_at)),
        ("Board there as of", _when(here.board_at)),
        ("Today", f"{here.bytes_sent >> 10} KB sent, {here.bytes_received >> 10} KB received"),
        ("Clock of the hub", f"{(here.clock_offset or 0) / clock.SECOND:+.1f} s"),
        ("Compared", f"{_when(here.verified_at)} {here.verify_result or ''}"),
        ("Last error", f"{here.last_error} ({_when(here.last_error_at)})" if here.last_error else "none"),
    ]


def _when(moment: int | None) -> str:
    return clock.rfc3339(moment) if moment else "never"
