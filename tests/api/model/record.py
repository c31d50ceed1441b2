"""Model of an asset or a location."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.api.model.organization import Organization

SECOND = 1_000_000
HOUR = 3600 * SECOND
GAP = 300 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Body = dict[str, Any]
Tag = tuple[str, str]


def moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def wire(micros: int | None) -> str | None:
    """Format a time (interface: Timestamps 1)."""
    if micros is None:
        return None
    at = moment(micros)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def whole_millisecond(micros: int) -> int:
    """Truncate a time set by the server to the precision of the API."""
    return micros // 1000 * 1000


def instant(text: str | None) -> int | None:
    return None if text is None else (datetime.fromisoformat(text.upper()) - EPOCH) // timedelta(microseconds=1)


class Sighting(NamedTuple):
    at: int
    location: Record
    by_person: bool


@dataclass(eq=False)
class Record:
    """An asset or a location. `updated_at` is the server's last value."""

    owner: Organization
    kind: str
    id: int
    external_key: str
    name: str
    created_at: int
    updated_at: str
    valid_from: int
    valid_to: int | None = None
    description: str | None = None
    is_active: bool = True
    metadata: Body = field(default_factory=dict)
    deleted_at: int | None = None
    tags: dict[int, Tag] = field(default_factory=dict)
    parent: Record | None = None
    sightings: list[Sighting] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.kind} {self.external_key}"

    @property
    def path(self) -> str:
        return f"/{self.kind}s/{self.id}"

    @property
    def shown(self) -> Body:
        """Return the JSON of the record (interface: Asset))."""
        body: Body = {
            "id": self.id,
            "external_key": self.external_key,
            "name": self.name,
            "description": self.description,
            "is_active": self.is_active,
            "valid_from": wire(self.valid_from),
            "valid_to": wire(self.valid_to),
            "created_at": wire(self.created_at),
            "updated_at": self.updated_at,
            "deleted_at": wire(self.deleted_at),
            "tags": [{"id": no, "tag_type": kind, "value": value} for no, (kind, value) in sorted(self.tags.items())],
        }
        if self.kind == "asset":
            return body | {"metadata": self.metadata}
        parent = self.live_parent
        return body | {
            "parent_id": parent.id if parent else None,
            "parent_external_key": parent.external_key if parent else None,
        }

    @property
    def live(self) -> bool:
        return self.deleted_at is None

    @property
    def live_parent(self) -> Record | None:
        return self.parent if self.parent and self.parent.live else None

    def effective(self, now: int) -> bool:
        """Return True if the record is on a list (interface: Lists)."""
        return self.valid_from <= now and (self.valid_to is None or now < self.valid_to)

    def listed(self, now: int, *, include_deleted: bool) -> bool:
        return self.effective(now) if self.live else include_deleted

    def contains(self, q: str, *, description: bool = True) -> bool:
        texts = [self.name, self.external_key, *(value for _, value in self.tags.values())]
        texts += [self.description or ""] if description else []
        return any(q.casefold() in text.casefold() for text in texts)

    # Tree

    @property
    def ancestors(self) -> list[Record]:
        """Ancestors, root first."""
        return [*self.parent.ancestors, self.parent] if self.parent else []

    @property
    def children(self) -> list[Record]:
        """Live children by name, then id."""
        live = [one for one in self.owner.live("location") if one.parent is self]
        return sorted(live, key=lambda one: (one.name, one.id))

    @property
    def descendants(self) -> list[Record]:
        return [record for child in self.children for record in (child, *child.descendants)]

    # Tracking

    def sight(self, one: Sighting) -> None:
        """Record a scan. A repeated read by a fixed reader is ignored; scans by persons are all stored (interface:
        Tracking).
        """
        if one.by_person or one not in self.sightings:
            self.sightings.append(one)

    @property
    def seen(self) -> list[Sighting]:
        """Scans by time of observation, then by order of arrival."""
        return sorted(self.sightings, key=lambda one: one.at)

    def can_tell(self, one: Sighting) -> bool:
        """Return True if the model predicts the history exactly. For fixed readers only stays are stored, so late scans
        that split a stay, fall between scans by persons, or equal another one's time are not predicted.
        """
        others = [one, *self.sightings]
        if all(other.by_person for other in others):
            return True
        later = [other for other in self.seen if other.at > one.at]
        is_mixed = len({other.by_person for other in others}) > 1
        splits = bool(later) and later[0] not in self.stays and later[0].location is not one.location
        return len({other.at for other in others}) == len(others) and not (later and (is_mixed or splits))

    @property
    def stays(self) -> list[Sighting]:
        """Rows of the history (interface: Tracking): moves, scans by persons, and returns to a fixed reader after the
        gap.
        """
        rows: list[Sighting] = []
        last_seen = 0
        for one in self.seen:
            moved = not rows or one.location is not rows[-1].location
            if moved or one.by_person or one.at - last_seen > GAP:
                rows.append(one)
            last_seen = one.at
        return rows

    @property
    def dwelling(self) -> Sighting:
        """First read of the current stay."""
        first = self.seen[-1]
        for one in reversed(self.seen):
            if one.location is not first.location:
                break
            first = one
        return first

    @property
    def history(self) -> list[Body]:
        """History, newest first (interface: Tracking rows AssetHistoryItem)."""
        rows = self.stays
        before = [None, *(row.at for row in rows)]
        return [
            {
                "event_observed_at": wire(row.at),
                "location_id": row.location.id,
                "location_external_key": row.location.external_key,
                "duration_seconds": None if since is None else (row.at - since) // SECOND,
            }
            for row, since in zip(rows, before, strict=False)
        ][::-1]

    def place(self, now: int) -> Body:
        """Return the row of the report (interface: Tracking rows AssetLocationItem; Tracking)."""
        last, since = self.seen[-1], self.dwelling.at
        location = last.location if last.location.live and last.location.effective(now) else None
        return {
            "asset_id": self.id,
            "asset_external_key": self.external_key,
            "location_id": location.id if location else None,
            "location_external_key": location.external_key if location else None,
            "asset_deleted_at": wire(self.deleted_at),
            "asset_last_seen": wire(last.at),
            "dwell_started_at": wire(since),
            "dwell_seconds": (last.at - since) // SECOND,
        }
