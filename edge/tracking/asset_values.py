"""Latest sensor values of assets: battery, temperature and button of their tags.

A value is written if it changed by more than noise, or once a day. So a tag that sends the same value again and again
costs one query for each batch, and no write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from edge import clock
from edge.clock import SECOND
from edge.database.connection import execute, execute_many
from edge.tracking.shown_positions import is_asset_shown
from edge.validation import json_text

BATTERY_STEP = 2  # percent, upwards; each lower percent counts, since rules have any limit
TEMPERATURE_STEP = 50  # hundredths of a degree
REFRESH = clock.DAY
PRESS_SECONDS = 5  # repeats of an advertisement are one press
LOW = 20  # percent


class NewValues(NamedTuple):
    """Values that a read brought. `temperature` in hundredths of a degree Celsius."""

    organization_id: int
    asset_id: int
    at: int
    battery: int | None
    millivolts: int | None
    temperature: int | None
    is_pressed: bool


class AssetValues(NamedTuple):
    """The latest values of an asset, None if never sent."""

    battery: int | None = None
    millivolts: int | None = None
    battery_at: int | None = None
    temperature: int | None = None
    temperature_at: int | None = None
    pressed_at: int | None = None


class LowBattery(NamedTuple):
    asset_id: int
    name: str
    external_key: str
    battery: int
    millivolts: int | None
    battery_at: int


_COLUMNS = ", ".join(AssetValues._fields)


def record(new: Iterable[NewValues]) -> None:
    """Write the values that changed. Call in the transaction that records the reads; the order does not matter."""
    ordered = sorted(new, key=lambda one: one.at)
    if not ordered:
        return
    known = of_assets({one.asset_id for one in ordered})
    changed: dict[int, tuple[int, AssetValues]] = {}
    for one in ordered:
        before = known.get(one.asset_id, AssetValues())
        after = _after(before, one)
        if after != before:
            known[one.asset_id] = after
            changed[one.asset_id] = (one.organization_id, after)
    if changed:
        execute_many(
            f"INSERT INTO asset_value (asset_id, organization_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (asset_id) DO UPDATE SET "
            + ", ".join(f"{name} = excluded.{name}" for name in AssetValues._fields),
            [(asset_id, organization_id, *values) for asset_id, (organization_id, values) in changed.items()],
        )


def _after(before: AssetValues, new: NewValues) -> AssetValues:
    """Return the values after a read; `before` itself without a meaningful change."""
    after = before
    is_lower = new.battery is not None and before.battery is not None and new.battery < before.battery
    battery_step = 1 if is_lower else BATTERY_STEP
    if new.battery is not None and _is_news(before.battery, before.battery_at, new.battery, new.at, battery_step):
        after = after._replace(battery=new.battery, millivolts=new.millivolts, battery_at=new.at)
    if new.temperature is not None and _is_news(
        before.temperature, before.temperature_at, new.temperature, new.at, TEMPERATURE_STEP
    ):
        after = after._replace(temperature=new.temperature, temperature_at=new.at)
    if new.is_pressed and (before.pressed_at is None or new.at >= before.pressed_at + PRESS_SECONDS * SECOND):
        after = after._replace(pressed_at=new.at)
    return after


def _is_news(known: int | None, known_at: int | None, new: int, at: int, step: int) -> bool:
    if known is None or known_at is None:
        return True
    if at <= known_at:
        return False
    return abs(new - known) >= step or at >= known_at + REFRESH


def find(organization_id: int, asset_id: int) -> AssetValues:
    """Return the latest values of an asset. None of a hidden person: their times say when the person was read."""
    shown = is_asset_shown("asset_id")
    sql = f"SELECT {_COLUMNS} FROM asset_value WHERE organization_id = ? AND asset_id = ? AND {shown}"
    row = execute(sql, (organization_id, asset_id)).fetchone()
    return AssetValues(*row) if row else AssetValues()


def of_assets(asset_ids: Iterable[int]) -> dict[int, AssetValues]:
    """Return the latest values of some assets of any organization. For ingest and events only."""
    ids = json_text.text(sorted(asset_ids))
    rows = execute(
        f"SELECT asset_id, {_COLUMNS} FROM asset_value WHERE asset_id IN (SELECT value FROM json_each(?))", (ids,)
    )
    return {asset_id: AssetValues(*values) for asset_id, *values in rows}


def list_low(organization_id: int, limit: int, offset: int = 0) -> list[LowBattery]:
    """Return the assets with at most `LOW` percent, the lowest first."""
    rows = execute(
        "SELECT a.id, a.name, a.external_key, v.battery, v.millivolts, v.battery_at "
        "FROM asset_value v JOIN asset a ON a.id = v.asset_id "
        f"WHERE v.organization_id = ? AND v.battery <= ? AND a.deleted_at IS NULL AND {is_asset_shown('a.id')} "
        "ORDER BY v.battery, a.id LIMIT ? OFFSET ?",
        (organization_id, LOW, limit, offset),
    )
    return [LowBattery(*row) for row in rows]


def count_low() -> list[tuple[int, int, int]]:
    """Return for each organization the assets with a battery and those of them with a low one. For metrics only."""
    return execute(
        "SELECT v.organization_id, count(*), sum(v.battery <= ?) FROM asset_value v JOIN asset a ON a.id = v.asset_id "
        "WHERE v.battery IS NOT NULL AND a.deleted_at IS NULL GROUP BY v.organization_id",
        (LOW,),
    ).fetchall()
