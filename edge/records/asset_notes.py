"""Notes of assets: what a person wrote, with author and time."""

from __future__ import annotations

from typing import NamedTuple

from edge import clock
from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.connection import execute
from edge.errors import Conflict, Invalid, NotFound
from edge.records import assets
from edge.texts import N_

MOST_OF_ASSET = 200
MOST_OF_PERSON = 500  # in 24 hours
MAX_NOTE = 1000  # characters


class Note(NamedTuple):
    id: str
    text: str
    author: str
    made_at: int  # microseconds


def add(actor: Actor, note_id: str, asset_id: int, text: str, made_at: int) -> None:
    """Store a note. A repeated id changes nothing. Raises NotFound, Invalid, Conflict, OverQuota."""
    text = text.strip()
    if not 1 <= len(text) <= MAX_NOTE:
        raise Invalid.one("text", "invalid_value", N_("A note must have 1 to 1,000 characters"))
    with acting(actor) as act:
        asset = assets.get(actor.organization_id, asset_id)
        if execute("SELECT 1 FROM asset_note WHERE id = ?", (note_id,)).fetchone():
            return
        check_room(actor, "asset_note", asset_id, MOST_OF_ASSET, MOST_OF_PERSON)
        execute(
            "INSERT INTO asset_note (id, organization_id, asset_id, person_id, text, made_at, received_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (note_id, actor.organization_id, asset_id, actor.person_id, text, made_at, clock.now()),
        )
        quotas.charge(actor, quotas.ROW_BYTES + 2 * len(text.encode()), is_scan=True)
        quotas.check_cap(actor, "asset_note")
        act.note("asset.note_added", assets.subject_of(asset), {"text": text})


def check_room(actor: Actor, table: str, asset_id: int, most_of_asset: int, most_of_person: int) -> None:
    """Raise Conflict if the asset, or the person in 24 hours, has as many rows as it may. `table` is a constant."""
    of_asset = execute(f"SELECT count(*) FROM {table} WHERE asset_id = ?", (asset_id,)).fetchone()[0]
    if of_asset >= most_of_asset:
        raise Conflict(N_("This asset has too many of them. An editor can delete some on its page"))
    since = clock.now() - clock.DAY
    by_person = f"SELECT count(*) FROM {table} WHERE person_id = ? AND received_at > ?"
    if execute(by_person, (actor.person_id, since)).fetchone()[0] >= most_of_person:
        raise Conflict(N_("You added too many today. Try again tomorrow"))


def remove(actor: Actor, asset_id: int, note_id: str) -> None:
    """Delete a note. Raises NotFound."""
    remove_row(actor, "note", asset_id, note_id, ("text", "text"))


def remove_row(actor: Actor, noun: str, asset_id: int, row_id: str, audited: tuple[str, str]) -> None:
    """Delete a note or photo. `audited`: the column that the audit records, and its name there. Raises NotFound."""
    with acting(actor) as act:
        row = execute(
            f"DELETE FROM asset_{noun} WHERE id = ? AND asset_id = ? AND organization_id = ? RETURNING {audited[0]}",
            (row_id, asset_id, actor.organization_id),
        ).fetchone()
        if row is None:
            raise NotFound(f"no such {noun}")
        subject = assets.subject_of(assets.get_any(actor.organization_id, asset_id))
        act.note(f"asset.{noun}_deleted", subject, {audited[1]: row[0]})


def of_asset(organization_id: int, asset_id: int) -> list[Note]:
    """Return the notes of an asset, newest first."""
    rows = execute(
        "SELECT note.id, note.text, person.name, note.made_at FROM asset_note note "
        "JOIN person ON person.id = note.person_id "
        "WHERE note.asset_id = ? AND note.organization_id = ? ORDER BY note.made_at DESC, note.id LIMIT ?",
        (asset_id, organization_id, MOST_OF_ASSET),
    )
    return [Note(*row) for row in rows]
