"""Rules: which assets, which condition, and when in the week. `engine` evaluates them."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting, changed
from edge.audit.kinds import Kind
from edge.clock import SECOND
from edge.database.connection import execute
from edge.errors import Invalid
from edge.muster import musters, plans
from edge.muster.musters import Obstacle
from edge.records.external_keys import chosen_keys
from edge.rules.channels import channels
from edge.rules.conditions import CONDITIONS, AssetKind, Condition, Declaration
from edge.rules.outputs import outputs
from edge.texts import N_, fill
from edge.validation import values

ALL_DAYS = 0b1111111
DAY_MINUTES = 1440
LONGEST_SPAN = 366 * clock.DAY
DIRECTIONS = ("any", "in", "out")


class RuleFields(NamedTuple):
    """The fields of a rule that people enter. Those that its condition does not use are empty."""

    name: str
    kind: Condition
    asset_kind: AssetKind = AssetKind.ALL
    asset_name: str = ""
    asset_value: str = ""
    location_id: int | None = None
    door_id: int | None = None
    direction: str = "any"
    reader_id: int | None = None
    span: int = 0
    number: int = 0
    days: int = ALL_DAYS
    from_minute: int = 0
    until_minute: int = DAY_MINUTES
    channels: str = ""  # numbers, separated by blanks
    outputs: str = ""  # the same
    musters: str = ""  # numbers of the plans whose musters an alert starts

    @property
    def is_always_on(self) -> bool:
        return self.days == ALL_DAYS and (self.from_minute, self.until_minute) == (0, DAY_MINUTES)

    def is_on(self, at: int, zone: tzinfo) -> bool:
        """Return True if a time is within the hours of the rule."""
        if self.is_always_on:
            return True
        local = datetime.fromtimestamp(at / SECOND, zone)
        minute = local.hour * 60 + local.minute
        if self.from_minute < self.until_minute:
            return self.from_minute <= minute < self.until_minute and self._has_day(local)
        if minute >= self.from_minute:
            return self._has_day(local)
        return minute < self.until_minute and self._has_day(local - timedelta(days=1))

    def _has_day(self, local: datetime) -> bool:
        return bool(self.days >> local.weekday() & 1)


def numbers(text: str) -> list[int]:
    """Return the numbers of a field such as `channels`."""
    return [int(number) for number in text.split()]


class Rule(NamedTuple):
    """A rule with the names of its records. `place_name` is that of its location, door or reader."""

    no: int
    organization_id: int
    fields: RuleFields
    created_at: int
    changed_at: int
    disabled_at: int | None
    is_seeded: bool
    place_name: str

    @property
    def name(self) -> str:
        return self.fields.name

    @property
    def kind(self) -> Condition:
        return self.fields.kind

    @property
    def declared(self) -> Declaration:
        return CONDITIONS[self.kind]


def _rule(row: Any) -> Rule:
    no, organization_id, created_at, changed_at, disabled_at, is_seeded, place_name, *fields = row
    entered = RuleFields._make(fields)
    entered = entered._replace(kind=Condition(entered.kind), asset_kind=AssetKind(entered.asset_kind))
    return Rule(no, organization_id, entered, created_at, changed_at, disabled_at, bool(is_seeded), place_name)


KIND = Kind(
    "rule",
    "rule",
    "SELECT rule.no, rule.organization_id, rule.created_at, rule.changed_at, rule.disabled_at, rule.is_seeded, "
    f"coalesce(location.name, door.name, reader.name, ''), {', '.join(f'rule.{name}' for name in RuleFields._fields)} "
    "FROM rule LEFT JOIN location ON location.id = rule.location_id LEFT JOIN door ON door.id = rule.door_id "
    "LEFT JOIN reader ON reader.id = rule.reader_id",
    _rule,
    order="rule.no",
    live="rule.deleted_at IS NULL",
)
get, list_rules = KIND.get, KIND.list_of


def enabled_rules() -> list[Rule]:
    """Return the enabled rules of all organizations. For the engine only."""
    return KIND.where("rule.disabled_at IS NULL")


def has_enabled() -> bool:
    row = execute("SELECT 1 FROM rule WHERE deleted_at IS NULL AND disabled_at IS NULL LIMIT 1").fetchone()
    return row is not None


_OF_CONDITIONS = frozenset[str]().union(*(one.uses for one in CONDITIONS.values()))


def check(organization_id: int, entered: RuleFields) -> RuleFields:
    """Return the fields with unused ones emptied. Raises Invalid."""
    defaults = RuleFields._field_defaults
    unused = {name: defaults[name] for name in _OF_CONDITIONS - CONDITIONS[entered.kind].uses}
    checked = entered._replace(name=values.name("name", entered.name), **unused)
    if checked.asset_kind is not AssetKind.METADATA:
        checked = checked._replace(asset_name="")
    if checked.asset_kind is AssetKind.ALL:
        checked = checked._replace(asset_value="")
    if checked.asset_kind is AssetKind.KEY:
        checked = checked._replace(asset_value=chosen_keys(checked.asset_value))
    _check_values(checked)
    _check_records(organization_id, checked)
    return checked


def _check_values(entered: RuleFields) -> None:
    if entered.asset_kind is not AssetKind.ALL and entered.asset_value in ("", "="):
        raise Invalid.one("asset_value", "required", N_("Enter a value"))
    if entered.asset_kind is AssetKind.METADATA and not entered.asset_name:
        raise Invalid.one("asset_name", "required", N_("Enter the name of the metadata"))
    if max(len(entered.asset_name), len(entered.asset_value)) > values.MAX_TEXT:
        raise Invalid.one(
            "asset_value", "too_long", fill(N_("Enter at most %(most)s characters"), most=values.MAX_TEXT)
        )
    uses = CONDITIONS[entered.kind].uses
    if "span" in uses and not 60 * SECOND <= entered.span <= LONGEST_SPAN:
        raise Invalid.one("span", "invalid_value", N_("Enter a time from 1 minute to 366 days"))
    least, most = CONDITIONS[entered.kind].numbers
    if "number" in uses and not least <= entered.number <= most:
        text = N_("Enter a number from %(least)s to %(most)s")
        raise Invalid.one("number", "invalid_value", fill(text, least=least, most=most))
    if entered.direction not in DIRECTIONS:
        raise Invalid.one("direction", "invalid_value", N_("Choose a direction"))
    if not 0 < entered.days <= ALL_DAYS:
        raise Invalid.one("days", "required", N_("Choose at least one day"))
    if not 0 <= entered.from_minute < DAY_MINUTES or not 0 < entered.until_minute <= DAY_MINUTES:
        raise Invalid.one("from", "invalid_value", N_("Enter a time of day"))
    if entered.from_minute == entered.until_minute:
        raise Invalid.one("from", "invalid_value", N_("The hours must not be empty"))


_RECORDS = {  # by field: table, and the errors without a record and for an unknown one
    "location_id": ("location", N_("Choose a location"), N_("This location does not exist")),
    "door_id": ("door", N_("Choose a door"), N_("This door does not exist")),
    "reader_id": ("reader", "", N_("This reader does not exist")),
}


def _check_records(organization_id: int, entered: RuleFields) -> None:
    for field in CONDITIONS[entered.kind].uses & _RECORDS.keys():
        table, required, error = _RECORDS[field]
        value = getattr(entered, field)
        if value is None and required:
            raise Invalid.one(field, "required", required)
        sql = f"SELECT 1 FROM {table} WHERE id = ? AND organization_id = ? AND deleted_at IS NULL"
        if value is not None and execute(sql, (value, organization_id)).fetchone() is None:
            raise Invalid.one(field, "fk_not_found", error)
    for field, known, text in (
        ("channels", {row.no for row in channels.list_channels(organization_id)}, N_("There is no channel %(number)s")),
        ("outputs", {row.no for row in outputs.list_outputs(organization_id)}, N_("There is no output %(number)s")),
        ("musters", {plan.id for plan in plans.list_plans(organization_id)}, N_("There is no plan %(number)s")),
    ):
        if missing := set(numbers(getattr(entered, field))) - known:
            raise Invalid.one(field, "fk_not_found", fill(text, number=min(missing)))
    for plan_id in numbers(entered.musters):
        obstacle = musters.find_obstacle(organization_id, plan_id)
        if obstacle not in (None, Obstacle.OPEN, Obstacle.DRILL):
            name = musters.name_of_plan(organization_id, plan_id)
            message = fill(
                N_("%(name)s would not start: %(reason)s"), name=name, reason=fill(musters.MESSAGES[obstacle])
            )
            raise Invalid.one("musters", "invalid_value", message)


def add_rule(actor: Actor, entered: RuleFields) -> int:
    """Create a rule and return its number. Raises Invalid, and Conflict above the limit."""
    with acting(actor):
        checked = check(actor.organization_id, entered)
        return KIND.add(actor, {**checked._asdict(), "changed_at": clock.now()}, condition=checked.kind).no


def change_rule(actor: Actor, no: int, entered: RuleFields) -> None:
    """Change a rule, which then begins again: it alerts about what happens from now on.

    Raises NotFound and Invalid.
    """
    with acting(actor):
        rule, checked = get(actor.organization_id, no), check(actor.organization_id, entered)
        differences = changed(rule.fields._asdict(), checked._asdict())
        if set(differences) - {"name"}:
            _begin_again(no)
        KIND.change(actor, no, checked._asdict(), **differences)


def enable_rule(actor: Actor, no: int) -> None:
    """Enable a rule. Raises NotFound."""
    with acting(actor):
        if KIND.mark(actor, no, "enabled", {"disabled_at": None}).disabled_at is not None:
            _begin_again(no)


def disable_rule(actor: Actor, no: int) -> None:
    """Disable a rule; its alerts are kept. Raises NotFound."""
    with acting(actor):
        since = get(actor.organization_id, no).disabled_at or clock.now()
        KIND.mark(actor, no, "disabled", {"disabled_at": since})
        _begin_again(no)


def remove_rule(actor: Actor, no: int) -> None:
    """Remove a rule; its alerts are kept. Raises NotFound."""
    with acting(actor):
        KIND.remove(actor, no)
        _begin_again(no)


def _begin_again(no: int) -> None:
    execute("DELETE FROM rule_state WHERE rule_no = ?", (no,))
    execute(
        "UPDATE rule SET is_seeded = 0, changed_at = ?, after_alert = ? WHERE no = ?",
        (clock.now(), outputs.newest_alert(), no),
    )
