"""Rules in words, for lists and the shell."""

from __future__ import annotations

from edge import clock
from edge.clock import SECOND
from edge.rules.rules import AssetKind, Condition, RuleFields
from edge.validation import values

DAY_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
UNITS = {"minutes": 60 * SECOND, "hours": clock.HOUR, "days": clock.DAY}


def describe(fields: RuleFields, place: str) -> str:
    """Return a sentence such as `When any asset enters Cold store, Monday to Friday 08:00 to 17:00`."""
    asset, assets, place = _asset(fields), _assets(fields), place or "a removed record"
    conditions = {
        Condition.ENTERS: f"{asset} enters {place}",
        Condition.LEAVES: f"{asset} leaves {place}",
        Condition.PASSES: f"{asset} passes {place}{'' if fields.direction == 'any' else f' ({fields.direction})'}",
        Condition.STAYS: f"{asset} stays in {place} longer than {in_words(fields.span)}",
        Condition.UNSEEN: f"{asset} has not been seen for {in_words(fields.span)}",
        Condition.MORE: f"{place} holds more than {fields.number} {assets}",
        Condition.FEWER: f"{place} holds fewer than {fields.number} {assets}",
        Condition.OFFLINE: f"{f'reader {place}' if fields.reader_id else 'any reader'} is offline",
        Condition.BATTERY: f"the battery of {asset} is at most {fields.number} %",
        Condition.UNHEALTHY: f"this box has a fault for longer than {in_words(fields.span)}",
    }
    return f"When {conditions[fields.kind]}, {_hours(fields)}"


def in_words(span: int) -> str:
    amount, unit = amount_and_unit(span)
    return f"{amount} {unit if amount != 1 else unit.removesuffix('s')}"


def amount_and_unit(span: int) -> tuple[int, str]:
    """Return a span in its largest whole unit."""
    unit = next((name for name in reversed(UNITS) if span % UNITS[name] == 0), "minutes")
    return span // UNITS[unit], unit


def _asset(fields: RuleFields) -> str:
    return "any asset" if fields.asset_kind is AssetKind.ALL else f"an asset {_which(fields)}"


def _assets(fields: RuleFields) -> str:
    return "assets" if fields.asset_kind is AssetKind.ALL else f"assets {_which(fields)}"


def _which(fields: RuleFields) -> str:
    if fields.asset_kind is AssetKind.KEY:
        return f"with a key that begins with {fields.asset_value}"
    return f"with {fields.asset_name} {fields.asset_value}"


def _hours(fields: RuleFields) -> str:
    if fields.is_always_on:
        return "at any time"
    names = [name for day, name in enumerate(DAY_NAMES) if fields.days >> day & 1]
    days = "every day" if len(names) == 7 else ", ".join(names)
    if names == list(DAY_NAMES[:5]):
        days = "Monday to Friday"
    return f"{days} {values.time_of_day(fields.from_minute)} to {values.time_of_day(fields.until_minute)}"
