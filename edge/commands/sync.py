"""`edge sync`: connect a site and its hub."""

from __future__ import annotations

import time
from contextlib import closing

import click

from edge import clock
from edge.audit.actors import Actor
from edge.commands.context import current_setup, in_force, print_table, reads, writes
from edge.errors import Conflict, NotFound, Unavailable
from edge.people.secrets import hash_secret, new_token
from edge.records import keys_in_bulk
from edge.runtime.readiness import check_disk
from edge.sync import enrollment, files
from edge.sync import preview as previews
from edge.sync import recover as get_back
from edge.sync.client import HubClient, check_address
from edge.sync.sender import LinkError
from edge.sync.store import change_feed, hub_link, recovered_history, site_lifecycle, sites
from edge.sync.store import conflicts as open_conflicts
from edge.sync.store import state as sync_state
from edge.sync.store.hub_link import HubAccess, Target
from edge.sync.store.site_health import PROBLEM, WARNING
from edge.sync.store.state import SiteState, SiteStatus
from edge.sync.verify import FULL
from edge.validation import values


@click.group()
def sync() -> None:
    """Connect sites to a hub that shows the data of all of them."""


@writes("add-site", sync)
@click.argument("code")
@click.argument("name")
@click.option("--url", required=True, help="Address at which the site reaches this hub, for example https://hub.lan.")
def add_site(actor: Actor, code: str, name: str, url: str) -> None:
    """Add a site and print its one-time join code (on the hub). CODE becomes the prefix of its location keys."""
    check_address(url)
    secret = new_token()
    key, title = values.external_key("code", code), values.name("name", name)
    made = sites.add_site(actor, key, title, hash_secret(secret))
    click.echo(f"Added the site {made.code}. Run on its box within {sites.JOIN_DAYS} days:\n")
    click.echo(f"edge sync join {_join_code(url, secret)}")


@writes("new-code", sync)
@click.argument("code")
@click.option("--url", required=True, help="Address at which the site reaches this hub.")
def new_code(actor: Actor, code: str, url: str) -> None:
    """Print a join code for another box of the site CODE (on the hub). Using it revokes the key of the present box."""
    check_address(url)
    secret = new_token()
    site = sites.find_by_code(actor.organization_id, code)
    sites.renew_code(actor, site.no, hash_secret(secret))
    click.echo(f"Run on the new box of {site.name} within {sites.JOIN_DAYS} days:\n")
    click.echo(f"edge sync recover {_join_code(url, secret)}")
    click.echo("\nOn its current box, if only the key was lost: edge sync join with the same code.")


@writes("rename-site", sync)
@click.argument("code")
@click.option("--code", "new_code", help="New code. The keys of its locations at this hub begin with it.")
@click.option("--name", help="New name.")
def rename_site(actor: Actor, code: str, new_code: str | None, name: str | None) -> None:
    """Change the name or the code of the site CODE (on the hub). A new code changes the keys of its locations."""
    site = sites.find_by_code(actor.organization_id, code)
    key = values.external_key("code", new_code if new_code is not None else site.code)
    title = values.name("name", name if name is not None else site.name)
    site = site_lifecycle.rename(actor, site.no, code=key, name=title)
    click.echo(f"The site is {site.name} ({site.code}).")


@writes("retire-site", sync)
@click.argument("code")
@click.confirmation_option(prompt="Revoke the key of this site? Its records and history stay, read-only")
def retire_site(actor: Actor, code: str) -> None:
    """Retire the site CODE (on the hub). It can return with a new code: edge sync new-code."""
    site_lifecycle.retire(actor, sites.find_by_code(actor.organization_id, code).no)
    click.echo(f"Retired {code}. Its records and history stay, read-only.")


@writes("remove-site", sync)
@click.argument("code")
@click.confirmation_option(prompt="Remove this site? Its records become the hub's")
def remove_site(actor: Actor, code: str) -> None:
    """Remove the site CODE (on the hub). Its records become the hub's until a site with this code is added again."""
    site_lifecycle.remove(actor, sites.find_by_code(actor.organization_id, code).no)
    click.echo(f"Removed {code}.")


@writes("merge-conflicts", sync)
@click.argument("code")
def merge_conflicts(actor: Actor, code: str) -> None:
    """Merge the assets of the site CODE that have the same key, name and tag as the hub's (on the hub)."""
    site, merged = sites.find_by_code(actor.organization_id, code), 0
    while count := open_conflicts.merge_agreeing(actor, site.no):
        merged += count
    click.echo(f"Merged {merged} assets. Others with the same key or tag stay listed: edge sync conflicts")


def _join_code(url: str, secret: str) -> str:
    return enrollment.code_for(url, secret, current_setup().config.http_authority_file)


@writes("preview", sync)
@click.argument("code", required=False)
def preview(actor: Actor, code: str | None) -> None:
    """Show which records would clash if this box joined with CODE. Changes nothing; the code stays valid."""
    comparison = enrollment.compare(actor.organization_id, enrollment.read_code(code or click.prompt("Join code")))
    _print_preview(comparison)
    if comparison.by_key:
        click.echo(
            f"\nTo change the keys before joining: edge sync prefix {comparison.code}- (all keys: --all). "
            "To keep both: join; both records keep their scans, and the hub lists them as conflicts."
        )


def _print_preview(comparison: previews.Preview) -> None:
    for line in previews.summary(comparison):
        click.echo(line)
    if comparison.shown:
        rows = [
            (row.kind, row.own.key, row.own.name, row.clash.home, row.clash.key, row.clash.name, row.clash.by)
            for row in comparison.shown
        ]
        click.echo()
        print_table(["KIND", "KEY HERE", "NAME HERE", "HOME", "KEY THERE", "NAME THERE", "SAME"], rows)
    if comparison.total > len(comparison.shown):
        click.echo(f"… and {comparison.total - len(comparison.shown)} more")


@writes("prefix", sync)
@click.argument("prefix")
@click.option("--all", "is_all", is_flag=True, help="Change the keys of all records, without asking a hub.")
def prefix(actor: Actor, prefix: str, is_all: bool) -> None:
    """Put PREFIX before the keys that clash with a hub's, or before all keys (on the site, before it joins).

    Clients of the API see the new keys. Without --all it asks for the join code.
    """
    if is_all:
        records = keys_in_bulk.all_records(actor.organization_id)
    else:
        code = enrollment.read_code(click.prompt("Join code"))
        records = list(enrollment.compare(actor.organization_id, code).clashing)
    click.echo(" ".join(previews.prefixed(keys_in_bulk.prefix_keys(actor, records, prefix))))


@writes("join", sync)
@click.argument("code", required=False)
@click.option("--yes", is_flag=True, help="Join also if keys clash with the hub's.")
def join(actor: Actor, code: str | None, yes: bool) -> None:
    """Start reporting to a hub, with a one-time CODE from its Sync page (on the site)."""
    here = hub_link.find()
    code = code or click.prompt("Join code")
    if here is None and not yes:
        _ask_about_clashes(actor, code)
    hub = _use_code(code, here if here and not here.stopped else None)
    if here and here.is_of(hub):
        hub_link.renew_key(actor, hub)
    else:
        hub_link.begin(actor, hub, is_instead=here is not None)
    waiting = sync_state.waiting(change_feed.count_after(_here().acked_seq))
    click.echo(f"Joined {hub.hub_name} at {hub.url} as {hub.code}. {waiting} to be sent.")


def _ask_about_clashes(actor: Actor, code: str) -> None:
    """Show what would clash, and ask whether to join."""
    try:
        comparison = enrollment.compare(actor.organization_id, enrollment.read_code(code))
    except LinkError as error:
        click.echo(f"No preview: {error}", err=True)
        click.confirm("Join without a preview?", abort=True)
        return
    if comparison.total:
        _print_preview(comparison)
        click.confirm("Join, and keep both records of each? The hub lists them as conflicts", abort=True)


@writes("recover", sync)
@click.argument("code", required=False)
def recover(actor: Actor, code: str | None) -> None:
    """Recover records and history of a site from its hub, and continue as that site (on a new box).

    On a fresh box, or one restored on other hardware, CODE is a new code from the hub's Sync page. If the same box was
    restored, no code is needed. If interrupted, run the same command again.
    """
    here = hub_link.find()
    if here is None:
        recovered_history.check_empty(actor.organization_id)
        recovered_history.join(actor, _use_code(code))
    elif here.restored_from is None and not here.recovering:
        raise Conflict("Nothing to recover: this box has not been restored since it last reported to its hub")
    elif code:
        recovered_history.join(actor, _use_code(code, here))
    elif not here.recovering:
        recovered_history.begin(actor)
    here = _here()
    secret, authority = files.read(current_setup().config.data_dir)
    with closing(HubClient(here.url, here.client_id, secret, authority)) as client:
        for line in get_back.recover(actor, client.call):
            click.echo(line)
    click.echo("Recovery is complete and reporting continues: edge sync status. Set up the readers again.")


def _use_code(code: str | None, here: Target | None = None) -> HubAccess:
    """Exchange a join code for the site's key, and store the key in its file.

    The present key is kept until the hub has answered. Raises Conflict if the code is for another site than `here`.
    """
    read = enrollment.read_code(code or click.prompt("Join code"))
    config = current_setup().config
    with enrollment.client(read) as client:
        answer = client.join(read.secret, config.environment)
    hub = HubAccess(
        read.url,
        answer["code"],
        answer["hub_name"],
        answer["client_id"],
        str(answer.get("hub_id", ""))[:64],
        tuple(map(str, answer.get("former_codes", ()))),
        answer.get("epoch"),
        int(answer.get("acked_seq", 0)),
    )
    if here and not here.is_of(hub):
        raise Conflict(
            f"This box is the site {here.code} of {here.hub_name}, and the code is for {hub.code} of {hub.hub_name}. "
            "Leave first: edge sync leave. The code is now used; create another one"
        )
    files.write(config.data_dir, answer["client_secret"], read.authority)
    return hub


@reads("status", sync)
def status(organization_id: int) -> None:
    """Show the state of sync with the hub, or with the sites."""
    state = sync_state.site_state()
    if state:
        print_table(["", ""], state_rows(state))
        return
    statuses = sync_state.worst_first(sync_state.site_statuses(organization_id))
    rows = [
        (
            *(row.site.code, row.site.name, _when(row.site.last_contact_at), _when(row.board_at)),
            *(_when(row.history_until), row.waiting, row.trouble or "-"),
        )
        for row in statuses
    ]
    if not rows:
        click.echo("This box is neither a hub nor a site. On a hub: edge sync add-site. On a site: edge sync join.")
        return
    print_table(["SITE", "NAME", "LAST HEARD", "POSITIONS AS OF", "HISTORY UNTIL", "WAITING", "TROUBLE"], rows)
    click.echo()
    health = [_health_row(row) for row in statuses]
    print_table(
        ["SITE", "STATE", "VERSION", "PROBLEMS", "WARNINGS", "CERTIFICATES", "BACKUP", "FREE", "READS/MIN"], health
    )
    config = in_force(current_setup())
    disk = check_disk(config.data_dir, config.retention_low_disk_mb)
    if not disk.ok:
        click.echo(f"\nDisk of this hub: {disk.detail}. When it is full, the hub refuses data and the sites keep it.")


def _health_row(row: SiteStatus) -> tuple[object, ...]:
    """Return the health of a site as a row of the table, with the names of the doctor's checks."""
    state = (
        f"silent since {_when(row.site.last_contact_at)}" if row.is_silent else ("ok", "warning", "problem")[row.level]
    )
    if row.received is None:
        return (row.site.code, state, "-", "-", "-", "-", "-", "-", "-")
    health = row.received.health
    now = clock.now() // clock.SECOND
    ends, made, free = health.certificate_ends_at, health.backup_at, health.disk_free_mb
    return (
        row.site.code,
        state,
        health.version or "-",
        *(", ".join(health.checks(level)) or "-" for level in (PROBLEM, WARNING)),
        "-" if ends is None else "expired" if ends <= now else f"{(ends - now) // 86400} days",
        "-" if made is None else f"{(now - made) // 3600} h old",
        "-" if free is None else f"{free} MB",
        "-" if health.reads_per_minute is None else health.reads_per_minute,
    )


@writes("pause", sync)
def pause(actor: Actor) -> None:
    """Pause sync until `edge sync resume` (on the site). Changes are queued meanwhile."""
    hub_link.steer(actor, "hub.paused", paused_at=clock.now())
    click.echo("Paused. Changes are kept and sent after: edge sync resume")


@writes("resume", sync)
def resume(actor: Actor) -> None:
    """Resume sync after `edge sync pause` (on the site)."""
    hub_link.steer(actor, "hub.resumed", paused_at=None)
    click.echo("Resumes within seconds.")


@writes("verify", sync)
@click.option("--wait", default=600, show_default=True, help="Seconds to wait for the result.")
@click.option("--full", is_flag=True, help="Read all history at both ends instead of using stored digests.")
def verify(actor: Actor, wait: int, *, full: bool) -> None:
    """Compare history and records with the hub's and resend the differences (on the site).

    The service does this once all changes are sent. Days without a change since the last comparison are compared by
    stored digests, unless you give --full.
    """
    began = clock.now()
    hub_link.steer(actor, "hub.verification_asked", verify_wanted=FULL if full else 1)
    for _ in range(wait):
        here = _here()
        if here.verified_at and here.verified_at > began:
            click.echo(here.verify_result)
            return
        time.sleep(1)
    raise Unavailable("No result yet. Check that the service is running and the hub is reachable: edge sync status")


@writes("resend", sync)
def resend(actor: Actor) -> None:
    """Send all data to the hub again (on the site). The hub drops any other history of these assets."""
    hub_link.steer(actor, "hub.resent", restored_from=None)
    here = _here()
    change_feed.add_everything(here.organization_id)
    click.echo(f"{sync_state.waiting(change_feed.count_after(here.acked_seq))} to be sent.")


@writes("leave", sync)
@click.confirmation_option(prompt="Stop reporting to the hub? The hub keeps the data it received")
def leave(actor: Actor) -> None:
    """Stop reporting to the hub (on the site). Assets received from it stay and become this box's own.

    To return, join with a new code of the same site. Records and history keep their ids.
    """
    is_joined = hub_link.find() is not None
    hub_link.end(actor)
    files.remove(current_setup().config.data_dir)  # also after an earlier run that was interrupted
    if not is_joined:
        _not_joined()
    click.echo("Left. The hub keeps the data it received. To return: a new code of this site, and edge sync join")


@reads("conflicts", sync)
def conflicts(organization_id: int) -> None:
    """List conflicts of keys and tags between boxes, and items that could not be applied."""
    peers = [(0, "hub")] if hub_link.find() else [(row.no, row.code) for row in sites.list_sites(organization_id)]
    rows = [(name, row.item, row.reason) for peer, name in peers for row in sites.list_trouble(peer)]
    if not rows:
        click.echo("None.")
        return
    print_table(["FROM", "WHAT", "WHY"], rows)


def _here() -> Target:
    return hub_link.find() or _not_joined()


def _not_joined() -> Target:
    raise NotFound("This box reports to no hub. To join one: edge sync join CODE")


def state_rows(state: SiteState) -> list[tuple[str, str]]:
    """Return the sync state as rows of label and value."""
    here = state.here
    return [
        ("Hub", f"{here.hub_name}, {here.url}"),
        ("This site", here.code),
        ("Mode", f"{state.mode}: {here.stopped}" if here.stopped else state.mode),
        ("Positions at hub as of", _when(here.board_at)),
        ("History at hub until", _when(state.history_until)),
        ("Changes waiting", f"{state.waiting}"),
        ("Rate", f"{state.rate:.0f} changes per second"),
        ("Last answer", _when(here.last_contact_at)),
        ("Last commit at the hub", _when(here.last_commit_at)),
        ("Today", f"{state.sent_today >> 10} KB sent, {state.received_today >> 10} KB received"),
        ("Hub clock", f"{(here.clock_offset or 0) / clock.SECOND:+.1f} s"),
        ("Set aside", f"{state.set_aside}" if state.set_aside else "none"),
        ("Compared", f"{_when(here.verified_at)} {here.verify_result or ''}".strip()),
        ("Last error", f"{here.last_error} ({_when(here.last_error_at)})" if here.last_error else "none"),
    ]


def _when(moment: int | None) -> str:
    return clock.rfc3339(moment) if moment else "never"
