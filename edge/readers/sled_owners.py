"""Present and former owners of sleds."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from edge.database.connection import execute


class Owner(Struct, frozen=True):
    """Owner of a sled since a time (microseconds): a person's, a handheld's, or nobody's."""

    since: int
    person_id: int | None
    device_id: int | None

    @property
    def is_somebody(self) -> bool:
        return self.person_id is not None or self.device_id is not None


def owners_of(reader_id: int) -> list[Owner]:
    """Return the owners of a sled, oldest first; none for a reader that never was a sled."""
    sql = "SELECT since, person_id, device_id FROM sled_assignment WHERE reader_id = ? ORDER BY since"
    return [Owner(*row) for row in execute(sql, (reader_id,))]


def all_owners() -> dict[int, list[Owner]]:
    """Return the owners of all sleds by reader. For ingest only."""
    owners: dict[int, list[Owner]] = {}
    for reader_id, *row in execute(
        "SELECT reader_id, since, person_id, device_id FROM sled_assignment ORDER BY reader_id, since"
    ):
        owners.setdefault(reader_id, []).append(Owner(*row))
    return owners


def owner_at(owners: Sequence[Owner], at: int) -> Owner | None:
    """Return the owner of the sled at a time; None if it was nobody's."""
    for owner in reversed(owners):
        if owner.since <= at:
            return owner if owner.is_somebody else None
    return None
