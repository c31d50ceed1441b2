"""Decisions of administrators about records that others have changed at the service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.database.change_log import Kind
from edge.errors import Conflict, NotFound
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.texts import N_
from edge.upstream import content, counterparts, local_records, upstreams
from edge.upstream.answers import Record
from edge.upstream.client import Client
from edge.upstream.content import Content, Known
from edge.upstream.counterparts import Counterpart, TroubleKind
from edge.upstream.local_records import LocalRecord
from edge.validation import bodies
from edge.validation.body import decode, judge


def keep_theirs(actor: Actor, client: Client, record_id: int) -> None:
    """Give a record here the values that others have set there, or delete it if they have deleted it.

    A record that is deleted here stays there, and is no longer followed. Reads the record from the service before the
    transaction. Raises NotFound if it is not listed as changed there, Away, and what the change raises.
    """
    row = upstreams.get(actor.organization_id)
    stored = counterparts.of_records(row.no, [record_id]).get(record_id)
    if stored is None or stored.trouble is None or stored.trouble.kind is not TroubleKind.CHANGED:
        raise NotFound(N_("This record is no longer listed as changed by others"))
    here = local_records.read(actor.organization_id, [record_id]).get(record_id)
    remote = _read(client, stored, here)
    with acting(actor) as act:
        if here is None or here.is_deleted:
            counterparts.forget(row.no, [record_id])
        elif remote is None:
            _records_of(here.kind).delete(actor, record_id)
        else:
            _take_over(actor, row.no, here, remote)
        counterparts.retry(row.no, record_id)
        details = {"record": record_id, "key": here.key} if here else {"record": record_id}
        act.note("upstream.theirs_kept", upstreams.subject_of(row), details)


def _read(client: Client, stored: Counterpart, here: LocalRecord | None) -> Record | None:
    if stored.remote_id is not None:
        return client.by_id(stored.kind, stored.remote_id)
    if here is None:
        return None
    found = client.by_keys(stored.kind, [here.key]).get(here.key)
    if found is None:
        raise Conflict(N_("The record is no longer there. It is checked again within seconds."))
    return found


def _take_over(actor: Actor, upstream_no: int, here: LocalRecord, remote: Record) -> None:
    """Write the values that differ. Raises Conflict if this box cannot have them."""
    theirs = content.of_answer(here.kind, remote)
    parent_remote_id = None
    if here.parent_id is not None:
        parent = counterparts.of_records(upstream_no, [here.parent_id]).get(here.parent_id)
        parent_remote_id = parent.remote_id if parent else None
    ours = here.content(parent_remote_id)
    differing = content.plan(ours, theirs, Known(), is_forced=True).fields
    sent = {name: theirs.fields[name] for name in differing if name != "parent_id"}
    moved = {"parent_id": _parent(upstream_no, theirs.fields["parent_id"])} if "parent_id" in differing else {}
    _change(actor, here, sent, moved, theirs.key)
    _exchange_tags(actor, here, theirs)


def _change(
    actor: Actor, here: LocalRecord, sent: Mapping[str, Any], moved: Mapping[str, int | None], key: str
) -> None:
    """Check the values like those of an API client, and write them."""
    body = bodies.ASSET_PATCH if here.kind is Kind.ASSET else bodies.LOCATION_PATCH
    changes = judge(body, decode(body, json.dumps(sent).encode()))
    key = judge(bodies.ASSET_RENAME, {"external_key": key})["external_key"]
    _records_of(here.kind).edit(actor, here.id, {**changes, **moved}, key)


def _parent(upstream_no: int, remote_id: int | None) -> int | None:
    if remote_id is None:
        return None
    owner = counterparts.owner(upstream_no, remote_id)
    if owner is None:
        raise Conflict(N_("Its parent there is not a location of this box"))
    return owner


def _exchange_tags(actor: Actor, here: LocalRecord, theirs: Content) -> None:
    records = _records_of(here.kind)
    for tag in records.get(actor.organization_id, here.id).tags:
        if (tag.tag_type, tag.value) not in theirs.tags:
            records.detach_tag(actor, here.id, tag.id)
    for tag_type, value in theirs.tags:
        if (tag_type, value) not in here.tags:
            checked = judge(bodies.TAG, {"tag_type": tag_type, "value": value})
            records.attach_tag(actor, here.id, NewTag(checked["tag_type"], checked["value"]))


def _records_of(kind: Kind) -> Any:
    return assets if kind is Kind.ASSET else locations
