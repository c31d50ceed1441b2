"""`edge org`, `edge user`, `edge location`, `edge asset`, `edge tag`: manage records from a shell."""

from __future__ import annotations

from collections.abc import Sequence

import click

from edge import clock
from edge.audit.actors import Actor
from edge.commands.context import (
    Setup,
    ask_new_password,
    asset_of,
    location_id_of,
    location_of,
    open_file,
    open_site,
    person_of,
    print_table,
    reads,
    shell,
    writes,
)
from edge.people import organizations, people, second_factors, topic_owners
from edge.people.passwords import hash_password
from edge.people.people import Role
from edge.readers.antenna_kinds import set_location_kind
from edge.records import assets, locations
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.record import RecordFilter
from edge.records.tags import NewTag, TagRow
from edge.tracking.signal_strength import AntennaKind
from edge.tracking.why import Competitor, Reason, why_here
from edge.validation import values

PAGE = 200
DELETED = "a deleted location"


@click.group()
def org() -> None:
    """Organizations, each with data of its own."""


@org.command("add")
@click.argument("name")
@click.option("--topics", help="MQTT topic prefix of its readers. Default: derived from the name.")
@click.pass_obj
def add_org(setup: Setup, name: str, topics: str | None) -> None:
    """Add an organization. Its people see nothing of the others."""
    open_site(setup)
    row = organizations.add_organization(shell(), values.name("name", name), topics)
    click.echo(f"Added organization {row.name}. Add an administrator: edge user add --org '{row.name}' …")
    if row.topic_prefix:
        click.echo(f"Its readers publish below {row.topic_prefix}/")


@writes("topics", org)
@click.argument("prefix")
def set_topics(actor: Actor, prefix: str) -> None:
    """Set the prefix of the MQTT topics of an organization's readers: edge org topics acme --org Acme"""
    topic_owners.set_prefix(actor, prefix)
    click.echo(f"Its readers publish below {prefix}/. Other organizations cannot see these messages")


@org.command("list")
@click.pass_obj
def list_orgs(setup: Setup) -> None:
    """List the organizations."""
    open_file(setup)  # accepts an older schema: the installer runs it before the service has migrated
    rows = organizations.list_organizations()
    print_table(["ID", "NAME", "TOPICS"], [(row.id, row.name, _topics(row.topic_prefix)) for row in rows])


def _topics(prefix: str | None) -> str:
    return f"{prefix}/…" if prefix else "all topics without another owner"


@click.group()
def user() -> None:
    """People who sign in."""


@writes("add", user)
@click.option("--email", required=True, help="Email address for signing in.")
@click.option("--name", help="Display name. Default: the part before the @.")
@click.option("--role", type=click.Choice([role.value for role in Role]), default=Role.VIEWER.value, show_default=True)
def add_user(actor: Actor, email: str, name: str | None, role: str) -> None:
    """Add a person. The password is asked for twice, or read as one line from standard input."""
    name = values.name("name", name or email.partition("@")[0])
    row = people.add_person(actor, name, Role(role), email=email, password_hash=hash_password(ask_new_password()))
    click.echo(f"Added {row.role} {row.name} <{row.email}>")


@reads("list", user)
def list_users(organization_id: int) -> None:
    """List the people of an organization."""
    rows, holders = people.list_people(organization_id), second_factors.holders(organization_id)
    print_table(
        ["NAME", "EMAIL", "ROLE", "STATE", "SECOND FACTOR"],
        [
            (row.name, row.email, row.role, "disabled" if row.disabled_at else "", "app" if row.id in holders else "")
            for row in rows
        ],
    )


@writes("remove-second-factor", user)
@click.argument("email")
def remove_second_factor(actor: Actor, email: str) -> None:
    """Turn off two-factor authentication of a person who has lost phone and recovery codes.

    The password is enough again, and the person can set it up again.
    """
    person = person_of(actor.organization_id, email)
    second_factors.remove(actor, person.id)
    click.echo(
        f"{person.name} now signs in with the password only. To set it up again: My account, Two-factor authentication"
    )


@click.group()
def location() -> None:
    """The tree of locations."""


@writes("add", location)
@click.argument("name")
@click.option("--key", help="External key. Default: the next free LOC number.")
@click.option("--parent", help="External key of the parent location.")
def add_location(actor: Actor, name: str, key: str | None, parent: str | None) -> None:
    """Add a location."""
    row = locations.create(
        actor,
        name=values.name("name", name),
        external_key=key if key is None else values.external_key("external_key", key),
        parent_id=location_id_of(actor.organization_id, parent),
    )
    click.echo(f"Added location {row.external_key} ({row.name})")


@reads("list", location)
def list_locations(organization_id: int) -> None:
    """List the locations."""
    offset, rows = 0, []
    while page := locations.list_page(organization_id, RecordFilter(), limit=PAGE, offset=offset).rows:
        rows += page
        offset += PAGE
    print_table(["KEY", "NAME", "IN"], [(row.external_key, row.name, row.parent_external_key) for row in rows])


@writes("antennas", location)
@click.argument("key")
@click.argument("kind", type=click.Choice([*(kind.value for kind in AntennaKind), "inherit"]))
def set_antennas(actor: Actor, key: str, kind: str) -> None:
    """Set how reads of the antennas at a location and below are used.

    zone: it is there if the evidence says so. portal: it passes, the first read counts unless it is a stray.
    direct: every read counts. inherit: as the location above says.
    """
    row = location_of(actor.organization_id, key)
    set_location_kind(actor, row.id, row.name, None if kind == "inherit" else AntennaKind(kind))
    click.echo(f"Antennas at {row.external_key} and below: {kind}")


@click.group()
def asset() -> None:
    """Assets: the things that are tracked."""


@writes("add", asset)
@click.argument("name")
@click.option("--key", help="External key. Default: the next free ASSET number.")
@click.option("--tag", "given", multiple=True, metavar="TYPE:VALUE", help="For example rfid:3074257BF7194E4000001A85.")
def add_asset(actor: Actor, name: str, key: str | None, given: tuple[str, ...]) -> None:
    """Add an asset, with its tags if they are known."""
    row = assets.create(
        actor,
        name=values.name("name", name),
        external_key=key if key is None else values.external_key("external_key", key),
        tags=[_tag(*one.partition(":")[::2]) for one in given],
    )
    click.echo(f"Added asset {row.external_key} ({row.name})")


@reads("list", asset)
@click.option("--search", default="", help="Part of a name, key, description or tag.")
def list_assets(organization_id: int, search: str) -> None:
    """List the assets."""
    offset, rows = 0, []
    while page := assets.list_page(organization_id, RecordFilter(q=search), limit=PAGE, offset=offset).rows:
        rows += page
        offset += PAGE
    print_table(["KEY", "NAME", "TAGS"], [(row.external_key, row.name, _tag_list(row.tags)) for row in rows])


@reads("why", asset)
@click.argument("key")
def explain_location(organization_id: int, key: str) -> None:
    """Explain why an asset is where it is: reads, deciding rule, and pending moves."""
    why = why_here(organization_id, asset_of(organization_id, key).id)
    if why is None:
        click.echo(f"{key} has never been seen")
        return
    for reason in reversed(why.reasons):
        click.echo(f"{clock.rfc3339(reason.at)} {reason.location_name}: {reason.text}")
        _print_competitors(reason.competitors, reason)
    click.echo("Now" if why.now else f"{why.missing_text}.")
    _print_competitors(why.now)
    if why.waiting:
        read_at = clock.rfc3339(why.waiting.at)
        click.echo(f"Read at {why.waiting.name or DELETED} at {read_at}, which is held back: {why.waiting.text}.")
    if why.rejected:
        names = ", ".join(name or DELETED for name in why.rejected)
        click.echo(f"Rejected as stray reads, much weaker than elsewhere within 3 s: reads at {names}.")


def _print_competitors(competitors: Sequence[Competitor], reason: Reason | None = None) -> None:
    """Print the competing locations, of the move decided for `reason` or at present."""
    if competitors:
        print_table(
            ["  LOCATION", "SECONDS", "STRONGEST", "AVERAGE", "LAST HEARD", "LEAD"],
            [
                (f"  {one.name or DELETED}", one.seconds, _dbm(one.strongest), _dbm(one.average),
                 clock.rfc3339(one.last_at), _lead(one, reason))
                for one in competitors
            ],
        )  # fmt: skip


def _dbm(strength: float | None) -> str:
    return "" if strength is None else f"{strength:.0f} dBm"


def _lead(one: Competitor, reason: Reason | None) -> str:
    if one.is_here:
        return "was here" if reason else "is here"
    if reason and reason.is_winner(one):
        return "came here"
    return "" if one.collected is None else f"{max(0.0, one.collected):.0f} of {one.needed:.0f} dB"


@click.group()
def tag() -> None:
    """Tags, by which readers and scanners identify assets and locations."""


@writes("add", tag)
@click.argument("tag_type")
@click.argument("value")
@click.option("--asset", "asset_key", help="External key of the asset.")
@click.option("--location", "location_key", help="External key of the location.")
def add_tag(actor: Actor, tag_type: str, value: str, asset_key: str | None, location_key: str | None) -> None:
    """Attach a tag, for example: edge tag add rfid 3074257BF7194E4000001A85 --asset ASSET-0001"""
    owner = _owner(actor.organization_id, asset_key, location_key)
    attach = assets.attach_tag if isinstance(owner, AssetRow) else locations.attach_tag
    attach(actor, owner.id, _tag(tag_type, value))
    click.echo(f"Attached {tag_type}:{value} to {owner.external_key}")


@reads("list", tag)
@click.option("--asset", "asset_key", help="External key of the asset.")
@click.option("--location", "location_key", help="External key of the location.")
def list_tags(organization_id: int, asset_key: str | None, location_key: str | None) -> None:
    """List the tags of an asset or a location."""
    owner = _owner(organization_id, asset_key, location_key)
    print_table(["TYPE", "VALUE"], [(one.tag_type, one.value) for one in owner.tags])


def _owner(organization_id: int, asset_key: str | None, location_key: str | None) -> AssetRow | LocationRow:
    if (asset_key is None) == (location_key is None):
        raise click.UsageError("Pass either --asset KEY or --location KEY.")
    if asset_key is not None:
        return asset_of(organization_id, asset_key)
    return location_of(organization_id, location_key or "")


def _tag(tag_type: str, value: str) -> NewTag:
    return NewTag(values.tag_type("tag_type", tag_type), values.typed_tag_value("value", value))


def _tag_list(attached: Sequence[TagRow]) -> str:
    return " ".join(f"{one.tag_type}:{one.value}" for one in attached)
