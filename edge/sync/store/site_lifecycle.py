"""A site's life at its hub: it is renamed, retired, removed, merged into another site, and returns.

Each step is one transaction, and each function may be called again after it was interrupted.
"""

from __future__ import annotations

import json
from contextlib import suppress

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, execute_many
from edge.errors import Conflict, Invalid, NotFound
from edge.records import location_tree, locations, search
from edge.records.external_keys import LOCATION_KEYS, is_key_taken, key_number, moment
from edge.records.location_tree import UNSET, Parent
from edge.records.tags import TagRow
from edge.sync.store import change_feed, mirrors, record_copies, site_copies, site_health, sites
from edge.sync.store.exchange import AssetRecord, LocationRecord
from edge.sync.store.sites import Site
from edge.texts import N_, fill
from edge.tracking import merged_copies, stays
from edge.validation.values import MAX_KEY

MOST_FORMER_CODES = 20
PAIRS = 100  # records per transaction of a merge


def rename(actor: Actor, site_no: int, *, code: str, name: str) -> Site:
    """Change name and code. The keys of the site's locations at this hub begin with the new code.

    The site learns its code with its next contact. Raises NotFound, Conflict for a taken code or key, and Invalid if a
    key would become too long.
    """
    with acting(actor) as act:
        site = sites.get_site(actor.organization_id, site_no)
        differences = {
            field: [old, new]
            for field, old, new in (("code", site.code, code), ("name", site.name, name))
            if old != new
        }
        if code != site.code:
            sites.check_code(site.organization_id, code, site.no)
            _change_code(site, code)
        place = locations.get(actor.organization_id, site.location_id)
        locations.edit(
            actor,
            site.location_id,
            {"name": name if place.name == site.name else place.name},
            code if place.external_key == site.code else place.external_key,
        )
        execute("UPDATE site SET code = ?, name = ? WHERE no = ?", (code, name, site.no))
        act.note_changes("site.renamed", Subject("site", site.no, name), differences)
    return sites.get_site(actor.organization_id, site_no)


def _change_code(site: Site, code: str) -> None:
    former = [old for old in (*json.loads(site.former_codes), site.code) if old != code][-MOST_FORMER_CODES:]
    execute("UPDATE site SET former_codes = ? WHERE no = ?", (json.dumps(former), site.no))
    rows = execute(_LOCATIONS_OF_SITE, (site.no, site.code)).fetchall()
    keys = {row[0]: f"{code}{row[1][len(site.code) :]}" for row in rows}
    for row in rows:
        key = keys[row[0]]
        if len(key) > MAX_KEY:
            text = N_("%(key)s… would be longer than %(most)s characters")
            raise Invalid.one("code", "too_long", fill(text, key=key[:40], most=MAX_KEY))
        if row[7] is None and is_key_taken(LOCATION_KEYS, site.organization_id, key):
            raise Conflict(fill(N_("location %(key)s already exists"), key=key))
    execute_many(
        "UPDATE location SET external_key = ?, key_number = ? WHERE id = ?",
        [(key, key_number(LOCATION_KEYS, key), location_id) for location_id, key in keys.items()],
    )
    search.index_records(
        "location",
        site.organization_id,
        [
            (search.Searchable(row[0], keys[row[0]], *row[2:8]), [TagRow(0, *tag) for tag in json.loads(row[8])])
            for row in rows
        ],
    )
    change_feed.add_homes(site.no)
    execute("UPDATE mirror SET home = ? WHERE peer = ? AND home = ?", (code, site.no, site.code))


_LOCATIONS_OF_SITE = """
SELECT id, external_key, name, description, is_active, valid_from, valid_to, deleted_at,
       (SELECT json_group_array(json_array(tag_type, value)) FROM tag
        WHERE tag.location_id = location.id AND tag.deleted_at IS NULL)
FROM location WHERE id IN (SELECT local_id FROM link WHERE peer = ?1 AND remote_id > 0)
AND substr(external_key, 1, length(?2) + 1) = ?2 || '-'
"""


def retire(actor: Actor, site_no: int) -> None:
    """Revoke the site's key. Its records and history stay as they are, read-only, until it returns with a new code."""
    with acting(actor) as act:
        site = sites.get_site(actor.organization_id, site_no)
        if site.retired_at is not None:
            act.note_changes("site.retired", Subject("site", site.no, site.name), {})
            return
        sites.end_key(actor, site)
        execute(
            "UPDATE site SET retired_at = ?, join_hash = NULL, join_until = NULL, last_error = NULL, rival_at = NULL "
            "WHERE no = ?",
            (clock.now(), site.no),
        )
        act.note("site.retired", Subject("site", site.no, site.name))


def remove(actor: Actor, site_no: int) -> None:
    """Remove a site and revoke its key. Its data becomes the hub's until the site returns. Raises NotFound."""
    with acting(actor) as act:
        site = sites.get_site(actor.organization_id, site_no)
        sites.end_key(actor, site)
        execute("DELETE FROM former_home WHERE site_no = ?", (site.no,))
        execute(
            "INSERT OR REPLACE INTO former_home (record_id, site_no, updated_at) "
            "SELECT record_id, peer, ifnull(a.updated_at, l.updated_at) FROM mirror "
            "LEFT JOIN asset a ON a.id = record_id LEFT JOIN location l ON l.id = record_id "
            "WHERE peer = ? AND ifnull(a.id, l.id) IS NOT NULL",
            (site.no,),
        )
        _end(site, None)
        act.note("site.removed", Subject("site", site.no, site.name))


def _end(site: Site, merged_into: int | None) -> None:
    """Make the site's records the hub's, and remove the site from the list."""
    change_feed.add_homes(site.no)
    execute(
        "UPDATE site SET removed_at = ?, join_hash = NULL, merged_into = ? WHERE no = ?",
        (clock.now(), merged_into, site.no),
    )
    for table in ("mirror", "conflict", "set_aside"):
        execute(f"DELETE FROM {table} WHERE peer = ?", (site.no,))
    site_health.forget(site.no)
    if not sites.is_hub():
        change_feed.stop()


def merge(actor: Actor, site_no: int, into_no: int) -> Site:
    """Merge a site into another one: its records become the hub's, and its locations move below the other site's.

    Records that both sites have from one box, since it joined as both, become one record with both histories. Nothing
    else is merged. The site's key is revoked. If interrupted, call it again. Returns the other site. Raises NotFound,
    and Conflict while the site has conflicts or is being merged into a third one.
    """
    while not _merge_step(actor, site_no, into_no):
        pass
    return sites.get_site(actor.organization_id, into_no)


def _merge_step(actor: Actor, site_no: int, into_no: int) -> bool:
    """Merge some records. Returns True after the last step."""
    with acting(actor) as act:
        into = sites.get_site(actor.organization_id, into_no)
        if sites.is_merged(actor.organization_id, site_no, into_no):
            act.note_changes("site.merged", Subject("site", site_no, into.name), {})
            return True  # an earlier call was interrupted after its last step
        site = sites.get_site(actor.organization_id, site_no)
        _check_merge(site, into)
        subject = Subject("site", site.no, site.name)
        if site.merged_into is None:
            sites.end_key(actor, site)
            execute(
                "UPDATE site SET merged_into = ?, retired_at = ifnull(retired_at, ?), join_hash = NULL WHERE no = ?",
                (into.no, clock.now(), site.no),
            )
            act.note("site.merge_begun", subject, {"into": into.code})
            return False
        is_one_box = site.instance is not None and site.instance == into.instance
        if is_one_box and (pairs := execute(_PAIRS, (site.no, into.no, PAIRS)).fetchall()):
            for remote_id, older, newer in pairs:
                _unite(site, into, remote_id, older, newer)
            act.note_changes("site.merged", subject, {})
            return False
        if is_one_box and merged_copies.drop_repeated_rows(site.no, into.no, PAIRS):
            act.note_changes("site.merged", subject, {})
            return False
        if is_one_box:
            change_feed.add_homes(site.no)
            execute(_HAND_OVER, {"site": site.no, "into": into.no, "code": into.code})
        mirrors.retry_conflicts(into.peer)
        _end(site, into.no)
        execute("UPDATE OR IGNORE link SET peer = ? WHERE peer = ? AND remote_id > 0", (into.no, site.no))
        _move_place(actor, site, into)
        act.note("site.merged", subject, {"into": into.code})
        return True


def _move_place(actor: Actor, site: Site, into: Site) -> None:
    """Move the site's location below the other site's, or delete it if nothing is left below."""
    with suppress(NotFound):  # somebody has deleted it
        if location_tree.count_descendants(site.location_id):
            locations.patch(actor, site.location_id, {}, parent=Parent(into.location_id, UNSET))
            return
        try:
            locations.delete(actor, site.location_id)
        except Conflict:  # assets are there
            locations.patch(actor, site.location_id, {}, parent=Parent(into.location_id, UNSET))


_PAIRS = """
SELECT f.remote_id, f.local_id, t.local_id FROM link f
JOIN link t ON t.peer = ?2 AND t.remote_id = f.remote_id AND t.created_at = f.created_at AND t.local_id <> f.local_id
WHERE f.peer = ?1 AND f.remote_id > 0 ORDER BY f.remote_id LIMIT ?3
"""


# Records that the other site has sent, too, and that were recognized as the same then.
_HAND_OVER = """
UPDATE mirror SET peer = :into, home = :code WHERE peer = :site AND record_id IN (
    SELECT f.local_id FROM link f JOIN link t ON t.peer = :into AND t.remote_id = f.remote_id
    AND t.local_id = f.local_id AND t.created_at = f.created_at WHERE f.peer = :site AND f.remote_id > 0)
"""


def _check_merge(site: Site, into: Site) -> None:
    if site.no == into.no:
        raise Conflict(N_("a site cannot be merged into itself"))
    if site.merged_into not in (None, into.no):
        text = N_("%(site)s is being merged into another site; merge it into that one again")
        raise Conflict(fill(text, site=site.code))
    if into.merged_into is not None:
        raise Conflict(fill(N_("%(site)s itself is being merged into another site"), site=into.code))
    count = execute("SELECT count(*) FROM conflict WHERE peer = ?", (site.no,)).fetchone()[0]
    if count:
        text = N_("%(site)s has %(number)s conflicts; resolve them first, since a merge would discard them")
        raise Conflict(fill(text, site=site.code, number=count))


def _unite(site: Site, into: Site, remote_id: int, older: int, newer: int) -> None:
    """Keep the older one of two records that are the same one of one box, with both histories.

    Other sites know the older one. The newer one is in conflict with it, unless the keys were changed meanwhile.
    """
    organization_id = into.organization_id
    record: AssetRecord | LocationRecord = site_copies.record(into.peer, remote_id)
    execute("DELETE FROM link WHERE peer = ? AND remote_id = ?", (site.no, remote_id))
    execute("DELETE FROM mirror WHERE record_id = ?", (newer,))
    record_copies.retire(organization_id, record_copies.table_of(record), newer, moment())
    mirrors.give(into.peer, record, older)
    if isinstance(record, AssetRecord):
        stays.move_to_asset(organization_id, newer, older, skip_taken=True)
        change_feed.add_asset(older)
        return
    stays.move_to_location(organization_id, newer, older)
    execute("UPDATE location SET parent_id = ? WHERE parent_id = ? AND id <> ?", (older, newer, older))
