"""Rules in words, for lists and the shell."""

from __future__ import annotations

from edge import clock
from edge.clock import SECOND
from edge.rules.conditions import CONDITIONS, AssetKind, of_assets
from edge.rules.rules import RuleFields
from edge.texts import N_, fill
from edge.validation import values

DAY_NAMES = (
    N_("Monday"),
    N_("Tuesday"),
    N_("Wednesday"),
    N_("Thursday"),
    N_("Friday"),
    N_("Saturday"),
    N_("Sunday"),
)
UNITS = {"minutes": 60 * SECOND, "hours": clock.HOUR, "days": clock.DAY}
UNIT_NAMES = {"minutes": N_("minutes"), "hours": N_("hours"), "days": N_("days")}
_ONE = {"minutes": N_("1 minute"), "hours": N_("1 hour"), "days": N_("1 day")}
_MANY = {"minutes": N_("%(number)s minutes"), "hours": N_("%(number)s hours"), "days": N_("%(number)s days")}
_ASSET = of_assets(
    N_("any asset"),
    N_("an asset with a key that begins with %(value)s"),
    N_("an asset with the key %(value)s"),
    N_("an asset with %(name)s %(value)s"),
)


def describe(fields: RuleFields, place: str) -> str:
    """Return a sentence such as `When any asset enters Cold store, Monday to Friday 08:00 to 17:00`.

    Pages can translate it, with its parts.
    """
    value = fields.asset_value.removeprefix("=").replace(" ", ", ") if _has_keys(fields) else fields.asset_value
    sentence = CONDITIONS[fields.kind].sentence
    condition = fill(
        sentence if isinstance(sentence, str) else sentence(fields),
        asset=fill(_ASSET(fields), name=fields.asset_name, value=value),
        place=place or fill(N_("a removed record")),
        number=fields.number,
        time=in_words(fields.span),
        name=fields.asset_name,
        value=value,
    )
    return fill(N_("When %(condition)s, %(hours)s"), condition=condition, hours=_hours(fields))


def _has_keys(fields: RuleFields) -> bool:
    return fields.asset_kind is AssetKind.KEY and fields.asset_value.startswith("=")


def in_words(span: int) -> str:
    amount, unit = amount_and_unit(span)
    return fill(_ONE[unit]) if amount == 1 else fill(_MANY[unit], number=amount)


def amount_and_unit(span: int) -> tuple[int, str]:
    """Return a span in its largest whole unit."""
    unit = next((name for name in reversed(UNITS) if span % UNITS[name] == 0), "minutes")
    return span // UNITS[unit], unit


def _hours(fields: RuleFields) -> str:
    if fields.is_always_on:
        return fill(N_("at any time"))
    begin, end = values.time_of_day(fields.from_minute), values.time_of_day(fields.until_minute)
    return fill(N_("%(days)s %(begin)s to %(end)s"), days=_days(fields.days), begin=begin, end=end)


def _days(days: int) -> str:
    names = {f"day{day}": fill(name) for day, name in enumerate(DAY_NAMES) if days >> day & 1}
    if len(names) == len(DAY_NAMES):
        return fill(N_("every day"))
    if list(names.values()) == list(DAY_NAMES[:5]):
        return fill(N_("Monday to Friday"))
    return fill(", ".join(f"%({name})s" for name in names), **names)
