"""Stores a site's records and history, downloaded from its hub, in the database of a new or restored machine.

Local data is never lost: the newer state of a record wins, and only missing history rows are added. Storing a page
twice does no harm, so an interrupted recovery resumes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database import change_log
from edge.database.change_log import Kind
from edge.database.connection import execute, execute_many, writing
from edge.database.triggers import Follower
from edge.doors import passage_copies
from edge.errors import Conflict, NotFound
from edge.records.external_keys import moment
from edge.sync.store import change_feed, hub_link, known_records, record_copies, record_lines
from edge.sync.store.exchange import HUB, AntennaName, Batch, LocationRecord, Origin, Patch, Peer, Record, TrackState
from edge.sync.store.hub_link import HubAccess, Target
from edge.sync.store.refused_data import set_aside
from edge.texts import N_
from edge.tracking import copies, returned_copies
from edge.tracking.stays import ScanSource, number_of


class Progress(NamedTuple):
    """Progress of the recovery: the part, and the end of the last stored page."""

    part: str
    after: Sequence[int]


START = Progress("locations", [0])


def check_empty(organization_id: int) -> None:
    """Raise Conflict if there are records, since keys would conflict ambiguously."""
    for table in ("asset", "location"):
        if execute(f"SELECT 1 FROM {table} WHERE organization_id = ? LIMIT 1", (organization_id,)).fetchone():
            raise Conflict(
                "This organization already has assets or locations. To recover a site, start with a fresh database: "
                "edge init, then edge sync recover CODE. To join as a new site with what is here: edge sync join CODE"
            )


def progress(here: Target) -> Progress | None:
    return Progress(*json.loads(here.recovering)) if here.recovering else None


def join(actor: Actor, hub: HubAccess) -> None:
    """Join the hub as a known site, in one transaction, so that the service sends nothing in between.

    Raises Conflict like `check_empty`, and for the code of a site other than the restored one.
    """
    with writing():
        if hub_link.find():
            hub_link.renew_key(actor, hub)
        else:
            check_empty(actor.organization_id)
            hub_link.begin(actor, hub, is_recovery=True)
        begin(actor)


def begin(actor: Actor) -> None:
    """Start the recovery; nothing is sent until it is complete. Raises NotFound without a hub."""
    with acting(actor) as act:
        here = hub_link.find()
        if here is None or here.organization_id != actor.organization_id:
            raise NotFound("This box reports to no hub. Create a code on the hub's Sync page: edge sync recover CODE")
        hub_link.update(recovering=json.dumps(START))
        act.note("hub.recovery_begun", Subject("hub", here.url, here.hub_name))


def reserve_tracks(last_track: int) -> None:
    """Skip track numbers that were used before, including some that the hub may not know."""
    with writing():
        copies.reserve_tracks(last_track)


def take(here: Target, batch: Batch, following: Progress) -> None:
    """Store one page and the progress in one transaction."""
    organization_id = here.organization_id
    with writing():
        newest = change_log.newest()
        _keep_readers(organization_id, batch.readers)
        _keep_antennas(batch.antennas)
        _keep_people(batch.people)
        records: list[Record] = [*record_copies.in_order(batch.locations), *batch.assets]
        for record in records:
            _take_record(organization_id, record)
        refs = [*(origin.location for origin in batch.origins), *(state.location for state in batch.tracks)]
        refs += [door.location for door in batch.doors if door.location is not None]
        refs += [passage.asset for passage in batch.passages]
        known = _ids(organization_id, [*refs, *(state.asset for state in batch.tracks if state.asset)])
        numbers = {state.no: _take_track(organization_id, state, known) for state in batch.tracks}
        sources = [_source(organization_id, origin, known) for origin in batch.origins]
        _take_stays(batch.patches, numbers, sources)
        passage_copies.recover(organization_id, batch.doors, batch.passages, known)
        # Passages and EPCIS events were sent when they happened.
        execute("UPDATE change SET c = NULL WHERE seq > ? AND kind = ?", (newest, Kind.PASSAGE))
        execute("DELETE FROM change WHERE seq > ? AND kind = ?", (newest, Kind.EPCIS))
        hub_link.update(recovering=json.dumps(following))


def finish(actor: Actor) -> None:
    """End the recovery: start reporting and request a comparison."""
    with acting(actor) as act:
        here = hub_link.find()
        if here is None:
            return
        hub_link.update(recovering=None, restored_from=None, verify_wanted=1)
        execute("DELETE FROM told")
        change_log.begin(Follower.SITE)
        change_feed.add_names(actor.organization_id)
        act.note("hub.recovered", Subject("hub", here.url, here.hub_name))


def _take_record(organization_id: int, record: Record) -> None:
    table = record_lines.table_of(record)
    row = execute(f"SELECT updated_at FROM {table} WHERE id = ?", (record.ref,)).fetchone()
    is_mirror = execute("SELECT 1 FROM mirror WHERE record_id = ?", (record.ref,)).fetchone()
    if is_mirror or (row and row[0] >= record.updated_at):
        return
    key, parent = record.external_key, record.parent if isinstance(record, LocationRecord) else None
    if record.deleted_at is None:
        if record_copies.holder_of_key(organization_id, record, key, record.ref):
            # Created again before the recovery: the new record keeps key and tags, this one its history.
            record = record._replace(deleted_at=moment(), updated_at=moment(), tags=())
        holders = record_copies.holders_of_tags(organization_id, record.tags, record.ref)
        taken = {(kind, value) for _, kind, value in holders}
        if taken and record.deleted_at is None:
            tag_list = ", ".join(f"{kind}:{value}" for kind, value in sorted(taken))
            set_aside(HUB, f"{table} {key}", f"its tag {tag_list} belongs to another record here")
            free = [(kind, value) for kind, value in record.tags if (kind, value) not in taken]
            record = record._replace(tags=free)
    record_copies.write(organization_id, record.ref, record, key=key, parent_id=parent)


def _keep_readers(organization_id: int, names: Mapping[int, str]) -> None:
    """Store readers as removed: history needs their names, but the hub does not have their settings."""
    now = clock.now()
    execute_many(
        "INSERT OR IGNORE INTO reader (id, organization_id, name, topic, format, is_enabled, created_at, updated_at, "
        "deleted_at) VALUES (?, ?, ?, '', 'edge', 0, ?, ?, ?)",
        [(reader_id, organization_id, name, now, now, now) for reader_id, name in names.items()],
    )


def _keep_antennas(antennas: Sequence[AntennaName]) -> None:
    execute_many(
        "INSERT OR IGNORE INTO antenna_name (reader_id, port, name) SELECT id, ?2, ?3 FROM reader WHERE id = ?1",
        antennas,
    )


def _keep_people(names: Mapping[int, str]) -> None:
    execute_many(
        "INSERT OR REPLACE INTO remote_name (site_no, remote_id, kind, name) VALUES (0, ?, ?, ?)",
        [(person_id, Kind.PERSON, name) for person_id, name in names.items()],
    )


def _ids(organization_id: int, refs: Sequence[int]) -> dict[int, int]:
    """Return local ids by ref: the site's own ids are unchanged, the hub's are resolved by links."""
    local_ids = known_records.resolve(Peer(HUB, organization_id, ""), [-ref for ref in refs if ref < 0])
    known = {-ref: local for ref, local in local_ids.items()}
    own = json.dumps(list(refs))  # no id is negative
    for table in ("asset", "location"):
        rows = execute(
            f"SELECT id, id FROM {table} WHERE +organization_id = ? AND id IN (SELECT value FROM json_each(?))",
            (organization_id, own),
        )
        known |= dict(rows.fetchall())
    return known


def _take_track(organization_id: int, state: TrackState, known: Mapping[int, int]) -> int | None:
    """Store a track and return its number, or None if its asset or location is missing."""
    asset, location = known.get(state.asset or 0), known.get(state.location)
    if asset is None or location is None:
        set_aside(HUB, f"history {state.no}", N_("its asset or location does not exist here; the hub keeps it"))
        return None
    values = (location, state.last_seen_at, state.dwell_started_at, state.row_at, state.row_seq, state.row_rule)
    row = returned_copies.own_track(asset)
    if row is None:
        returned_copies.recover_track(state.no, asset, organization_id, values)
        return state.no
    no, last_seen_at = row
    if no != state.no:  # it was read here since and has a new number; the hub drops the old one
        change_feed.add(Kind.TRACK, state.no)
    if last_seen_at < state.last_seen_at:
        returned_copies.recover_position(no, values)
    return no


def _source(organization_id: int, origin: Origin, known: Mapping[int, int]) -> int | None:
    location = known.get(origin.location)
    if location is None:
        return None
    source = ScanSource(location, origin.reader, origin.port, remote_person=origin.person)
    return number_of(organization_id, source)


def _take_stays(patches: Sequence[Patch], numbers: Mapping[int, int | None], sources: Sequence[int | None]) -> None:
    """Add the missing rows."""
    rows = [
        (numbers.get(patch.track), stay.observed_at, stay.seq, stay.seen_for, sources[stay.origin], *stay[4:])
        for patch in patches
        for stay in patch.stays
    ]
    returned_copies.recover_rows(rows)  # leaves out those without a track or source here
