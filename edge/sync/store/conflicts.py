"""Records of two boxes that clash at a hub, and how a person resolves that."""

from __future__ import annotations

import json
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, writing
from edge.database.lists import Page
from edge.errors import Conflict, NotFound
from edge.records import assets, locations, search, tagging, tags
from edge.records.external_keys import moment, next_update
from edge.records.tags import TagRow
from edge.sync.store import mirrors, record_copies, sites

PER_PAGE = 50
MOST = 200  # merged in one transaction


class Clash(NamedTuple):
    """`key` and `name` are those of the incoming record; `local_id` is the record that was here before."""

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
    is_kept_here: int  # the record that was here before: whether this hub is its home

    @property
    def ends_by_renaming(self) -> bool:
        """Whether the two share a key, and the record that was here before may be changed here."""
        wanted = self.key if self.kind == "asset" else f"{self.site_code}-{self.key}"
        return bool(self.is_kept_here) and self.local_key == wanted


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
) -> Page[Clash]:
    """One page of the conflicts at a hub, of one site or of all; the newest first."""
    wanted = f"{_SELECT} AND ifnull(c.peer = ?, 1) "
    count = execute(f"SELECT count(*) FROM ({wanted})", (organization_id, site_no)).fetchone()[0]
    rows = execute(
        wanted + "ORDER BY c.since DESC, c.peer, c.remote_id LIMIT ? OFFSET ?",
        (organization_id, site_no, limit or PER_PAGE, offset),
    )
    return Page([Clash(*row) for row in rows], count)


def same_thing(actor: Actor, site_no: int, remote_id: int) -> None:
    """Merge two assets that are one thing: the hub adopts it, with the tags of both, and both sites mirror it.

    Raises NotFound without such a clash, Conflict where it is not between two assets.
    """
    with acting(actor) as act:
        clash = _get(actor.organization_id, site_no, remote_id)
        record = json.loads(
            execute("SELECT record FROM conflict WHERE peer = ? AND remote_id = ?", (site_no, remote_id)).fetchone()[0]
        )
        kept = execute(
            "SELECT id, external_key, name, description, is_active, valid_from, valid_to, deleted_at, updated_at "
            "FROM asset WHERE id = ? AND organization_id = ? AND deleted_at IS NULL",
            (clash.local_id, actor.organization_id),
        ).fetchone()
        if clash.kind != "asset" or kept is None:
            raise Conflict("only two assets can be the same thing; give one of the two another key or tag at its home")
        _merge(actor.organization_id, clash)
        for tag_type, value in record[11]:
            _add_tag(actor.organization_id, clash.local_id, tag_type, value)
        execute("UPDATE asset SET updated_at = ? WHERE id = ?", (next_update(kept[8]), clash.local_id))
        found_tags = execute(
            "SELECT id, tag_type, value FROM tag WHERE asset_id = ? AND deleted_at IS NULL", (clash.local_id,)
        )
        search.remember(
            "asset", actor.organization_id, search.Searchable(*kept[:8]), [TagRow(*tag) for tag in found_tags]
        )
        subject = Subject("asset", clash.local_id, f"{kept[2]} ({kept[1]})")
        act.note("asset.merged", subject, {"site": clash.site_code, "was_kept_at": clash.home})


def merge_agreeing(actor: Actor, site_no: int) -> int:
    """Merge the assets of a site that agree with the one here in key, name and a tag; returns how many, at most MOST.

    Whoever calls it again gets the next ones. Raises NotFound for an unknown site.
    """
    sites.get_site(actor.organization_id, site_no)
    with writing():
        agreeing = execute(_AGREEING, (site_no, actor.organization_id, MOST)).fetchall()
        for (remote_id,) in agreeing:
            same_thing(actor, site_no, remote_id)
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
    """Give the record that was here before another key, so that the incoming one can have its own.

    Raises NotFound without such a clash; Conflict where the record is kept elsewhere, or for a key that is taken.
    """
    with writing():
        clash = _get(actor.organization_id, site_no, remote_id)
        if not clash.ends_by_renaming:
            raise Conflict(f"another key at this hub does not resolve it: change the key or the tag at {clash.home}")
        if external_key == clash.local_key:
            raise Conflict(f"{external_key} is the key that both have; choose another")
        if clash.kind == "asset":
            assets.rename(actor, clash.local_id, external_key)
        else:
            locations.rename(actor, clash.local_id, external_key)
        mirrors.retry_conflicts(sites.get_site(actor.organization_id, site_no).peer, remote_id)


def _get(organization_id: int, site_no: int, remote_id: int) -> Clash:
    row = execute(_SELECT + "AND c.peer = ? AND c.remote_id = ?", (organization_id, site_no, remote_id)).fetchone()
    if row is None:
        raise NotFound("this conflict no longer exists")
    return Clash(*row)


def _merge(organization_id: int, clash: Clash) -> None:
    """Link the site's asset to the record that was here, and make the hub its home."""
    shell = execute(
        "SELECT local_id FROM link WHERE peer = ? AND remote_id = ?", (clash.site_no, clash.remote_id)
    ).fetchone()[0]
    execute(
        "UPDATE link SET local_id = ? WHERE peer = ? AND remote_id = ?",
        (clash.local_id, clash.site_no, clash.remote_id),
    )
    execute("DELETE FROM conflict WHERE peer = ? AND remote_id = ?", (clash.site_no, clash.remote_id))
    execute("DELETE FROM mirror WHERE record_id = ?", (clash.local_id,))
    if shell != clash.local_id:
        execute(
            "UPDATE track SET asset_id = ? WHERE asset_id = ? AND organization_id = ?",
            (clash.local_id, shell, organization_id),
        )
        record_copies.retire(organization_id, "asset", shell, moment())


def _add_tag(organization_id: int, asset_id: int, tag_type: str, value: str) -> None:
    taken = execute(
        "SELECT 1 FROM tag WHERE organization_id = ? AND tag_type = ? AND value = ? AND deleted_at IS NULL",
        (organization_id, tag_type, value),
    ).fetchone()
    if not taken:
        tag = tags.NewTag(tag_type, value)
        tags.add_all(organization_id, "asset", asset_id, [tag], moment())
        tagging.take_over(organization_id, [tag])
