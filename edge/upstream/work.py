"""The records of one round: read there, written there, and stored with their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from edge import clock
from edge.database.connection import reading, writing
from edge.sync.store.change_feed import Kind
from edge.upstream import content, counterparts, exchanges, local_records, push, upstreams
from edge.upstream.answers import Away, Record, TooMuch
from edge.upstream.client import Client
from edge.upstream.content import KEY, TAGS, Known, Tag
from edge.upstream.counterparts import Counterpart, Trouble, TroubleKind
from edge.upstream.local_records import LocalRecord
from edge.upstream.upstreams import Upstream

MOST_FAILURES = 5  # about a minute and a half of attempts
TOO_LARGE = Trouble(TroubleKind.REFUSED, "its record there is larger than this box reads")
_DELETED_ASSETS = 0  # come first
_AGAIN = (TroubleKind.TAKEN, TroubleKind.WAITS, TroubleKind.BLOCKED)  # may be settled by other records of the round


class Batch(NamedTuple):
    """Records to look at, and the place afterwards in the changes or in the comparison."""

    ids: Collection[int]
    seq: int | None = None
    walk_id: int | None = None


class Work:
    """The records of one round, in an order in which each can be written."""

    def __init__(self, client: Client, row: Upstream, ids: Collection[int]) -> None:
        self._client = client
        self._row = row
        with reading():
            self._here = local_records.read(row.organization_id, ids)
            self._before = counterparts.of_records(row.no, {*ids, *self._here})
        self._now = dict(self._before)
        self._remote: dict[int, Record | None] = {}
        self._done: set[int] = set()
        self._owners: dict[int, int] = {}
        self._too_large: set[int] = set()
        self._key_ids: dict[int, int] = {}  # ids there of records that have the new key of another one
        self._holders: dict[int, int] = {}  # which record of this box has the new key of another one there
        self._written = 0  # records that were changed there
        self._has_broken = False  # the connection, during the write of a record
        sent = {one for one in {*ids, *self._here} if one not in self._here or self._here[one].is_sent}
        self._ids = [one for one in sent if one in set(ids) or self._is_new(one)]
        self._ids.sort(key=self._order)

    def do(self) -> None:
        """Write all records, and once more those that wait for a key, tag or parent of another record of the round."""
        deleted = [one for one in self._ids if self._order(one)[0] == _DELETED_ASSETS]
        self._write_all(deleted)
        others = [one for one in self._ids if one not in self._done]
        self._write_all(others)
        ordered = self._make_way()
        again = [one for one in others if one not in ordered and self._has_trouble(one, *_AGAIN)]
        if ordered or (again and len(again) < len(self._ids)):
            self._write_all([*ordered, *again])

    def _make_way(self) -> list[int]:
        """Free the keys that records of the round wait for. Returns these records in the order to write them."""
        holders = {one: holder for one, holder in self._holders.items() if self._has_trouble(one, TroubleKind.BLOCKED)}
        ordered, moved = exchanges.order(holders)
        for record_id in moved:
            here, stored = self._record(record_id)
            left = exchanges.move_away(self._client, self._row.no, here, stored) if here and stored else None
            if left is not None:
                self._now[record_id] = left
                self._done.add(record_id)
        return ordered

    def _record(self, record_id: int) -> tuple[LocalRecord | None, Counterpart | None]:
        """Return a record of this round or another one, unless it is deleted, and its counterpart."""
        here, stored = self._here.get(record_id), self._now.get(record_id)
        if here is None:
            here = local_records.read(self._row.organization_id, [record_id]).get(record_id)
        if stored is None:
            stored = counterparts.of_records(self._row.no, [record_id]).get(record_id)
        return (here if here and here.is_sent and not here.is_deleted else None), stored

    def _write_all(self, ids: list[int]) -> None:
        """Read the records there, then write. Each group can use the keys and tags that the one before has freed."""
        self._look_up(ids)
        self._keep_sending(ids)
        for record_id in ids:
            self._write(record_id)

    def store(self, batch: Batch | None) -> None:
        """Store results and place in one transaction; None after a round that could not be completed.

        Nothing is written if nothing is new.
        """
        kept = [self._with_attempts(self._now[one]) for one in self._done if one in self._now]
        kept = [one for one in kept if one != self._before.get(one.record_id)]
        gone = [one for one in self._done if one not in self._now and one in self._before]
        is_new = batch is not None and (self._row.failures or batch.seq is not None or batch.walk_id is not None)
        if not (kept or gone or is_new):
            return
        with writing():
            if upstreams.find(self._row.organization_id) is None:
                return  # removed in the meantime
            counterparts.keep(self._row.no, kept, clock.now())
            counterparts.forget(self._row.no, gone)
            if any(one.kind is Kind.LOCATION and one.trouble is None for one in kept):
                counterparts.retry_kind(self._row.no, TroubleKind.WAITS)
            if gone or any(one.trouble is None for one in kept):
                counterparts.retry_kind(self._row.no, TroubleKind.BLOCKED)
            upstreams.add_written(self._row.no, self._written)
            if batch is not None:
                upstreams.move(self._row.no, seq=batch.seq, walk_id=batch.walk_id)

    def _is_new(self, record_id: int) -> bool:
        return record_id not in self._before or self._before[record_id].remote_id is None

    def _is_live(self, record_id: int) -> bool:
        return record_id in self._here and not self._here[record_id].is_deleted

    def _kind(self, record_id: int) -> Kind | None:
        one = self._here.get(record_id) or self._before.get(record_id)
        return one.kind if one else None

    def _order(self, record_id: int) -> tuple[int, int, int]:
        """Deleted assets free their keys and places first; parents come before children, and are deleted after them."""
        is_asset = self._kind(record_id) is Kind.ASSET
        if self._is_live(record_id):
            return (2, 0, record_id) if is_asset else (1, self._depth(record_id), record_id)
        return (_DELETED_ASSETS, 0, record_id) if is_asset else (3, -self._depth(record_id), record_id)

    def _depth(self, record_id: int) -> int:
        depth, record = 0, self._here.get(record_id)
        while record and record.parent_id is not None and depth < 1000:
            depth, record = depth + 1, self._here.get(record.parent_id)
        return depth

    def _look_up(self, ids: Iterable[int]) -> None:
        """Read the records there: counterparts by id, others by key."""
        ids = [one for one in ids if self._kind(one) is not None]
        for kind in (Kind.LOCATION, Kind.ASSET):
            of_kind = [one for one in ids if self._kind(one) is kind]
            by_key = self._client.by_keys(kind, sorted({key for one in of_kind for key in self._keys(one)}))
            for record_id in of_kind:
                self._remote[record_id] = self._look_up_one(kind, record_id, by_key)
        remote_ids = {remote["id"] for remote in self._remote.values() if remote}
        self._owners = counterparts.owners(self._row.no, remote_ids)

    def _keys(self, record_id: int) -> list[str]:
        stored = self._now.get(record_id)
        keys = [stored.sending_key] if stored and stored.sending_key and stored.remote_id is None else []
        return [*keys, self._here[record_id].key] if self._is_live(record_id) else keys

    def _look_up_one(self, kind: Kind, record_id: int, by_key: dict[str, Record]) -> Record | None:
        stored = self._stored(kind, record_id)
        remote = by_key.get(self._here[record_id].key) if self._is_live(record_id) else None
        if remote is not None and remote["id"] != stored.remote_id:
            self._key_ids[record_id] = remote["id"]
        if stored.remote_id is None:
            created = self._created(kind, stored, by_key)
            if created is None:
                return remote
            known = Known(content.of_answer(kind, created).marks)
            self._now[record_id] = stored._replace(remote_id=created["id"], known=known, sending_key=None)
            return created
        if remote is None or remote["id"] != stored.remote_id:
            try:
                remote = self._client.by_id(kind, stored.remote_id)
            except TooMuch:
                self._too_large.add(record_id)
                return None
        if remote is not None:
            known = content.settled(content.of_answer(kind, remote), stored.known)
            self._now[record_id] = stored._replace(known=known)
        return remote

    def _created(self, kind: Kind, stored: Counterpart, by_key: dict[str, Record]) -> Record | None:
        """Return the record with a creation that was not answered."""
        remote, sending = by_key.get(stored.sending_key or ""), stored.known.sending
        if remote is None or sending is None or self._is_owned_by_other(stored.record_id)(remote["id"]):
            return None
        return remote if content.is_of_write(content.of_answer(kind, remote), sending) else None

    def _stored(self, kind: Kind, record_id: int) -> Counterpart:
        return self._now.get(record_id) or Counterpart(record_id, kind)

    def _values(self, here: LocalRecord) -> content.Content:
        parent = self._now.get(here.parent_id) if here.parent_id is not None else None
        return here.content(parent.remote_id if parent else None)

    def _keep_sending(self, ids: list[int]) -> None:
        """Store the values before they are written."""
        rows = []
        for record_id in ids:
            if self._is_live(record_id):
                here = self._here[record_id]
                stored = self._stored(here.kind, record_id)
                marks = self._values(here).marks
                if content.is_unchanged(marks, stored.known):
                    continue
                key = here.key if stored.remote_id is None else None
                stored = stored._replace(known=stored.known._replace(sending=marks), sending_key=key)
                self._now[record_id] = stored
                rows.append(stored)
        if rows:
            with writing():
                counterparts.keep(self._row.no, rows, clock.now())

    def _write(self, record_id: int) -> None:
        """Write one record. One by which the service fails each time is set aside, and the others continue."""
        kind = self._kind(record_id)
        if kind is None:
            return  # of another organization, or created and deleted in between
        stored, before = self._stored(kind, record_id), self._client.writes
        try:
            left: Counterpart | None
            if record_id in self._too_large:
                left = stored._replace(trouble=TOO_LARGE)
            elif self._is_live(record_id):
                left = self._push(self._here[record_id], stored)
            else:
                left = push.delete(self._client, kind, stored, self._remote.get(record_id))
        except Away as error:
            if not self._may_set_aside(error, record_id):
                raise
            left = stored._replace(trouble=Trouble(TroubleKind.REFUSED, str(error)))
        self._written += self._client.writes > before
        if left is None:
            self._now.pop(record_id, None)
        else:
            self._now[record_id] = left
        self._done.add(record_id)

    def _may_set_aside(self, error: Away, record_id: int) -> bool:
        """Return True if the service fails by this record again and again. Lookups before it have been answered.

        The connection may break once in a round, because each attempt may take long.
        """
        is_known = self._has_trouble(record_id, TroubleKind.REFUSED)
        if not error.may_be_of_record or (self._row.failures < MOST_FAILURES and not is_known):
            return False
        has_broken, self._has_broken = self._has_broken, self._has_broken or not error.has_answered
        return error.has_answered or not has_broken

    def _push(self, here: LocalRecord, stored: Counterpart) -> Counterpart:
        if here.parent_id is not None:
            parent = self._now.get(here.parent_id)
            if parent is None or parent.remote_id is None:
                key = self._here[here.parent_id].key if here.parent_id in self._here else "?"
                return stored._replace(trouble=Trouble(TroubleKind.WAITS, f"its parent {key} is not there yet"))
        stored = stored._replace(trouble=None)
        job = push.Job(
            *(here, self._values(here), stored, self._remote.get(here.id)),
            is_owned=self._is_owned_by_other(here.id),
            keep_created=lambda remote: self._keep_created(stored, remote),
            key_trouble=lambda: self._key_trouble(here),
            tag_trouble=lambda tag: self._tag_trouble(here, tag),
        )
        return push.push(self._client, job)

    def _keep_created(self, stored: Counterpart, remote: Record) -> None:
        """Store the id of a record that lists will not show."""
        known = stored.known._replace(base=content.of_answer(stored.kind, remote).marks)
        with writing():
            counterparts.keep(self._row.no, [stored._replace(remote_id=remote["id"], known=known)], clock.now())

    def _is_owned_by_other(self, record_id: int) -> Callable[[int], bool]:
        def is_owned(remote_id: int) -> bool:
            owner = self._owner(remote_id)
            return owner is not None and owner != record_id

        return is_owned

    def _owner(self, remote_id: int | None) -> int | None:
        """Return the record of this box for an id there, unless it has been deleted there in this round."""
        if remote_id is None:
            return None
        if remote_id not in self._owners:
            self._owners.update(counterparts.owners(self._row.no, [remote_id]))
        in_round = {one.remote_id: one.record_id for one in self._now.values() if one.remote_id is not None}
        owner = in_round.get(remote_id) or self._owners.get(remote_id)
        return None if owner in self._done and owner not in self._now else owner

    def _key_trouble(self, here: LocalRecord) -> Trouble:
        """Return who has the key there. Lists have shown it, unless the record there is not in effect."""
        mark = content.mark(here.key)
        holder = self._owner(self._key_ids.get(here.id))
        if holder is None:
            holder = self._holder(here, mark, lambda one: one.kind is here.kind and _base(one).get(KEY) == mark)
        if holder is None:
            text = f"its key {here.key} belongs to another record there, perhaps one that is not in effect"
            return Trouble(TroubleKind.TAKEN, text)
        self._holders[here.id] = holder
        return Trouble(TroubleKind.BLOCKED, f"its key {here.key} still belongs to {self._name(holder)} there")

    def _tag_trouble(self, here: LocalRecord, tag: Tag) -> Trouble:
        mark, (tag_type, value) = content.mark(tag), tag
        holder = self._holder(here, mark, lambda one: mark in _base(one).get(TAGS, ()))
        if holder is not None:
            text = f"its tag {tag_type}:{value} still belongs to {self._name(holder)} there"
            return Trouble(TroubleKind.BLOCKED, text)
        text = f"its tag {tag_type}:{value} belongs to {self._client.holder_of(tag_type, value)} there"
        return Trouble(TroubleKind.TAKEN, text)

    def _holder(self, here: LocalRecord, mark: str, has: Callable[[Counterpart], bool]) -> int | None:
        """Return the other record of this box that has a key or tag there."""
        stored = [one for one in counterparts.holding(self._row.no, mark) if one.record_id not in self._now]
        found = (one.record_id for one in (*self._now.values(), *stored) if one.record_id != here.id and has(one))
        return next(found, None)

    def _name(self, record_id: int) -> str:
        one = self._here.get(record_id) or local_records.read(self._row.organization_id, [record_id]).get(record_id)
        return f"{one.kind.name.lower()} {one.key}" if one else "a record that is deleted here"

    def _has_trouble(self, record_id: int, *kinds: TroubleKind) -> bool:
        stored = self._now.get(record_id)
        return bool(stored and stored.trouble and stored.trouble.kind in kinds)

    def _with_attempts(self, stored: Counterpart) -> Counterpart:
        """Count the attempts in trouble, and note since when it lasts."""
        before = self._before.get(stored.record_id)
        if stored.trouble is None:
            return stored._replace(trouble_at=None, attempts=0, is_forced=False)
        if before is None or before.trouble is None:
            return stored._replace(trouble_at=clock.now(), attempts=0)
        return stored._replace(trouble_at=before.trouble_at, attempts=before.attempts + 1)


def _base(stored: Counterpart) -> content.Marks:
    return stored.known.base or {}
