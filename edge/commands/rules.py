"""`edge rules`: the rules, their preview and their alerts."""

from __future__ import annotations

import click

from edge import clock
from edge.audit.actors import Actor
from edge.commands.context import Setup, in_force, print_table, reads, writes
from edge.errors import NotFound
from edge.rules import alerts, rules
from edge.rules.alerts import AlertFilter
from edge.rules.rule_preview import DAYS, Kept, preview
from edge.rules.rules import Rule
from edge.rules.sentences import describe

SHOWN = 20


@click.group("rules")
def rules_group() -> None:
    """Rules that raise alerts."""


@reads("list", rules_group)
def list_rules(organization_id: int) -> None:
    """List the rules."""
    print_table(
        ("NO", "NAME", "STATE", "RULE"),
        [
            (row.no, row.name, "disabled" if row.disabled_at else "enabled", describe(row.fields, row.place_name))
            for row in rules.list_rules(organization_id)
        ],
    )


@reads("show", rules_group)
@click.argument("rule")
def show(organization_id: int, rule: str) -> None:
    """Show a rule by number or name, and its last alerts."""
    row = _rule(organization_id, rule)
    click.echo(f"{row.name}: {describe(row.fields, row.place_name)}{' (disabled)' if row.disabled_at else ''}")
    raised = alerts.list_alerts(organization_id, AlertFilter(is_open=False, rule_no=row.no), SHOWN)
    print_table(
        ("TIME", "ALERT", "ACKNOWLEDGED BY", "NOTE"),
        [(clock.rfc3339(one.occurred_at), one.sentence, one.acknowledged_by, one.note) for one in raised],
    )


@reads("preview", rules_group)
@click.argument("rule")
@click.pass_obj
def show_preview(setup: Setup, organization_id: int, rule: str) -> None:
    """List the alerts that a rule would have raised in the last 7 days."""
    row = _rule(organization_id, rule)
    previewed = preview(row, clock.zone(in_force(setup).pages_time_zone))
    if previewed.kept is Kept.NOW:
        click.echo(f"Nothing is kept about the past. {previewed.total} now")
    else:
        doubt = "" if previewed.is_complete else " (not all history read)"
        if previewed.kept is Kept.EVENTS:
            since = previewed.kept_since
            doubt = f" (event log since {clock.rfc3339(since)})" if since else " (the event log is empty)"
        click.echo(f"{previewed.total} in the last {DAYS} days{doubt}")
    print_table(("TIME", "ABOUT"), [(clock.rfc3339(one.at), one.name) for one in previewed.newest])


@writes("disable", rules_group)
@click.argument("rule")
def disable(actor: Actor, rule: str) -> None:
    """Disable a rule. Its alerts are kept."""
    row = _rule(actor.organization_id, rule)
    rules.disable_rule(actor, row.no)
    click.echo(f"Disabled {row.name}")


@writes("enable", rules_group)
@click.argument("rule")
def enable(actor: Actor, rule: str) -> None:
    """Enable a rule. It alerts about what happens from now on."""
    row = _rule(actor.organization_id, rule)
    rules.enable_rule(actor, row.no)
    click.echo(f"Enabled {row.name}")


def _rule(organization_id: int, name: str) -> Rule:
    rows = [row for row in rules.list_rules(organization_id) if name in (str(row.no), row.name)]
    if not rows:
        raise NotFound(f"There is no rule {name}. `edge rules list` shows them.")
    return rows[0]
