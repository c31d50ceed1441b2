"""A site's life at its hub: it is renamed, retired, removed, and returns.

Each step is one transaction, and each function may be called again after it was interrupted.
"""

from __future__ import annotations

import json

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database.connection import execute, execute_many
from edge.errors import Conflict, Invalid
from edge.records import locations, search
from edge.records.external_keys import LOCATION_KEYS, is_key_taken, key_number
from edge.sync.store import change_feed, site_health, sites
from edge.sync.store.sites import Site
from edge.texts import N_, fill
from edge.validation.values import MAX_KEY

MOST_FORMER_CODES = 20


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
    keys: dict[int, str] = {}
    for location_id, old_key, deleted_at in execute(_LOCATIONS_OF_SITE, (site.no, site.code)).fetchall():
        key = keys[location_id] = f"{code}{old_key[len(site.code) :]}"
        if len(key) > MAX_KEY:
            text = N_("%(key)s… would be longer than %(most)s characters")
            raise Invalid.one("code", "too_long", fill(text, key=key[:40], most=MAX_KEY))
        if deleted_at is None and is_key_taken(LOCATION_KEYS, site.organization_id, key):
            raise Conflict(fill(N_("location %(key)s already exists"), key=key))
    execute_many(
        "UPDATE location SET external_key = ?, key_number = ? WHERE id = ?",
        [(key, key_number(LOCATION_KEYS, key), location_id) for location_id, key in keys.items()],
    )
    search.index_stored("location", keys)
    change_feed.add_homes(site.no)
    execute("UPDATE mirror SET home = ? WHERE peer = ? AND home = ?", (code, site.no, site.code))


_LOCATIONS_OF_SITE = """
SELECT id, external_key, deleted_at FROM location
WHERE id IN (SELECT local_id FROM link WHERE peer = ?1 AND remote_id > 0)
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
        change_feed.add_homes(site.no)
        execute(
            "UPDATE site SET removed_at = ?, join_hash = NULL, merged_into = NULL WHERE no = ?", (clock.now(), site.no)
        )
        for table in ("mirror", "conflict", "set_aside"):
            execute(f"DELETE FROM {table} WHERE peer = ?", (site.no,))
        site_health.forget(site.no)
        if not sites.is_hub():
            change_feed.leave_sync()
        act.note("site.removed", Subject("site", site.no, site.name))
