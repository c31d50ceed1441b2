"""Conflicts between records of two machines at a hub, and their resolution by a person."""

from __future__ import annotations

import json
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import column, execute, writing
from edge.database.lists import Page
from edge.errors import Conflict, NotFound
from edge.records import assets, locations, search, tagging, tags
from edge.records.external_keys import moment, next_update
from edge.sync.store import mirrors, record_copies, sites
from edge.sync.store.exchange import HUB
from edge.texts import N_, fill, refill
from edge.tracking import stays

PER_PAGE = 50
REASONS = (
    N_("tag %(tags)s belongs to another record here"),
    N_("asset %(key)s already exists here"),
    N_("location %(key)s already exists here"),
)
MOST = 200  # merged per transaction


class SyncConflict(NamedTuple):
    """A conflict. `key` and `name` belong to the incoming record; `local_id` is the existing record."""

    site_no: int
    site_code: str
    remote_id: int
    kind: str
    key: str
    name: str
    reason: str
    local_id: int
    local_key: str
    local_name: str
    home: str
    since: int
    is_kept_here: int  # 1 if this hub is the home of the existing record

    @property
    def may_rename(self) -> bool:
        """Return True if both share a key and the existing record may be changed here."""
        incoming_key = self.key if self.kind == "asset" else f"{self.site_code}-{self.key}"
        return bool(self.is_kept_here) and self.local_key == incoming_key

    @property
    def explanation(self) -> str:
        """Return the reason as a text that can be translated."""
        return refill(self.reason, REASONS)


_SELECT = """
SELECT s.no, s.code, c.remote_id, iif(c.kind = 2, 'asset', 'location'),
       c.record ->> iif(c.kind = 2, 1, 2), c.record ->> iif(c.kind = 2, 2, 3), c.reason, c.local_id,
       ifnull(a.external_key, l.external_key), ifnull(a.name, l.name),
       ifnull((SELECT home FROM mirror WHERE record_id = c.local_id), 'this hub'), c.since,
       NOT EXISTS (SELECT 1 FROM mirror WHERE record_id = c.local_id)
FROM conflict c JOIN site s ON s.no = c.peer AND s.removed_at IS NULL
LEFT JOIN asset a ON a.id = c.local_id LEFT JOIN location l ON l.id = c.local_id
WHERE s.organization_id = ?
"""


def list_conflicts(
    organization_id: int, *, site_no: int | None = None, limit: int | None = None, offset: int = 0
) -> Page[SyncConflict]:
    """Return one page of the conflicts of one site or of all sites, newest first."""
    query = f"{_SELECT} AND ifnull(c.peer = ?, 1) "
    count = execute(f"SELECT count(*) FROM ({query})", (organization_id, site_no)).fetchone()[0]
    rows = execute(
        query + "ORDER BY c.since DESC, c.peer, c.remote_id LIMIT ? OFFSET ?",
        (organization_id, site_no, limit or PER_PAGE, offset),
    )
    return Page([SyncConflict(*row) for row in rows], count)


def merge(actor: Actor, site_no: int, remote_id: int) -> None:
    """Merge two assets that are the same. The hub becomes its home, it gets the tags of both, and both sites mirror it.

    Raises NotFound if there is no such conflict, Conflict unless it is between two assets.
    """
    with acting(actor) as act:
        conflict = _get(actor.organization_id, site_no, remote_id)
        record = json.loads(
            execute("SELECT record FROM conflict WHERE peer = ? AND remote_id = ?", (site_no, remote_id)).fetchone()[0]
        )
        kept = execute(
            "SELECT external_key, name, updated_at FROM asset "
            "WHERE id = ? AND organization_id = ? AND deleted_at IS NULL",
            (conflict.local_id, actor.organization_id),
        ).fetchone()
        if conflict.kind != "asset" or kept is None:
            raise Conflict(N_("only assets can be merged; change the key or tag of one of the two at its home"))
        _merge(actor.organization_id, conflict)
        for tag_type, value in record[11]:
            _add_tag(actor.organization_id, conflict.local_id, tag_type, value)
        execute("UPDATE asset SET updated_at = ? WHERE id = ?", (next_update(kept[2]), conflict.local_id))
        search.index_stored("asset", [conflict.local_id])
        subject = Subject("asset", conflict.local_id, f"{kept[1]} ({kept[0]})")
        act.note("asset.merged", subject, {"site": conflict.site_code, "was_kept_at": conflict.home})


def merge_agreeing(actor: Actor, site_no: int) -> int:
    """Merge up to MOST assets of a site that match the hub's in key, name and one tag. Returns how many.

    Call again for more. Raises NotFound for an unknown site.
    """
    sites.get_site(actor.organization_id, site_no)
    with writing():
        agreeing = execute(_AGREEING, (site_no, actor.organization_id, MOST)).fetchall()
        for (remote_id,) in agreeing:
            merge(actor, site_no, remote_id)
    return len(agreeing)


_AGREEING = """
SELECT c.remote_id FROM conflict c JOIN asset a ON a.id = c.local_id AND a.deleted_at IS NULL
WHERE c.peer = ? AND c.kind = 2 AND a.organization_id = ?
AND c.record ->> 1 = a.external_key AND c.record ->> 2 = a.name
AND EXISTS (SELECT 1 FROM json_each(c.record, '$[11]') k JOIN tag ON tag.asset_id = a.id AND tag.deleted_at IS NULL
            AND tag.tag_type = k.value ->> 0 AND tag.value = k.value ->> 1)
ORDER BY c.since, c.remote_id LIMIT ?
"""


def rename(actor: Actor, site_no: int, remote_id: int, external_key: str) -> None:
    """Give the existing record another key; the incoming record gets the current one.

    Raises NotFound if there is no such conflict, Conflict if the record's home is elsewhere or the key is taken.
    """
    with writing():
        conflict = _get(actor.organization_id, site_no, remote_id)
        if not conflict.may_rename:
            text = N_("another key at this hub does not resolve this conflict: change the key or tag at %(home)s")
            raise Conflict(fill(text, home=conflict.home))
        if external_key == conflict.local_key:
            raise Conflict(fill(N_("%(key)s is the key of both; choose another one"), key=external_key))
        if conflict.kind == "asset":
            assets.rename(actor, conflict.local_id, external_key)
        else:
            locations.rename(actor, conflict.local_id, external_key)
        mirrors.retry_conflicts(sites.get_site(actor.organization_id, site_no).peer, remote_id)


def _get(organization_id: int, site_no: int, remote_id: int) -> SyncConflict:
    row = execute(_SELECT + "AND c.peer = ? AND c.remote_id = ?", (organization_id, site_no, remote_id)).fetchone()
    if row is None:
        raise NotFound("this conflict no longer exists")
    return SyncConflict(*row)


def _merge(organization_id: int, conflict: SyncConflict) -> None:
    """Link the site's asset to the existing record, and make the hub its home."""
    placeholder = execute(
        "SELECT local_id FROM link WHERE peer = ? AND remote_id = ?", (conflict.site_no, conflict.remote_id)
    ).fetchone()[0]
    execute(
        "UPDATE link SET local_id = ? WHERE peer = ? AND remote_id = ?",
        (conflict.local_id, conflict.site_no, conflict.remote_id),
    )
    execute("DELETE FROM conflict WHERE peer = ? AND remote_id = ?", (conflict.site_no, conflict.remote_id))
    execute("DELETE FROM mirror WHERE record_id IN (?, ?)", (conflict.local_id, placeholder))
    if placeholder != conflict.local_id:
        stays.move_to_asset(organization_id, placeholder, conflict.local_id)
        record_copies.retire(organization_id, "asset", placeholder, moment())


def _add_tag(organization_id: int, asset_id: int, tag_type: str, value: str) -> None:
    taken = execute(
        "SELECT 1 FROM tag WHERE organization_id = ? AND tag_type = ? AND value = ? AND deleted_at IS NULL",
        (organization_id, tag_type, value),
    ).fetchone()
    if not taken:
        tag = tags.NewTag(tag_type, value)
        prepared = tags.prepare_all(organization_id, "asset", asset_id, [tag])
        tags.add_prepared(organization_id, "asset", prepared, moment())
        tagging.send_tag_attached(organization_id, [tag])


def copies_in_conflict(limit: int) -> list[int]:
    """Return the hub's ids of some of its assets that are in conflict here. For sites."""
    return column(
        "SELECT remote_id FROM conflict WHERE peer = ? AND remote_id > 0 ORDER BY random() LIMIT ?", (HUB, limit)
    )
