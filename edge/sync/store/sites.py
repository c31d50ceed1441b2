"""The sites of a hub. Each joins with a one-time code and has its own key and its own branch of locations."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database import change_log
from edge.database.connection import execute, find_scalar, scalar, update, writing
from edge.database.sliced_writing import write_in_slices
from edge.database.triggers import NEWEST_TRACK, Follower
from edge.errors import Conflict, NotFound, Unavailable
from edge.people.api_keys import SYNC_SCOPE, add_key, revoke_key
from edge.records import locations
from edge.sync.store import change_feed, epochs
from edge.sync.store.exchange import Cursor, Peer
from edge.texts import N_, fill
from edge.tracking import copies

JOIN_DAYS = 7
SILENT = 300 * clock.SECOND  # minimum silence after which another machine may report as the site
INTERVAL = "interval"  # seconds between the site's rounds, in its report
MAX_INTERVAL = 3600  # longest `sync.interval_seconds`
RIVAL_SHOWN = 15 * 60 * clock.SECOND
SECOND_BOX = (
    "another box reports as this site or did until recently. If this box was just started or restored, it "
    "continues by itself once the other one is silent. If it is a copy, turn it off or run `edge sync leave` here"
)


class Site(NamedTuple):
    """A row of the table `site`; `report` and `former_codes` are JSON."""

    no: int
    organization_id: int
    code: str
    name: str
    location_id: int
    api_key_id: str | None
    instance: str | None
    epoch: str | None
    acked_seq: int
    chain: bytes
    horizon: int
    report: str
    last_contact_at: int | None
    last_commit_at: int | None
    last_error: str | None
    last_error_at: int | None
    day: int
    bytes_received: int
    created_at: int
    box: str | None
    rival_at: int | None
    retired_at: int | None
    former_codes: str
    history_waits: str | None  # why this hub takes no new data from the site, None if it does

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.epoch, self.acked_seq, self.chain)

    @property
    def silent_after(self) -> int:
        """Silence (µs) after which a site is not healthy. A healthy one may skip one round without data."""
        interval: int = json.loads(self.report).get(INTERVAL, 0)
        return max(SILENT, (2 * min(max(interval, 0), MAX_INTERVAL) + 60) * clock.SECOND)

    @property
    def peer(self) -> Peer:
        return Peer(self.no, self.organization_id, self.code, self.location_id)


_SELECT = f"SELECT {', '.join(Site._fields)} FROM site WHERE removed_at IS NULL "


def add_site(actor: Actor, code: str, name: str, join_hash: bytes) -> Site:
    """Add a site that may join within a week. A removed site with this code returns, with its records and history.

    Raises Conflict if the code is taken by a site or a location.
    """
    organization_id = actor.organization_id
    with acting(actor) as act:
        check_code(organization_id, code)
        now = clock.now()
        former = _find_removed(organization_id, code)
        if former:
            no, location_id = former
            execute(
                "UPDATE site SET removed_at = NULL, retired_at = NULL, name = ?, join_hash = ?, join_until = ?, "
                "last_error = NULL WHERE no = ?",
                (name, join_hash, now + JOIN_DAYS * clock.DAY, no),
            )
            if _is_deleted(location_id):
                location_id = locations.create(actor, name=name, external_key=code).id
                execute("UPDATE site SET location_id = ? WHERE no = ?", (location_id, no))
        else:
            location_id = locations.create(actor, name=name, external_key=code).id
            no = execute(
                "INSERT INTO site (organization_id, code, name, location_id, join_hash, join_until, created_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING no",
                (organization_id, code, name, location_id, join_hash, now + JOIN_DAYS * clock.DAY, now),
            ).fetchone()[0]
        make_hub(actor)
        act.note("site.created", Subject("site", no, name), {"code": code})
    return get_site(organization_id, no)


def check_code(organization_id: int, code: str, except_no: int = 0) -> None:
    """Raise Conflict if a site has this code, or had it before it was renamed."""
    for other in execute(_SELECT + "AND organization_id = ? AND no <> ?", (organization_id, except_no)):
        site = Site(*other)
        if site.code == code:
            raise Conflict(fill(N_("A site %(code)s already exists"), code=code))
        if code in former_codes(site):
            text = N_("%(code)s was the code of the site %(site)s; choose another one")
            raise Conflict(fill(text, code=code, site=site.code))


def _find_removed(organization_id: int, code: str) -> tuple[int, int] | None:
    """Return number and location of the newest removed site with this code."""
    row: tuple[int, int] | None = execute(
        "SELECT no, location_id FROM site WHERE organization_id = ? AND code = ? AND removed_at IS NOT NULL "
        "AND merged_into IS NULL ORDER BY no DESC LIMIT 1",
        (organization_id, code),
    ).fetchone()
    return row


def _is_deleted(location_id: int) -> bool:
    return execute("SELECT 1 FROM location WHERE id = ? AND deleted_at IS NULL", (location_id,)).fetchone() is None


def former_codes(site: Site) -> list[str]:
    """Return the codes that the site had before it was renamed, oldest first."""
    codes: list[str] = json.loads(site.former_codes)
    return codes


def make_hub(actor: Actor) -> None:
    """Make this machine a hub, which receives the sites' data and sends them its assets. Cannot be undone."""
    with writing():
        if execute("SELECT 1 FROM target").fetchone():
            raise Conflict(N_("This box reports to a hub itself, so it cannot be one"))
        change_log.begin(Follower.HUB)  # also if its last site was removed
        for statement in NEWEST_TRACK.values():
            execute(statement)
        with acting(actor._replace(organization_id=actors.THE_BOX)) as act:
            if execute(_NEW_HUB, (epochs.new_epoch(), secrets.token_hex(16))).rowcount:
                act.note("box.made_hub", Subject("box", 0, "this box"))


_NEW_HUB = "INSERT OR IGNORE INTO hub (one, epoch, id) VALUES (1, ?, ?)"


def number_of_code(organization_id: int, code: str) -> int | None:
    """Return the number of the present site with this code."""
    sql = "SELECT no FROM site WHERE organization_id = ? AND code = ? AND removed_at IS NULL"
    return find_scalar(sql, (organization_id, code))


def hub_id() -> str:
    """Return the permanent id of this hub."""
    permanent_id: str = execute("SELECT id FROM hub").fetchone()[0]
    return permanent_id


def renew_code(actor: Actor, site_no: int, join_hash: bytes) -> Site:
    """Create a new one-time code for a new machine of the site. Raises NotFound."""
    with acting(actor) as act:
        site = get_site(actor.organization_id, site_no)
        update("site", site.no, {"join_hash": join_hash, "join_until": clock.now() + JOIN_DAYS * clock.DAY}, "no")
        act.note("site.code_made", Subject("site", site.no, site.name))
    return get_site(actor.organization_id, site_no)


def join(join_hash: bytes, secret_hash: bytes) -> Site | None:
    """Redeem a join code: create the site's key and revoke the previous one.

    Returns the site with its last epoch, which is retired now; None for an unknown code.
    """
    with writing():
        site = find_by_join_code(join_hash)
        if site is None:
            return None
        actor = actors.service(site.organization_id)
        end_key(actor, site)
        if site.epoch:
            epochs.retire(site.no, site.epoch)
        key = add_key(actor, f"Site {site.code}", [SYNC_SCOPE], secret_hash)
        with acting(actor) as act:
            execute(
                "UPDATE site SET api_key_id = ?, join_hash = NULL, join_until = NULL, epoch = NULL, box = NULL, "
                "rival_at = NULL, retired_at = NULL WHERE no = ?",
                (key.id, site.no),
            )
            _give_back(site)
            act.note("site.joined", Subject("site", site.no, site.name))
    return get_site(site.organization_id, site.no)._replace(epoch=site.epoch)


def end_key(actor: Actor, site: Site) -> None:
    """Revoke the site's key, if it is still active."""
    if site.api_key_id:
        with suppress(NotFound):
            revoke_key(actor, site.api_key_id)


def _give_back(site: Site) -> None:
    """Give a returning site its records back, except assets that this hub has changed since it removed the site."""
    execute(
        "INSERT OR IGNORE INTO mirror (record_id, peer, home) SELECT record_id, site_no, ? FROM former_home f "
        "LEFT JOIN asset a ON a.id = record_id AND a.updated_at <> f.updated_at AND a.deleted_at IS NULL "
        "WHERE site_no = ? AND a.id IS NULL",
        (site.code, site.no),
    )
    if execute("DELETE FROM former_home WHERE site_no = ?", (site.no,)).rowcount:
        change_feed.add_homes(site.no)


def get_site(organization_id: int, site_no: int) -> Site:
    """Return a site. Raises NotFound."""
    if site := _find("AND organization_id = ? AND no = ?", organization_id, site_no):
        return site
    raise NotFound("no such site")


def find_by_code(organization_id: int, code: str) -> Site:
    """Return a site by its code. Raises NotFound."""
    if site := _find("AND organization_id = ? AND code = ?", organization_id, code):
        return site
    raise NotFound(f"there is no site {code}")


def find_by_join_code(join_hash: bytes) -> Site | None:
    """Return the site that a join code is for, without redeeming it."""
    return _find("AND join_hash = ? AND join_until > ?", join_hash, clock.now())


def find_by_key(api_key_id: str) -> Site | None:
    """Return the site bound to an API key."""
    return _find("AND api_key_id = ?", api_key_id)


def _find(condition: str, *values: object) -> Site | None:
    row = execute(_SELECT + condition, values).fetchone()
    return Site(*row) if row else None


def list_sites(organization_id: int | None) -> list[Site]:
    """Return the sites of one organization; of all if `organization_id` is None, for diagnosis only."""
    rows = execute(_SELECT + "AND ifnull(organization_id = ?, 1) ORDER BY organization_id, code", (organization_id,))
    return [Site(*row) for row in rows]


def hub_horizon() -> int:
    return scalar("SELECT horizon FROM hub")


def is_hub() -> bool:
    """Return True if this machine has sites."""
    return execute("SELECT 1 FROM site WHERE removed_at IS NULL").fetchone() is not None


def begin_epoch(site: Site, instance: str, cursor: Cursor, *, is_recovery: bool) -> None:
    """Let another database represent the site from its cursor on.

    A new machine restarts its track numbers, so the old tracks keep their history under negative numbers. A recovering
    machine continues the numbers it downloads. This is written in slices; after a crash the site's next greeting
    continues it. The former machine is refused from the first slice on. Raises Unavailable if another request has
    changed the site meanwhile.
    """

    def begin() -> None:
        present = execute("SELECT instance, epoch FROM site WHERE no = ?", (site.no,)).fetchone()
        if present != (site.instance, site.epoch):
            raise Unavailable("the site has just begun to report from another database", 1)
        if site.epoch and site.epoch != cursor.epoch and not epochs.is_retired(site.no, site.epoch):
            epochs.retire(site.no, site.epoch)

    def end(is_last: bool) -> None:
        if is_last:
            update("site", site.no, {"instance": instance, **cursor._asdict()}, "no")

    is_new_machine = site.instance not in (None, instance) and not is_recovery
    write_in_slices(copies.release_numbers(site.no) if is_new_machine else iter(()), begin, end)


class SecondBox(Unavailable):
    """Another machine currently reports as the site."""


def admit(site: Site, box: str) -> None:
    """Let a machine report as the site. Raises SecondBox while another one does, since both may be copies of a disk."""
    now = clock.now()
    if site.box == box:
        return
    silent = now - (site.last_contact_at or 0)
    if site.box is not None and 0 <= silent < site.silent_after:
        with writing():
            update("site", site.no, {"rival_at": now}, "no")
        raise SecondBox(SECOND_BOX, (site.silent_after - silent) // clock.SECOND + 1)
    with writing():
        update("site", site.no, {"box": box, "rival_at": None}, "no")


def has_rival(site: Site) -> bool:
    """Return True if another machine was recently refused as this site."""
    return site.rival_at is not None and 0 <= clock.now() - site.rival_at < RIVAL_SHOWN


def cursor_of(site_no: int) -> Cursor:
    """Return the hub's position in the site's data."""
    return Cursor(*execute("SELECT epoch, acked_seq, chain FROM site WHERE no = ?", (site_no,)).fetchone())


def move_cursor(site_no: int, done: Cursor, horizon: int) -> None:
    execute(
        "UPDATE site SET acked_seq = ?, chain = ?, horizon = max(horizon, ?), last_commit_at = ? WHERE no = ?",
        (done.acked_seq, done.chain, horizon, clock.now(), site_no),
    )


def note_contact(site_no: int, report: Mapping[str, Any], received: int) -> None:
    """Record the site's status report and the bytes received today (UTC)."""
    now = clock.now()
    with writing():
        execute(
            "UPDATE site SET report = ?1, last_contact_at = ?2, last_error = NULL, last_error_at = NULL, day = ?3, "
            "bytes_received = iif(day = ?3, bytes_received, 0) + ?4 WHERE no = ?5",
            (json.dumps(dict(report)), now, now // clock.DAY, received, site_no),
        )


def note_refusal(site_no: int, error: str) -> None:
    """Record why the site was refused, for display on the hub until its next success."""
    with writing():
        execute(
            "UPDATE site SET last_error = ?, last_error_at = ? WHERE no = ? AND last_error IS NOT ?",
            (error, clock.now(), site_no, error),
        )


class AsideRow(NamedTuple):
    item: str
    reason: str
    since: int


def list_trouble(peer: int, *, with_conflicts: bool = True) -> list[AsideRow]:
    """Return conflicts and refused data of a peer, newest first."""
    rows = execute(
        "SELECT iif(kind = 2, 'asset ', 'location ') || (record ->> 1), reason, since FROM conflict "
        "WHERE peer = ?1 AND ?2 UNION ALL SELECT what, reason, since FROM set_aside WHERE peer = ?1 "
        "ORDER BY 3 DESC LIMIT 100",
        (peer, with_conflicts),
    )
    return [AsideRow(*row) for row in rows]


def names_by_location(organization_id: int) -> dict[int, str]:
    """Return the names of this hub's sites by location id."""
    rows = execute(
        "SELECT location_id, name FROM site WHERE organization_id = ? AND removed_at IS NULL ORDER BY name",
        (organization_id,),
    )
    return dict(rows.fetchall())
