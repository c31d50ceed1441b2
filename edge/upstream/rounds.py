"""One round of work for a service: choose records, read them there, write them, store the results.

What is about to be written is stored first. The results and the place in the change feed are stored together. So a
round that was interrupted at any point is repeated, and the repetition recognizes its own values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edge import clock
from edge.database import change_log
from edge.database.change_log import Kind
from edge.database.connection import reading, writing
from edge.sync.store import change_feed
from edge.upstream import content, counterparts, local_records, push, upstreams
from edge.upstream.answers import Away, Record, TooMuch
from edge.upstream.client import Client
from edge.upstream.content import KEY, TAGS, Known, Tag
from edge.upstream.counterparts import Counterpart, Trouble, TroubleKind
from edge.upstream.local_records import LocalRecord
from edge.upstream.upstreams import Upstream

MOST_RECORDS = 50  # in a round
MOST_UNSTORED = 10_000  # changes of history after which the place in the feed is stored
COMPARE_EVERY = clock.DAY
MOST_FAILURES = 5  # about a minute and a half of attempts
TOO_LARGE = Trouble(TroubleKind.REFUSED, "its record there is larger than this box reads")
NOT_SHOWN = ", perhaps one that is not in effect"
_DELETED_ASSETS = 0  # come first
_AGAIN = (TroubleKind.TAKEN, TroubleKind.WAITS, TroubleKind.BLOCKED)  # may be settled by other records of the round


class Batch(NamedTuple):
    """Records to look at, and the place afterwards in the changes or in the comparison."""

    ids: Collection[int]
    seq: int | None = None
    walk_id: int | None = None


def run(client: Client, row: Upstream) -> bool:
    """Write the next records. Returns False if nothing is left to do now. Raises Away; until then all is stored."""
    batch = _next_batch(row)
    if batch is None:
        return False
    work = Work(client, row, batch.ids)
    try:
        work.do()
    except Away:
        work.store(None)
        raise
    work.store(batch)
    return True


def _next_batch(row: Upstream) -> Batch | None:
    """Return changes, then troubles to check again, then the next records of a comparison."""
    with reading():
        is_gap = row.seq < change_log.oldest_kept() - 1
        listed = [] if is_gap else change_feed.all_records_listed(row.seq, MOST_RECORDS)
        newest = change_log.newest()
        due = counterparts.due(row.no, clock.now(), MOST_RECORDS)
    if is_gap:
        upstreams.begin_walk(row.no)
        return Batch(())
    if listed:
        return Batch({change.a for change in listed}, seq=listed[-1].seq)
    if due:
        return Batch(due)
    if row.walk_id is not None:
        return _next_of_walk(row, row.walk_id)
    if row.walked_at is None or not 0 <= clock.now() - row.walked_at < COMPARE_EVERY:
        upstreams.begin_walk(row.no)
        return Batch(())
    return Batch((), seq=newest) if newest - row.seq > MOST_UNSTORED else None


def _next_of_walk(row: Upstream, after: int) -> Batch:
    """Return the next records that are here, or that have been there."""
    here = local_records.ids_after(row.organization_id, after, MOST_RECORDS)
    there = counterparts.ids_after(row.no, after, MOST_RECORDS)
    ids = sorted({*here, *there})[:MOST_RECORDS]
    if not ids:
        upstreams.end_walk(row.no)
        return Batch(())
    return Batch(ids, walk_id=ids[-1])


def order(holders: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Return records in the order in which their new keys become free, and the records to move out of the way first.

    `holders`: for each record the one that has its new key there. A chain of renames is written from its end. A circle
    has no end, so one of its records gets a temporary key first.
    """
    ordered: list[int] = []
    moved: list[int] = []
    left = dict(holders)
    while left:
        record_id, path = next(iter(left)), list[int]()
        while record_id in left and record_id not in path:
            path.append(record_id)
            record_id = left[record_id]
        if record_id not in ordered:
            moved.append(record_id)
        ordered += reversed(path)
        for one in path:
            del left[one]
    return ordered, moved


@dataclass(eq=False)
class Item:
    """A record of a round: as it is here, its counterpart before the round and now, and the record there.

    `key_id` is the id there of another record with its new key, `holder` the record of this box to which that belongs.
    """

    id: int
    kind: Kind
    here: LocalRecord | None
    before: Counterpart | None
    now: Counterpart | None
    parent: Item | None = None
    remote: Record | None = None
    key_id: int | None = None
    holder: int | None = None
    is_too_large: bool = False
    is_done: bool = False

    @property
    def live(self) -> LocalRecord | None:
        return self.here if self.here and not self.here.is_deleted else None

    @property
    def is_sent(self) -> bool:
        return self.here is None or self.here.is_sent

    @property
    def stored(self) -> Counterpart:
        return self.now or Counterpart(self.id, self.kind)

    @property
    def keys(self) -> list[str]:
        """The keys by which it is searched there: that of an unanswered creation, and its present one."""
        sending = self.stored.sending_key if self.stored.remote_id is None else None
        return [*([sending] if sending else []), *([self.live.key] if self.live else [])]

    @property
    def order(self) -> tuple[int, int, int]:
        """Deleted assets free their keys and places first; parents come before children, and are deleted after them."""
        if self.kind is Kind.ASSET:
            return (2 if self.live else _DELETED_ASSETS), 0, self.id
        depth, parent = 0, self.parent
        while parent and depth < 1000:
            depth, parent = depth + 1, parent.parent
        return (1, depth, self.id) if self.live else (3, -depth, self.id)

    def content_of(self, here: LocalRecord) -> content.Content:
        return here.content(self.parent.stored.remote_id if self.parent else None)

    def has_trouble(self, *kinds: TroubleKind) -> bool:
        return bool(self.now and self.now.trouble and self.now.trouble.kind in kinds)

    def result(self) -> Counterpart | None:
        """Return the counterpart with its attempts in trouble, and since when it lasts."""
        if self.now is None:
            return None
        if self.now.trouble is None:
            return self.now._replace(trouble_at=None, attempts=0, is_forced=False)
        if self.before is None or self.before.trouble is None:
            return self.now._replace(trouble_at=clock.now(), attempts=0)
        return self.now._replace(trouble_at=self.before.trouble_at, attempts=self.before.attempts + 1)


class Work:
    """The records of one round, in an order in which each can be written."""

    def __init__(self, client: Client, row: Upstream, ids: Collection[int]) -> None:
        self._client = client
        self._row = row
        self._items: dict[int, Item] = {}  # with the ancestors of locations
        self._written = 0  # records that were changed there
        self._has_broken = False  # the connection, during the write of a record
        self._load(ids)
        sent = [one for one in self._items.values() if one.is_sent]
        chosen = [one for one in sent if one.id in ids or one.stored.remote_id is None]
        self._round = sorted(chosen, key=lambda one: one.order)

    def do(self) -> None:
        """Write all records, and once more those that wait for a key, tag or parent of another record of the round."""
        deleted = [one for one in self._round if one.order[0] == _DELETED_ASSETS]
        others = self._round[len(deleted) :]
        self._write_all(deleted)
        self._write_all(others)
        ordered = self._make_way()
        again = [one for one in others if one not in ordered and one.has_trouble(*_AGAIN)]
        if ordered or (again and len(again) < len(self._round)):
            self._write_all([*ordered, *again])

    def store(self, batch: Batch | None) -> None:
        """Store results and place in one transaction; None after a round that could not be completed.

        Nothing is written if nothing is new.
        """
        done = [one for one in self._items.values() if one.is_done]
        kept = [result for one in done if (result := one.result()) and result != one.before]
        gone = [one.id for one in done if one.now is None and one.before]
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

    def _load(self, ids: Collection[int]) -> None:
        """Read records. Those of another organization, or created and deleted in between, are left out."""
        with reading():
            here = local_records.read(self._row.organization_id, ids)
            stored = counterparts.of_records(self._row.no, {*ids, *here})
        for record_id in {*here, *stored} - set(self._items):
            known: LocalRecord | Counterpart = here.get(record_id) or stored[record_id]
            before = stored.get(record_id)
            self._items[record_id] = Item(record_id, known.kind, here.get(record_id), before, before)
        for one in here.values():
            self._items[one.id].parent = self._items.get(one.parent_id) if one.parent_id is not None else None

    def _item(self, record_id: int) -> Item | None:
        """Return a record of this round or another one."""
        if record_id not in self._items:
            self._load([record_id])
        return self._items.get(record_id)

    def _make_way(self) -> list[Item]:
        """Free the keys that records of the round wait for. Returns these records in the order to write them."""
        blocked = [one for one in self._round if one.has_trouble(TroubleKind.BLOCKED)]
        ordered, moved = order({one.id: one.holder for one in blocked if one.holder is not None})
        for item in filter(None, map(self._item, moved)):
            if item.live and item.is_sent:
                left = push.move_away(self._client, item.live, item.stored, self._keep)
                item.now, item.is_done = left or item.now, item.is_done or left is not None
        return [self._items[one] for one in ordered]

    def _write_all(self, items: Sequence[Item]) -> None:
        """Read the records there, then write. Each group can use the keys and tags that the one before has freed."""
        for kind in (Kind.LOCATION, Kind.ASSET):
            of_kind = [one for one in items if one.kind is kind]
            by_key = self._client.by_keys(kind, sorted({key for one in of_kind for key in one.keys}))
            for item in of_kind:
                item.remote = self._look_up(item, by_key)
        self._keep_sending(items)
        for item in items:
            self._write(item)

    def _look_up(self, item: Item, by_key: dict[str, Record]) -> Record | None:
        """Read the record there: a counterpart by id, others by key."""
        stored, here = item.stored, item.live
        remote = by_key.get(here.key) if here else None
        if remote is not None and remote["id"] != stored.remote_id:
            item.key_id = remote["id"]
        if stored.remote_id is None:
            created = self._created(stored, by_key)
            if created is None:
                return remote
            known = Known(content.of_answer(item.kind, created).marks)
            item.now = stored._replace(remote_id=created["id"], known=known, sending_key=None)
            return created
        if remote is None or remote["id"] != stored.remote_id:
            try:
                remote = self._client.by_id(item.kind, stored.remote_id)
            except TooMuch:
                item.is_too_large = True
                return None
        if remote is not None:
            item.now = stored._replace(known=content.settled(content.of_answer(item.kind, remote), stored.known))
        return remote

    def _created(self, stored: Counterpart, by_key: dict[str, Record]) -> Record | None:
        """Return the record with a creation that was not answered."""
        remote, sending = by_key.get(stored.sending_key or ""), stored.known.sending
        if remote is None or sending is None or self._owner(remote["id"]) not in (None, stored.record_id):
            return None
        return remote if content.is_of_write(content.of_answer(stored.kind, remote), sending) else None

    def _keep_sending(self, items: Sequence[Item]) -> None:
        """Store the values before they are written."""
        rows = []
        for item in items:
            if here := item.live:
                marks, stored = item.content_of(here).marks, item.stored
                if content.is_unchanged(marks, stored.known):
                    continue
                key = here.key if stored.remote_id is None else None
                item.now = stored._replace(known=stored.known._replace(sending=marks), sending_key=key)
                rows.append(item.now)
        if rows:
            self._keep(*rows)

    def _keep(self, *rows: Counterpart) -> None:
        with writing():
            counterparts.keep(self._row.no, rows, clock.now())

    def _write(self, item: Item) -> None:
        """Write one record. One by which the service fails each time is set aside, and the others continue."""
        before = self._client.writes
        try:
            if item.is_too_large:
                item.now = item.stored._replace(trouble=TOO_LARGE)
            elif item.live:
                item.now = self._push(item, item.live)
            else:
                item.now = push.delete(self._client, item.stored, item.remote)
        except Away as error:
            if not self._may_set_aside(error, item):
                raise
            item.now = item.stored._replace(trouble=Trouble(TroubleKind.REFUSED, str(error)))
        self._written += self._client.writes > before
        item.is_done = True

    def _may_set_aside(self, error: Away, item: Item) -> bool:
        """Return True if the service fails by this record again and again. Lookups before it have been answered.

        The connection may break once in a round, because each attempt may take long.
        """
        is_known = item.has_trouble(TroubleKind.REFUSED)
        if not error.may_be_of_record or (self._row.failures < MOST_FAILURES and not is_known):
            return False
        has_broken, self._has_broken = self._has_broken, self._has_broken or not error.has_answered
        return error.has_answered or not has_broken

    def _push(self, item: Item, here: LocalRecord) -> Counterpart:
        if here.parent_id is not None and (item.parent is None or item.parent.stored.remote_id is None):
            key = item.parent.here.key if item.parent and item.parent.here else "?"
            return item.stored._replace(trouble=Trouble(TroubleKind.WAITS, f"its parent {key} is not there yet"))
        job = push.Job(
            *(here, item.content_of(here), item.stored._replace(trouble=None), item.remote),
            is_owned=lambda remote_id: self._owner(remote_id) not in (None, item.id),
            keep=self._keep,
            clash=lambda tag: self._clash(item, here, tag),
        )
        return push.push(self._client, job)

    def _owner(self, remote_id: int | None) -> int | None:
        """Return the record of this box for an id there, unless it has been deleted there in this round."""
        if remote_id is None:
            return None
        in_round = (one.id for one in self._items.values() if one.now and one.now.remote_id == remote_id)
        owner = next(in_round, None) or counterparts.owner(self._row.no, remote_id)
        item = self._items.get(owner) if owner else None
        return None if item and item.is_done and item.now is None else owner

    def _clash(self, item: Item, here: LocalRecord, tag: Tag | None) -> Trouble:
        """Return who has the key there, or this tag. Lists have shown a key, unless the record is not in effect."""
        mark = content.mark(tag or here.key)
        if tag is not None:
            what = f"its tag {tag[0]}:{tag[1]}"
            holder = self._holder(item, mark, lambda one: mark in _base(one).get(TAGS, ()))
        else:
            what = f"its key {here.key}"
            holder = self._owner(item.key_id) or self._holder(
                item, mark, lambda one: one.kind is here.kind and _base(one).get(KEY) == mark
            )
            item.holder = holder
        if holder is not None:
            return Trouble(TroubleKind.BLOCKED, f"{what} still belongs to {self._name(holder)} there")
        other = self._client.holder_of(*tag) if tag else "another record"
        return Trouble(TroubleKind.TAKEN, f"{what} belongs to {other} there{'' if tag else NOT_SHOWN}")

    def _holder(self, item: Item, mark: str, has: Callable[[Counterpart], bool]) -> int | None:
        """Return the other record of this box that has a key or tag there."""
        in_round = [one.now for one in self._items.values() if one.now]
        stored = [one for one in counterparts.holding(self._row.no, mark) if one.record_id not in self._items]
        return next((one.record_id for one in (*in_round, *stored) if one.record_id != item.id and has(one)), None)

    def _name(self, record_id: int) -> str:
        one = self._item(record_id)
        return f"{one.kind.name.lower()} {one.here.key}" if one and one.here else "a record that is deleted here"


def _base(stored: Counterpart) -> content.Marks:
    return stored.known.base or {}
