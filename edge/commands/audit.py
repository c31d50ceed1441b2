"""`edge audit`: the audit trail in the shell."""

from __future__ import annotations

from datetime import datetime, tzinfo

import click

from edge import clock
from edge.audit import trail
from edge.audit.actors import ActorKind
from edge.audit.trail import AuditFilter
from edge.commands.context import Setup, in_force, print_table, reads


@reads("audit")
@click.option("--actor", "actor_kind", type=click.Choice([kind.value for kind in ActorKind]), help="Kind of actor.")
@click.option("--actor-id", default="", help="Id of a person, or the client_id of a key.")
@click.option("--kind", default="", help="Kind of record, such as asset, reader or person; box for this box.")
@click.option("--id", "record_id", default="", help="Changes of the record with this id.")
@click.option("--name", default="", help="Part of the record's name or key at that time.")
@click.option("--since", type=click.DateTime(), help="In the time zone of the site.")
@click.option("--until", type=click.DateTime(), help="In the time zone of the site, exclusive.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.pass_obj
def audit(
    setup: Setup,
    organization_id: int,
    actor_kind: str | None,
    actor_id: str,
    kind: str,
    record_id: str,
    name: str,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show changes and who made them, newest first."""
    zone = clock.zone(in_force(setup).pages_time_zone)
    query = AuditFilter(actor_kind or "", actor_id, kind, record_id, name, _micros(since, zone), _micros(until, zone))
    rows = trail.list_page(organization_id, query, limit=limit).rows
    if as_json:
        for row in rows:
            click.echo(row.as_json)
        return
    print_table(
        ["WHEN", "WHO", "WHAT", "RECORD", "DETAILS"],
        [
            (clock.rfc3339(row.at), row.actor_label, row.action_label, row.subject_name, "; ".join(row.changes))
            for row in rows
        ],
    )


def _micros(moment: datetime | None, zone: tzinfo) -> int | None:
    return None if moment is None else clock.to_micros(moment.replace(tzinfo=zone))
