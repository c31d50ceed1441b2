"""Photos of assets. The caller has written them again from their pixels, so nothing else of the file is stored."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute
from edge.errors import NotFound
from edge.records import assets
from edge.records.asset_notes import check_room, remove_row

MOST_OF_ASSET = 10
MOST_OF_PERSON = 300  # in 24 hours
MAX_BYTES = 256 * 1024
SLICES = 50


class Photo(NamedTuple):
    """A photo without its image."""

    id: str
    author: str
    made_at: int  # microseconds
    width: int
    height: int


def is_stored(organization_id: int, photo_id: str) -> bool:
    sql = "SELECT 1 FROM asset_photo WHERE id = ? AND organization_id = ?"
    return execute(sql, (photo_id, organization_id)).fetchone() is not None


def check(actor: Actor, asset_id: int) -> None:
    """Raise NotFound or Conflict if a photo would be refused. Call before decoding it."""
    assets.get(actor.organization_id, asset_id)
    check_room(actor, "asset_photo", asset_id, MOST_OF_ASSET, MOST_OF_PERSON)


def add(actor: Actor, photo_id: str, asset_id: int, content: bytes, size: tuple[int, int], made_at: int) -> None:
    """Store a JPEG. A repeated id changes nothing. Raises NotFound, Conflict, OverQuota, Unavailable."""
    with acting(actor) as act:
        if execute("SELECT 1 FROM asset_photo WHERE id = ?", (photo_id,)).fetchone():
            return
        check(actor, asset_id)
        execute(
            "INSERT INTO asset_photo (id, organization_id, asset_id, person_id, made_at, received_at, width, height, "
            "content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (photo_id, actor.organization_id, asset_id, actor.person_id, made_at, clock.now(), *size, content),
        )
        quotas.charge(actor, quotas.ROW_BYTES + len(content))
        quotas.check_cap(actor, "asset_photo")
        subject = assets.subject_of(assets.get(actor.organization_id, asset_id))
        act.note("asset.photo_added", subject, {"photo": photo_id, "bytes": len(content)})


def remove(actor: Actor, asset_id: int, photo_id: str) -> None:
    """Delete a photo. Raises NotFound."""
    remove_row(actor, "photo", asset_id, photo_id, ("id", "photo"))


def of_asset(organization_id: int, asset_id: int) -> list[Photo]:
    """Return the photos of an asset, newest first."""
    rows = execute(
        "SELECT photo.id, person.name, photo.made_at, photo.width, photo.height FROM asset_photo photo "
        "JOIN person ON person.id = photo.person_id "
        "WHERE photo.asset_id = ? AND photo.organization_id = ? ORDER BY photo.made_at DESC, photo.no LIMIT ?",
        (asset_id, organization_id, MOST_OF_ASSET),
    )
    return [Photo(*row) for row in rows]


def content(organization_id: int, asset_id: int, photo_id: str) -> bytes:
    """Return the JPEG. Raises NotFound."""
    row: tuple[bytes] | None = execute(
        "SELECT content FROM asset_photo WHERE id = ? AND asset_id = ? AND organization_id = ?",
        (photo_id, asset_id, organization_id),
    ).fetchone()
    if row is None:
        raise NotFound("no such photo")
    return row[0]


def oldest_slice() -> int:
    """Return the time before which the oldest fiftieth of the photos was received, 0 without photos."""
    number = execute("SELECT count(*) FROM asset_photo").fetchone()[0]
    row = execute(
        "SELECT received_at FROM asset_photo ORDER BY received_at LIMIT 1 OFFSET ?", (number // SLICES,)
    ).fetchone()
    return row[0] + 1 if row else 0
