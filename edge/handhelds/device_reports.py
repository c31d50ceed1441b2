"""Reports of handhelds on their unsent scans of a stock-take or an expected list, for the person who signs it off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge.database.connection import execute, writing
from edge.validation import json_text

MAX_DEVICES = 100  # of one; reports of further devices are ignored


class _Kind(NamedTuple):
    table: str
    column: str  # of the id of the stock-take or list
    open: str  # ids of those that are open


KINDS = {
    "stock_take": _Kind(
        "stock_take_device",
        "stock_take_id",
        "SELECT id FROM stock_take WHERE organization_id = :organization AND ifnull(finished_at, cancelled_at) IS NULL",
    ),
    "list": _Kind(
        "expected_list_device",
        "list_id",
        "SELECT id FROM expected_list WHERE organization_id = :organization AND signed_at IS NULL",
    ),
}


class Report(NamedTuple):
    """The state of a stock-take or list on a device. `signed_id` is the id of the stock-take or list."""

    signed_id: str | int
    is_open: bool
    unsent: int  # number of scans and undos
    unsent_since: int | None


class Device(NamedTuple):
    """The last report of a device. One where it is open may have more unsent scans."""

    id: str
    name: str
    is_open: bool
    unsent: int
    unsent_since: int | None
    reported_at: int


def record(
    organization_id: int, kind: str, device: str, name: str, reports: Sequence[Report], reported_at: int
) -> None:
    """Replace the reports of a device: it reports all of a kind that are open there or have unsent scans."""
    table, column, is_open = KINDS[kind]
    if not reports and not execute(f"SELECT 1 FROM {table} WHERE device = ?", (device,)).fetchone():
        return  # the usual case, without a transaction
    common = {"organization": organization_id, "device": device, "name": name, "at": reported_at}
    common["reported"] = json_text.text([one.signed_id for one in reports])
    with writing():
        others = f"{column} IN ({is_open}) AND {column} NOT IN (SELECT value FROM json_each(:reported))"
        execute(f"DELETE FROM {table} WHERE device = :device AND {others}", common)
        for one in reports:
            execute(_STORE.format(table, column, is_open), {**common, **one._asdict(), "most": MAX_DEVICES})


_STORE = """
INSERT OR REPLACE INTO {0} ({1}, device, name, is_open, unsent, unsent_since, reported_at)
SELECT :signed_id, :device, :name, :is_open, :unsent, :unsent_since, :at WHERE :signed_id IN ({2})
AND (SELECT count(*) FROM {0} WHERE {1} = :signed_id AND device <> :device) < :most
"""


def devices_of(kind: str, signed_id: str | int) -> list[Device]:
    """Return the devices of a stock-take or list by name."""
    table, column, _ = KINDS[kind]
    sql = f"SELECT device, name, is_open, unsent, unsent_since, reported_at FROM {table} WHERE {column} = ?"
    return [Device._make(row) for row in execute(f"{sql} ORDER BY name, device", (signed_id,))]


def forget(kind: str, signed_id: str | int) -> None:
    """Delete the reports of a stock-take or list that was signed off or cancelled."""
    table, column, _ = KINDS[kind]
    execute(f"DELETE FROM {table} WHERE {column} = ?", (signed_id,))
