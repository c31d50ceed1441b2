"""The site's side of sync: agrees with the hub on a position and sends batches.

A batch is stored before it is sent, and the hub's cursor shows whether it arrived. So the next round recovers from lost
messages and from crashes on either side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import reading, writing
from edge.database.instance import fingerprint, running_box
from edge.errors import EdgeError
from edge.sync import batch_format
from edge.sync.store import change_feed, epochs, hub_link, mirrors, outgoing
from edge.sync.store import state as sync_state
from edge.sync.store.change_feed import Change, Kind
from edge.sync.store.exchange import HUB, Batch, Cursor, Needs
from edge.sync.store.hub_link import Target
from edge.sync.store.mirrors import Peer, set_aside

NOW_ROWS = 5000  # positions per batch
SILENCE = 180 * clock.SECOND  # poll interval without data to send
REFUSED_SECONDS = 60.0  # retry delay for refused data that cannot be set aside
RENEW_AGAIN = 600 * clock.SECOND  # minimum interval between new epochs
NO_AGREEMENT = "The hub and this box disagree on the reported position; trying again"
MAX_RECORDS = 500  # per batch; one costs the hub as much as 50 stays under its write lock
MAX_ROWS = 2000  # changes per batch until the hub sets a limit

Call = Callable[[str, bytes], Any]  # path below /sync/v1/ and body; returns decoded JSON


class LinkError(EdgeError):
    """The hub is unreachable or cannot answer now; retry after at least `wait_seconds`."""

    def __init__(self, message: str, wait_seconds: float = 0) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class SecondBox(LinkError):
    """Another machine reports as this site; retry and report it."""


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

    def __init__(self, call: Call, seen_every: int = 0) -> None:
        """Start a session. `seen_every` (µs): minimum interval of last-seen updates for assets that do not move."""
        self._call = call
        self._seen_every = seen_every
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
            answer = self._call("hello", batch_format.pack(_greeting(here)))
            self._accepts = answer.get("accepts", [])
            self._note_answer(answer)
            if self._reconcile(here, _cursor(answer)):
                return
        raise LinkError(NO_AGREEMENT)

    def push(self, *, with_history: bool = True) -> Sent:
        """Send the next batch if there is one. Without history, it contains positions only."""
        here = _target()
        if here.pending is None:
            self._prepare(here, with_history=with_history or batch_format.SEEN not in self._accepts)
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
        for entry in answer["aside"]:
            item, _, reason = entry.partition(": ")
            set_aside(0, item, reason)
        self._note_answer(answer)
        self._settle(here, answer)
        return Sent(rows, is_all and change_feed.newest() <= _target().acked_seq, answer["wait_ms"] / 1000)

    def _send(self, body: bytes) -> Any:
        if len(body) > batch_format.MAX_BODY:
            raise BatchRefused("it is larger than a hub accepts")
        return self._call("changes", body)

    def pull(self) -> None:
        """Fetch changed assets of the hub and of other sites."""
        here = _target()
        while self._page is not None or [here.hub_epoch, here.master_seq] != self._hub_masters:
            question = {
                "after": here.master_seq,
                "epoch": here.hub_epoch,
                "page": self._page,
                "hub": _seen(here),
            }
            answer = self._call("masters", batch_format.pack(question))
            self._keep_masters(here, answer)
            here = _target()

    def _keep_masters(self, here: Target, answer: Any) -> None:
        peer = Peer(HUB, here.organization_id, here.hub_name)
        if self._page is None:
            self._paging_until = int(answer["until"])
        with writing():
            mirrors.adopt(peer, [(int(hub_id), int(own)) for hub_id, own in answer["yours"]])
            mirrors.apply(peer, batch_format.asset_records(answer["assets"]), ())
            if state := _hub_state(answer):
                hub_link.update(**state)
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
            **_hub_state(answer),
        )

    def _settle(self, here: Target, answer: Any) -> None:
        present = _cursor(answer)
        if answer["applied"]:
            self._acknowledge(here, present)
            self._max_rows = min(answer["max_rows"], self._max_rows * 2)
            self._needs = Needs()
            self._asked.clear()
            return
        needs = Needs(**{name: tuple(map(int, ids)) for name, ids in answer["needs"].items()})
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

    def _prepare(self, here: Target, *, with_history: bool) -> None:
        """Read the due changes and store them as the pending batch."""
        since = clock.now() - (here.board_at or 0)
        is_seen_due = not 0 <= since < self._seen_every
        with reading():
            moment, until = clock.now(), change_feed.newest()
            due = _with_few_records(change_feed.after(here.acked_seq, self._max_rows)) if with_history else []
            contents = outgoing.Contents(here.organization_id, here.horizon)
            contents.need(self._needs)
            for change in due:
                contents.add(change, self._max_rows)
            max_seen = NOW_ROWS if self._max_rows >= MAX_ROWS else self._max_rows
            due_tracks = outgoing.DueTracks()
            if is_seen_due:
                due_tracks = outgoing.due_tracks(here.organization_id, max_seen, MAX_RECORDS)
            contents.add_tracks(due_tracks.changed)
            is_up_to_date = with_history and (due[-1].seq if due else here.acked_seq) == until
            if is_up_to_date and batch_format.SEEN in self._accepts:
                contents.add_seen(due_tracks.seen)
            else:
                contents.add_tracks(due_tracks.seen)  # their location may be among the waiting changes
            self._is_lane_clear = due_tracks.is_all or not is_seen_due
            is_nothing_due = not due_tracks.changed and not due_tracks.seen and not any(self._needs)
            if is_nothing_due and (until == here.acked_seq or not with_history):
                return
            last = here.acked_seq if not with_history else due[-1].seq if due else until
            batch = contents.batch(last)
        if with_history and batch.until_seq == here.acked_seq:  # last-seen times only
            claimed = change_feed.claim(here.acked_seq)
            if claimed is None:
                self._prepare(here, with_history=True)
                return
            batch = batch._replace(until_seq=claimed)
        batch = batch._replace(report=_report(here, batch.until_seq), hub_seen=here.hub_state)
        body = batch_format.encode(here.cursor, batch)
        with writing():
            for piece in contents.rest:
                change_feed.add_range(*piece)
            hub_link.keep_pending(body, batch.until_seq, moment if due_tracks.is_all else None)
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
        first = change_feed.after(here.acked_seq, 1)
        if not first:
            raise LinkError(f"the hub rejected the current locations: {reason}", REFUSED_SECONDS)
        for change in first:
            with writing():
                set_aside(0, f"change {change.seq}, {Kind(change.kind).name.lower()} {change.a}", reason)
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
            if hub.acked_seq + 1 < change_feed.oldest_kept():
                change_feed.add_names(here.organization_id)
                hub_link.update(is_verify_requested=1)


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
        "report": _report(here, here.acked_seq),
    }


def _seen(here: Target) -> list[Any] | None:
    return list(here.hub_state) if here.hub_state else None


def _hub_state(answer: Any) -> dict[str, Any]:
    """Return the columns for the hub's state in an answer; empty for hubs of earlier releases."""
    state = batch_format.hub_state(answer.get("state"))
    return {"hub_seen_epoch": state.epoch, "hub_seen": state.number, "hub_seen_mark": state.mark} if state else {}


def _report(here: Target, until_seq: int) -> dict[str, int]:
    """Return the status that the hub shows: progress and clock offset."""
    return {
        "waiting": change_feed.count_after(until_seq),
        "board_at": here.board_at or 0,
        "history_until": sync_state.history_until(here) or 0,
        "clock_offset": here.clock_offset or 0,
    }


def _cursor(answer: Any) -> Cursor:
    epoch, acked, chain = answer["cursor"]
    return Cursor(epoch, acked, bytes.fromhex(chain))
