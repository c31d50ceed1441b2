"""Passages and doors that a site sends to its hub, and the hub's copies of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from edge import clock
from edge.database.connection import column, execute, execute_many
from edge.validation import json_text

MOST_DOORS = 1_000  # of a site, at its hub
_REF = "ifnull((SELECT -link.remote_id FROM link WHERE link.local_id = {0} AND link.peer = 0), {0})"


class SentDoor(NamedTuple):
    """A door of the site. `location` is None without one."""

    no: int
    location: int | None
    name: str


class SentPassage(NamedTuple):
    """A passage at the site, without the reads behind it."""

    no: int
    door: int
    asset: int
    at: int
    direction: int
    confidence: int
    inner_reads: int
    outer_reads: int
    since: int
    until: int
    decided_at: int
    revision: int


def passages_to_send(organization_id: int, numbers: Collection[int]) -> list[SentPassage]:
    """Return the passages that still exist, by number."""
    rows = execute(
        f"SELECT no, door_id, {_REF.format('asset_id')}, {_VALUES} FROM passage "
        "WHERE no IN (SELECT value FROM json_each(?)) "
        "AND organization_id = ? AND site_no IS NULL ORDER BY no",
        (json_text.text(sorted(numbers)), organization_id),
    )
    return [SentPassage(*row) for row in rows]


def doors_to_send(organization_id: int, door_ids: Collection[int]) -> list[SentDoor]:
    rows = execute(
        f"SELECT id, {_REF.format('location_id')}, name FROM door WHERE id IN (SELECT value FROM json_each(?)) "
        "AND organization_id = ? ORDER BY id",
        (json_text.text(sorted(door_ids)), organization_id),
    )
    return [SentDoor(*row) for row in rows]


def queue_all(organization_id: int, kind: int) -> None:
    """Queue all passages of this box for its hub, as changes of this kind."""
    execute(
        "INSERT INTO change (kind, a) SELECT ?, no FROM passage WHERE organization_id = ? AND site_no IS NULL "
        "ORDER BY no",
        (kind, organization_id),
    )


def recover(
    organization_id: int, doors: Sequence[SentDoor], passages: Sequence[SentPassage], known: Mapping[int, int]
) -> None:
    """Store doors and passages of this box that its hub has kept, with the numbers that they had.

    A door comes back without antennas. Passages whose number or asset is another one here stay at the hub.
    """
    execute_many(
        "INSERT OR IGNORE INTO door (id, organization_id, name, location_id, created_at) VALUES (?, ?, ?, ?, ?)",
        [
            (door.no, organization_id, door.name, known.get(door.location or 0), clock.now())
            for door in doors
            if door.no > 0
        ],
    )
    own = set(column("SELECT id FROM door WHERE organization_id = ?", (organization_id,)))
    execute_many(
        f"INSERT OR IGNORE INTO passage (no, door_id, asset_id, {_VALUES}, organization_id) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (one.no, one.door, known[one.asset], *one[3:], organization_id)
            for one in passages
            if one.no > 0 and one.door in own and one.asset in known
        ],
    )


# At a hub -----------------------------------------------------------------------------------------------------------


def keep_doors(organization_id: int, site_no: int, doors: Sequence[SentDoor], locations: Mapping[int, int]) -> None:
    """Store doors of a site, by its numbers. Those above the limit are left out."""
    known = _doors(site_no)
    room = MOST_DOORS - len(known)
    for door in doors:
        location_id = None if door.location is None else locations.get(door.location)
        if door.no in known:
            execute(
                "UPDATE door SET name = ?1, location_id = ?2 WHERE id = ?3 "
                "AND (name <> ?1 OR location_id IS NOT ?2 OR deleted_at IS NOT NULL)",
                (door.name, location_id, known[door.no]),
            )
        elif room > 0:
            room -= 1
            execute(
                "INSERT INTO door (organization_id, name, location_id, created_at, site_no, remote_id) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (organization_id, door.name, location_id, clock.now(), site_no, door.no),
            )


def keep_passages(
    organization_id: int, site_no: int, passages: Sequence[SentPassage], assets: Mapping[int, int]
) -> None:
    """Store passages of a site, or replace earlier states of them. Writes only differences. Of equal numbers, the last
    counts.
    """
    passages = list({one.no: one for one in passages}.values())
    doors = _doors(site_no)
    numbers = json_text.text([one.no for one in passages])
    rows = execute(
        f"SELECT remote_no, no, door_id, asset_id, {_VALUES} FROM passage "
        "WHERE site_no = ? AND remote_no IN (SELECT value FROM json_each(?))",
        (site_no, numbers),
    )
    stored = {remote_no: values for remote_no, *values in rows}
    new, changed = [], []
    for one in passages:
        if one.door not in doors:
            continue
        values = [doors[one.door], assets[one.asset], *one[3:]]
        before = stored.get(one.no)
        if before is not None and before[_DECIDED_AT] != one.decided_at:
            # A restored site used the number again: keep the earlier passage.
            execute("UPDATE passage SET remote_no = -no WHERE no = ?", (before[0],))
            before = None
        if before is None:
            new.append((*values, organization_id, site_no, one.no))
        elif before[1:] != values:
            changed.append((*values, before[0]))
    execute_many(
        f"INSERT INTO passage (door_id, asset_id, {_VALUES}, organization_id, site_no, remote_no) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        new,
    )
    execute_many(
        f"UPDATE passage SET (door_id, asset_id, {_VALUES}) = (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) WHERE no = ?",
        changed,
    )


_VALUES = "at, direction, confidence, inner_reads, outer_reads, since, until, decided_at, revision"
_DECIDED_AT = 10  # in the rows that begin with no, door and asset


def _doors(site_no: int) -> dict[int, int]:
    return dict(execute("SELECT remote_id, id FROM door WHERE site_no = ?", (site_no,)).fetchall())
