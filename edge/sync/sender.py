"""The site's side of sync: agrees with the hub on a position and sends batches.

A batch is stored before it is sent, and the hub's cursor shows whether it arrived. So the next round recovers from lost
messages and from crashes on either side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from edge import clock
from edge.database import change_log
from edge.database.change_log import Change, Kind
from edge.database.connection import reading, writing
from edge.database.instance import fingerprint, running_box
from edge.database.sliced_writing import write_in_slices
from edge.errors import EdgeError
from edge.sync import batch_format
from edge.sync.store import (
    change_feed,
    conflicts,
    epochs,
    hub_link,
    mirrors,
    outgoing,
    record_copies,
    site_health,
    sites,
    state,
)
from edge.sync.store.exchange import HUB, Batch, Cursor, Needs, Peer
from edge.sync.store.hub_link import Target
from edge.sync.store.refused_data import set_aside
from edge.sync.store.site_health import HealthLane, SiteHealth

NOW_ROWS = 5000  # positions per batch
SILENCE = 180 * clock.SECOND  # poll interval without data to send
REFUSED_SECONDS = 60.0  # retry delay for refused data that cannot be set aside
RENEW_AGAIN = 600 * clock.SECOND  # minimum interval between new epochs
NO_AGREEMENT = "The hub and this box disagree on the reported position; trying again"
MAX_RECORDS = 500  # per batch; one costs the hub as much as 50 stays under its write lock
MOST_NEEDS = 50_000  # records and tracks that a hub may ask for until it applies a batch
MAX_ROWS = 2000  # changes per batch until the hub sets a limit

Ranges = Sequence[tuple[int, int, int]]  # track, since, until
Call = Callable[[str, bytes], Any]  # path below /sync/v1/ and body; returns decoded JSON


class LinkError(EdgeError):
    """The hub is unreachable or cannot answer now; retry after at least `wait_seconds`."""

    def __init__(self, message: str, wait_seconds: float = 0) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class SecondBox(LinkError):
    """Another machine reports as this site, or writes as its hub. Retry, and report it at once: a person must act."""


class HistoryWaits(LinkError):
    """The hub takes only current locations for now, since its disk or the quota of this site is full."""


class BatchRefused(EdgeError):
    """The hub cannot accept this batch; it may accept half of it."""


class Stopped(EdgeError):
    """The hub refuses this site until somebody intervenes."""


class Sent(NamedTuple):
    """Result of a push: `rows` changes were accepted; `is_all` is True if none remain."""

    rows: int
    is_all: bool
    wait_seconds: float = 0


class Sender:
    """A session with the hub. Persistent state is kept in the store."""

    def __init__(
        self, call: Call, seen_every: int = 0, interval_seconds: float = 0, health: HealthLane | None = None
    ) -> None:
        """Start a session. `seen_every` (µs): minimum interval of last-seen updates for assets that do not move.

        `interval_seconds`: pause between rounds, which the hub needs to recognize a silent site.
        """
        self._call = call
        self._seen_every = seen_every
        self._interval_seconds = math.ceil(interval_seconds)
        self._health = health
        if health:
            health.begin_session()
        self._accepts: list[str] = []  # optional features of the hub
        self._is_lane_clear = True  # True if the last batch had all due positions
        self._max_rows = MAX_ROWS
        self._needs = Needs()
        self._asked: set[tuple[Any, ...]] = set()
        self._pending_batch: Batch | None = None  # the pending batch, if this session created it
        self._hub_masters: list[Any] = []  # epoch and newest master data change reported by the hub
        self._page: int | None = None
        self._paging_until = 0

    def connect(self) -> None:
        """Do the handshake. Raises LinkError, or Stopped if this machine may no longer report as the site."""
        for _ in range(2):
            here = _target()
            health = self._health.due(here.organization_id) if self._health else None
            greeting = {**_greeting(here), "report": self._report(here, here.acked_seq), **site_health.content(health)}
            answer = self._call("hello", batch_format.pack(greeting))
            self._note_delivered(health)
            self._accepts = answer.get("accepts", [])
            self._note_answer(answer)
            if self._reconcile(here, _cursor(answer)):
                return
        raise LinkError(NO_AGREEMENT)

    def push(self, *, with_history: bool = True, with_new: bool = True) -> Sent:
        """Send the next batch if there is one. Without history, it contains positions only.

        Without new data, these are positions that the hub knows, so they need no space there. Raises HistoryWaits.
        """
        here = _target()
        if here.pending is None:
            self._prepare(here, with_history=with_history, with_new=with_new)
            here = _target()
        if here.pending is None:
            if clock.now() - (here.last_contact_at or 0) > SILENCE:
                self.connect()
                hub_link.update(board_at=clock.now())
            return Sent(0, True)
        rows, is_all = (here.pending_seq or 0) - here.acked_seq, self._is_lane_clear
        try:
            answer = self._send(here.pending)
        except BatchRefused as error:
            self._take_less(here, str(error))
            return Sent(0, False)
        except HistoryWaits as error:  # the hub has the cursor that this batch follows, so it has nothing of it
            hub_link.drop_pending()
            hub_link.update(history_waits=str(error))
            raise
        if here.history_waits is not None and with_history:
            hub_link.update(history_waits=None)
        for entry in answer["aside"]:
            item, _, reason = entry.partition(": ")
            set_aside(0, item, reason)
        self._note_delivered(self._pending_batch.health if self._pending_batch else None)
        self._note_answer(answer)
        self._settle(here, answer, with_new=with_new)
        acked_seq = _target().acked_seq
        is_all = is_all and change_log.newest_after(acked_seq) == acked_seq
        return Sent(rows, is_all, answer["wait_ms"] / 1000)

    def _send(self, body: bytes) -> Any:
        if len(body) > batch_format.MAX_BODY:
            raise BatchRefused("it is larger than a hub accepts")
        return self._call("changes", body)

    def pull(self) -> None:
        """Fetch changed assets of the hub and of other sites."""
        here, has_news = _target(), False
        while [here.hub_epoch, here.master_seq] != self._hub_masters:  # also between the pages of one question
            question = {"after": here.master_seq, "epoch": here.hub_epoch, "page": self._page, "hub": _seen(here)}
            answer = self._call("masters", batch_format.pack(question))
            if "after" in answer:  # a page of all live assets; copies that it does not list may have been deleted
                listed = {int(row[0]) for row in answer["assets"]}
                known = record_copies.live_copies(int(answer["after"]), answer["page"])
                self._ask(here, [number for number in known if number not in listed])
            self._keep_masters(here, answer)
            here, has_news = _target(), True
        if has_news:
            self._ask(here, conflicts.copies_in_conflict(MAX_RECORDS))

    def _ask(self, here: Target, numbers: list[int]) -> None:
        """Fetch assets by the hub's ids, if the hub knows this question."""
        if batch_format.ASK in self._accepts:
            fetch_assets(here, self._call, numbers)

    def _keep_masters(self, here: Target, answer: Any) -> None:
        peer = Peer(HUB, here.organization_id, here.hub_name)
        if self._page is None:
            self._paging_until = int(answer["until"])
        with writing():
            mirrors.adopt(peer, [(int(hub_id), int(own)) for hub_id, own in answer["yours"]])
        write_in_slices(mirrors.apply_in_steps(peer, batch_format.asset_records(answer), (), []))
        with writing():
            if current := _hub_state(answer):
                hub_link.update(**current)
            if answer["page"] is None:
                hub_link.update(hub_epoch=answer["epoch"], master_seq=self._paging_until)
        self._page = answer["page"]
        if self._page is None and self._hub_masters[:1] == [answer["epoch"]]:
            self._hub_masters = [answer["epoch"], max(self._paging_until, self._hub_masters[1])]

    def _note_answer(self, answer: Any) -> None:
        self._hub_masters = answer["masters"]
        now = clock.now()
        hub_link.update(
            clock_offset=answer["time"] - now,
            last_contact_at=now,
            rival_at=now if answer.get("has_rival") else None,
            **{name: batch_format.short_name(answer[name]) for name in ("hub_id", "code") if answer.get(name)},
            **_hub_state(answer),
        )

    def _report(self, here: Target, until_seq: int) -> dict[str, int]:
        """Return the state of sync that the hub shows: progress, clock offset and interval."""
        return {
            "waiting": change_feed.count_after(until_seq),
            "board_at": here.board_at or 0,
            "history_until": state.history_until(here) or 0,
            "clock_offset": here.clock_offset or 0,
            sites.INTERVAL: self._interval_seconds,
        }

    def _note_delivered(self, health: SiteHealth | None) -> None:
        if self._health:
            self._health.delivered(health)

    def _settle(self, here: Target, answer: Any, *, with_new: bool) -> None:
        present = _cursor(answer)
        if answer["applied"]:
            self._acknowledge(here, present)
            self._max_rows = min(answer["max_rows"], self._max_rows * 2)
            if with_new:
                self._needs = Needs()
            self._asked.clear()
            return
        needs = Needs(**{name: tuple(map(int, ids)) for name, ids in answer["needs"].items()})
        if sum(map(len, (*needs, *self._needs))) > MOST_NEEDS:
            raise LinkError(f"the hub asked for more than {MOST_NEEDS} records")
        if any(needs):
            hub_link.drop_pending()
            self._declare(here, needs)
        elif not self._reconcile(here, present):
            self.connect()  # announce the new epoch

    def _declare(self, here: Target, needs: Needs) -> None:
        if tuple(needs) in self._asked:
            self._take_less(here, f"the hub does not know {needs}, and this box cannot tell it")
            return
        self._asked.add(tuple(needs))
        self._needs = Needs(*(sorted({*old, *new}) for old, new in zip(self._needs, needs, strict=True)))

    def _prepare(self, here: Target, *, with_history: bool, with_new: bool) -> None:
        """Read the due changes and store them as the pending batch.

        A hub of an earlier release accepts no batch without changes. Without history, it gets one change at a time.
        Records that the hub asked for wait until it takes new data, and so do positions that need them.
        """
        is_numbered = with_history or batch_format.SEEN not in self._accepts
        max_rows = self._max_rows if with_history else 1
        since = clock.now() - (here.board_at or 0)
        is_seen_due = not 0 <= since < self._seen_every
        with reading():
            moment, until = clock.now(), change_log.newest_after(here.acked_seq)
            due = _with_few_records(change_log.after(here.acked_seq, max_rows)) if is_numbered else []
            contents = outgoing.Contents(here.organization_id, here.horizon)
            if with_new:
                contents.need(self._needs)
            for change in due:
                contents.add(change, max_rows)
            max_seen = NOW_ROWS if self._max_rows >= MAX_ROWS else self._max_rows
            due_tracks = outgoing.DueTracks()
            if is_seen_due:
                due_tracks = outgoing.due_tracks(here.organization_id, max_seen, MAX_RECORDS if with_new else 0)
            contents.add_tracks(due_tracks.changed)
            is_up_to_date = is_numbered and (due[-1].seq if due else here.acked_seq) == until
            if is_up_to_date and batch_format.SEEN in self._accepts:
                contents.add_seen(due_tracks.seen)
            else:
                contents.add_tracks(due_tracks.seen)  # their location may be among the waiting changes
            self._is_lane_clear = due_tracks.is_all or not is_seen_due
            is_nothing_due = not (due_tracks.changed or due_tracks.seen or (with_new and any(self._needs)))
            if is_nothing_due and (until == here.acked_seq or not with_history):
                return
            last = here.acked_seq if not is_numbered else due[-1].seq if due else until
            batch = contents.batch(last)
        if not with_new:
            batch = _without(self._needs, batch)
            if not batch.tracks:
                return
        if is_numbered and batch.until_seq == here.acked_seq:  # last-seen times only
            claimed = change_feed.claim(here.acked_seq)
            if claimed is None:
                self._prepare(here, with_history=with_history, with_new=with_new)
                return
            batch = batch._replace(until_seq=claimed)
        if with_history and self._health:
            batch = batch._replace(health=self._health.due(here.organization_id))
        self._keep_pending(here, batch, contents.rest, moment if due_tracks.is_all else None)

    def _keep_pending(self, here: Target, batch: Batch, rest: Ranges, board_at: int | None) -> None:
        """Store a batch before it is sent, and queue the rest of ranges that were too long for it."""
        batch = batch._replace(report=self._report(here, batch.until_seq), hub_seen=here.hub_state)
        body = batch_format.encode(here.cursor, batch)
        with writing():
            for piece in rest:
                change_feed.add(Kind.RANGE, *piece)
            hub_link.keep_pending(body, batch.until_seq, board_at)
        self._pending_batch = batch

    def _acknowledge(self, here: Target, cursor: Cursor) -> None:
        batch = self._pending_batch or batch_format.decode(here.pending or b"")[1]
        seen = [*((track.no, track.last_seen_at) for track in batch.tracks), *batch.seen]
        hub_link.acknowledge(cursor, seen, batch.gone_tracks)
        self._pending_batch = None

    def _take_less(self, here: Target, reason: str) -> None:
        """Halve the batch size; set a change aside if the hub refuses it alone."""
        self._max_rows //= 2
        self._needs = Needs()
        self._asked.clear()
        hub_link.drop_pending()
        if self._max_rows >= 1:
            return
        self._max_rows = 1
        # The refused batch may have had positions only; a change that came later was not in it.
        refused_until = here.acked_seq if here.pending_seq is None else here.pending_seq
        first = [change for change in change_log.after(here.acked_seq, 1) if change.seq <= refused_until]
        if not first:
            raise LinkError(f"the hub rejected the current locations: {reason}", REFUSED_SECONDS)
        for change in first:
            with writing():
                set_aside(0, f"change {change.seq}, {Kind(abs(change.kind)).name.lower()} {change.a}", reason)
                hub_link.skip(change.seq)

    def _reconcile(self, here: Target, hub: Cursor) -> bool:
        """Continue from the hub's cursor. Returns False if a new handshake is needed."""
        if hub == here.cursor:
            return True
        if here.pending and hub.chain == batch_format.next_chain(here.chain, here.pending):
            self._acknowledge(here, hub)  # accepted; only the response was lost
            return True
        known = hub_link.checkpoint_chain(hub.acked_seq)
        if hub.epoch == here.epoch and hub.acked_seq <= here.acked_seq and known in (None, hub.chain):
            self._rewind(here, hub)
            return True
        since = clock.now() - (here.renewed_at or 0)
        if 0 <= since < RENEW_AGAIN:
            raise LinkError(NO_AGREEMENT, min(REFUSED_SECONDS, (RENEW_AGAIN - since) / clock.SECOND))
        epochs.renew_epoch()
        return False

    def _rewind(self, here: Target, hub: Cursor) -> None:
        """Go back to a restored hub's cursor. Changes older than the feed are detected by comparing digests."""
        with writing():
            hub_link.continue_from(hub)
            if hub.acked_seq + 1 < change_log.oldest_kept():
                change_feed.add_names(here.organization_id)
                hub_link.update(verify_wanted=max(here.verify_wanted, 1))


def fetch_assets(here: Target, call: Call, numbers: list[int]) -> None:
    """Fetch assets by the hub's ids. A restored hub may have lost them, or have them as this site's own."""
    peer = Peer(HUB, here.organization_id, here.hub_name)
    while numbers:
        question = {"after": 0, "epoch": None, "page": None, "hub": _seen(here), "ids": numbers[:MAX_RECORDS]}
        answer = call("masters", batch_format.pack(question))
        with writing():
            mirrors.keep_lost(peer, map(int, answer.get("lost", ())))  # a hub of an earlier release does not say it
            mirrors.take_back(peer, [(int(hub_id), int(own)) for hub_id, own in answer["own"]])
            mirrors.adopt(peer, [(int(hub_id), int(own)) for hub_id, own in answer["yours"]])
        write_in_slices(mirrors.apply_in_steps(peer, batch_format.asset_records(answer), (), []))
        numbers = numbers[max(1, int(answer["asked"])) :]


def _without(needs: Needs, batch: Batch) -> Batch:
    """Return the batch without positions that the hub cannot store before it has these records."""
    unknown = {*needs.locations, *needs.tracks}
    return batch._replace(tracks=[state for state in batch.tracks if unknown.isdisjoint((state.no, state.location))])


def _with_few_records(due: list[Change]) -> list[Change]:
    """Return the leading changes with at most MAX_RECORDS different assets and locations."""
    records = set()
    for at, change in enumerate(due):
        if change.kind in (Kind.ASSET, Kind.LOCATION):
            records.add((change.kind, change.a))
        if len(records) > MAX_RECORDS:
            return due[:at]
    return due


def _target() -> Target:
    target = hub_link.find()
    if target is None:
        raise Stopped("This box reports to no hub")
    return target


def _greeting(here: Target) -> dict[str, Any]:
    cursor = here.cursor
    return {
        "versions": batch_format.VERSIONS,
        "instance": fingerprint(),
        "cursor": [cursor.epoch, cursor.acked_seq, cursor.chain.hex()],
        "former": here.former,
        "hub": _seen(here),
        "box": running_box(),
        "recovering": here.recovering is not None,
    }


def _seen(here: Target) -> list[Any] | None:
    return list(here.hub_state) if here.hub_state else None


def _hub_state(answer: Any) -> dict[str, Any]:
    """Return the columns for the hub's state in an answer; empty for hubs of earlier releases."""
    current = batch_format.hub_state(answer.get("state"))
    return (
        {"hub_seen_epoch": current.epoch, "hub_seen": current.number, "hub_seen_mark": current.mark} if current else {}
    )


def _cursor(answer: Any) -> Cursor:
    epoch, acked, chain = answer["cursor"]
    return Cursor(epoch, acked, bytes.fromhex(chain))
