"""Brings one record at the service to its state here. Repeated, it changes nothing."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from edge import clock
from edge.upstream import content
from edge.upstream.answers import Record, Refused
from edge.upstream.client import Client
from edge.upstream.content import KEY, TAGS, WINDOW, Content, Known, Plan, Tag
from edge.upstream.counterparts import Counterpart, Trouble, TroubleKind
from edge.upstream.local_records import LocalRecord

TEMPORARY = "EDGE-MOVES-"
EXCHANGED = Trouble(TroubleKind.BLOCKED, "its key is being exchanged with another record")


class Job(NamedTuple):
    """A record here, its counterpart as stored, and the record there: the counterpart, or one with the same key.

    `is_owned` returns True for an id there that belongs to another record of this box. `keep` stores a state before the
    next request. `clash` says who has the key there, or a tag.
    """

    here: LocalRecord
    values: Content
    stored: Counterpart
    remote: Record | None
    is_owned: Callable[[int], bool]
    keep: Callable[[Counterpart], None]
    clash: Callable[[Tag | None], Trouble]


class _Stop(Exception):
    """The record cannot be made equal. Carries the trouble."""

    def __init__(self, trouble: Trouble, remote: Record | None = None) -> None:
        super().__init__(trouble.text)
        self.trouble = trouble
        self.remote = remote


def push(client: Client, job: Job) -> Counterpart:
    """Create or change a live record there. Raises Away."""
    stored = job.stored
    try:
        remote = _push(client, job)
        return _equal(job, remote)
    except _Stop as stop:
        if stop.remote is not None:  # it exists there, but not all of it could be written
            stored = _nearly_equal(job, stop.remote)
        return stored._replace(trouble=stop.trouble)
    except Refused as error:
        if error.is_stale:
            return stored._replace(trouble=Trouble(TroubleKind.CHANGED, "others changed it at the same moment"))
        kind = TroubleKind.TAKEN if error.status == HTTPStatus.CONFLICT else TroubleKind.REFUSED
        return stored._replace(trouble=Trouble(kind, f"the service responded {error}"))


def delete(client: Client, stored: Counterpart, remote: Record | None) -> Counterpart | None:
    """Delete the counterpart of a record that is deleted here. Returns None if nothing is left to do. Raises Away."""
    if remote is None:
        return None
    try:
        changed = content.changed_by_others(content.of_answer(stored.kind, remote), stored.known)
        if changed and not stored.is_forced:
            text = f"is deleted here, but others changed its {content.names(changed)}"
            return stored._replace(trouble=Trouble(TroubleKind.CHANGED, text))
        client.delete(stored.kind, remote["id"])
    except Refused as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return None
        text = f"is deleted here, but the service responded {error}"
        return stored._replace(trouble=Trouble(TroubleKind.REFUSED, text))
    return None


def move_away(
    client: Client, here: LocalRecord, stored: Counterpart, keep: Callable[[Counterpart], None]
) -> Counterpart | None:
    """Give a record a temporary key there. Returns None if it keeps its key, or others have changed it. Raises Away.

    The temporary key is stored as trouble and as a value of this box before it is written. So after a death it counts
    as written by this box, and the record gets its own key with the next check.
    """
    if stored.remote_id is None or (stored.trouble and stored.trouble.kind is TroubleKind.CHANGED):
        return None
    remote = client.by_id(here.kind, stored.remote_id)
    if remote is None or remote[KEY] == here.key:
        return None
    there = content.of_answer(here.kind, remote)
    known = content.settled(there, stored.known)
    if known.base is None or content.changed_by_others(there, known):
        return None
    key = TEMPORARY + secrets.token_hex(6)
    sending = {**known.base, KEY: content.mark(key)}
    moving = stored._replace(known=known._replace(sending=sending), trouble=EXCHANGED, trouble_at=clock.now())
    keep(moving)
    try:
        renamed = client.rename(here.kind, stored.remote_id, key)
    except Refused:
        return None
    return moving._replace(known=Known(content.of_answer(here.kind, renamed).marks))


def _push(client: Client, job: Job) -> Record:
    if job.remote is None:
        if job.stored.remote_id is not None and not job.stored.is_forced:
            raise _Stop(Trouble(TroubleKind.CHANGED, "others deleted it"))
        return _create(client, job)
    if job.stored.remote_id is None:
        return _adopt(client, job, job.remote)
    return _change(client, job, job.remote)


def _adopt(client: Client, job: Job, remote: Record) -> Record:
    """Match the record there that has the same key."""
    if job.is_owned(remote["id"]):
        raise _Stop(job.clash(None))
    return _change(client, job, remote)


def _create(client: Client, job: Job) -> Record:
    """Create the record in effect, because lists show no others: after a lost answer it is found by its key.

    Its own window follows, once its id is stored. Fields without a value are left out.
    """
    kind, values = job.here.kind, job.values
    left_out = () if job.here.is_in_effect else WINDOW
    fields = {name: value for name, value in values.fields.items() if value is not None and name not in left_out}
    body = {KEY: values.key, **fields}
    tags = [{"tag_type": tag_type, "value": value} for tag_type, value in values.tags]
    try:
        remote = client.create(kind, {**body, TAGS: tags} if tags else body)
    except Refused as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        remote = _create_without_tags(client, job, body)
    if not job.here.is_in_effect:
        known = job.stored.known._replace(base=content.of_answer(kind, remote).marks)
        job.keep(job.stored._replace(remote_id=remote["id"], known=known))
    return _write(client, job, remote, _plan(job, remote, Known(), is_forced=True))


def _create_without_tags(client: Client, job: Job, body: Mapping[str, Any]) -> Record:
    """After a conflict: the key exists there, or a tag, which is then listed by itself."""
    kind, key = job.here.kind, job.values.key
    remote = client.by_keys(kind, [key]).get(key)
    if remote is not None:
        return _adopt(client, job, remote)
    try:
        return client.create(kind, body)
    except Refused as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        raise _Stop(job.clash(None)) from error


def _change(client: Client, job: Job, remote: Record) -> Record:
    plan = _plan(job, remote, job.stored.known, is_forced=job.stored.is_forced)
    if plan.conflicts:
        verb = "exists there with another" if job.stored.remote_id is None else "others changed its"
        raise _Stop(Trouble(TroubleKind.CHANGED, f"{verb} {content.names(plan.conflicts)}"))
    return _write(client, job, remote, plan)


def _plan(job: Job, remote: Record, known: Known, *, is_forced: bool) -> Plan:
    return content.plan(job.values, content.of_answer(job.here.kind, remote), known, is_forced=is_forced)


def _write(client: Client, job: Job, remote: Record, plan: Plan) -> Record:
    """Write a plan. What is taken there is left out, and then the rest is written nevertheless."""
    trouble = None
    if plan.fields:
        remote = _patch(client, job, remote, plan.fields)
    if plan.key is not None:
        try:
            remote = client.rename(job.here.kind, remote["id"], plan.key)
        except Refused as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            trouble = job.clash(None)
    if plan.attach or plan.detach:
        remote, tag_trouble = _write_tags(client, job, remote, plan)
        trouble = trouble or tag_trouble
    if trouble:
        raise _Stop(trouble, remote)
    return remote


def _patch(client: Client, job: Job, remote: Record, fields: Mapping[str, Any]) -> Record:
    """Change fields. `updated_at` lets the service refuse it if the record has changed since it was read."""
    try:
        return client.patch(job.here.kind, remote["id"], {**fields, "updated_at": remote["updated_at"]})
    except Refused as error:
        if error.status != HTTPStatus.CONFLICT or "parent_id" not in fields:
            raise
        raise _Stop(Trouble(TroubleKind.WAITS, "its new parent is still below it there")) from error


def _write_tags(client: Client, job: Job, remote: Record, plan: Plan) -> tuple[Record, Trouble | None]:
    """Detach and attach tags. Returns the record afterwards, and the trouble with the first tag that is taken."""
    kind, remote_id = job.here.kind, remote["id"]
    ids = {(tag["tag_type"], tag["value"]): tag["id"] for tag in remote[TAGS]}
    for tag in plan.detach:
        try:
            client.detach(kind, remote_id, ids[tag])
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND:  # detached, but the answer was lost
                raise
    refused = []
    for tag in plan.attach:
        try:
            client.attach(kind, remote_id, *tag)
        except Refused as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
            refused.append(tag)
    remote = client.by_id(kind, remote_id) or remote
    attached = set(content.of_answer(kind, remote).tags)
    taken = [tag for tag in refused if tag not in attached]
    if not taken:
        return remote, None
    trouble = job.clash(taken[0])
    more = f"; {len(taken) - 1} more" if len(taken) > 1 else ""
    return remote, trouble._replace(text=trouble.text + more)


def _equal(job: Job, remote: Record) -> Counterpart:
    """Return the counterpart after a complete write."""
    base, sent = content.of_answer(job.here.kind, remote).marks, job.values.marks
    known = Known(base, sent if sent != base else None)
    return Counterpart(job.here.id, job.here.kind, remote["id"], known)


def _nearly_equal(job: Job, remote: Record) -> Counterpart:
    """Return the counterpart after a write without the key or some tags, which are tried again."""
    equal = _equal(job, remote)
    base, sent = equal.known.base, equal.known.sent
    if base is None or sent is None:
        return equal
    return equal._replace(known=equal.known._replace(sent={**sent, KEY: base[KEY]}))
