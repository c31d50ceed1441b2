"""What a site does: agree with the hub on where it is, and send batch after batch.

Whatever is lost on the way, or when either side dies between two steps, the next round finds out: a batch is stored
before it is sent, and the hub's cursor says whether it arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import reading, writing
from edge.database.instance import fingerprint, running_box
from edge.errors import EdgeError
from edge.sync import batch_format
from edge.sync.store import change_feed, hub_link, mirrors, outgoing
from edge.sync.store import state as sync_state
from edge.sync.store.change_feed import Change, Kind
from edge.sync.store.exchange import HUB, Batch, Cursor, Needs
from edge.sync.store.hub_link import Target
from edge.sync.store.mirrors import Peer, set_aside

NOW_ROWS = 5000  # positions in one batch
SILENCE = 180 * clock.SECOND  # with nothing to send, how often the hub is polled
REFUSED_SECONDS = 60.0  # until what the hub refuses, and cannot be set aside, is sent again
RENEW_AGAIN = 600 * clock.SECOND  # at most so often this box starts a new epoch
NO_AGREEMENT = "The hub and this box do not agree on how far it has reported; trying again"
MAX_RECORDS = 500  # in one batch: for each a hub takes as long as for fifty stays, and nobody else writes meanwhile
MAX_ROWS = 2000  # changes in one batch, as long as the hub does not say

Call = Callable[[str, bytes], Any]  # path below /sync/v1/ and body; the answer as plain values


class LinkError(EdgeError):
    """The hub cannot be reached, or cannot answer now: try again. `wait_seconds` is what it asked for."""

    def __init__(self, message: str, wait_seconds: float = 0) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class SecondBox(LinkError):
    """Another box reports as this site: try again, and say so."""


class BatchRefused(EdgeError):
    """The hub cannot take this batch: perhaps half of it."""


class Stopped(EdgeError):
    """The hub refuses this box until a person does something."""


class Sent(NamedTuple):
    """`rows` changes were taken; `is_all` when nothing was waiting behind them."""

    rows: int
    is_all: bool
    wait_seconds: float = 0


class Sender:
    """One session with the hub. Everything that must outlive it is in the store."""

    def __init__(self, call: Call, seen_every: int = 0) -> None:
        """`seen_every` (microseconds): assets that do not move are reported as seen no more often."""
        self._call = call
        self._seen_every = seen_every
        self._accepts: list[str] = []  # what the hub takes beyond its version
        self._is_lane_clear = True  # nothing is due but changes
        self._max_rows = MAX_ROWS
        self._needs = Needs()
        self._asked: set[tuple[Any, ...]] = set()
        self._on_its_way: Batch | None = None  # what `pending` holds, when this session made it
        self._hub_masters: list[Any] = []  # epoch and newest change of the hub's master data, as last reported
        self._page: int | None = None
        self._paging_until = 0

    def connect(self) -> None:
        """Raises LinkError, and Stopped when this box may no longer report as the site."""
        for _ in range(2):
            here = _target()
            answer = self._call("hello", batch_format.pack(_greeting(here)))
            self._accepts = answer.get("accepts", [])
            self._heard(answer)
            if self._reconcile(here, _cursor(answer)):
                return
        raise LinkError(NO_AGREEMENT)

    def push(self, *, with_history: bool = True) -> Sent:
        """Send the next batch, if there is something to send; without history, only where assets are."""
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
            answer = self._tell(here.pending)
        except BatchRefused as error:
            self._take_less(here, str(error))
            return Sent(0, False)
        for reason in answer["aside"]:
            what, _, why = reason.partition(": ")
            set_aside(0, what, why)
        self._heard(answer)
        self._settle(here, answer)
        return Sent(rows, is_all and change_feed.newest() <= _target().acked_seq, answer["wait_ms"] / 1000)

    def _tell(self, body: bytes) -> Any:
        if len(body) > batch_format.MAX_BODY:
            raise BatchRefused("it is larger than what a hub takes")
        return self._call("changes", body)

    def pull(self) -> None:
        """Fetch the assets of the hub, and of the other sites, that changed since."""
        here = _target()
        while self._page is not None or [here.hub_epoch, here.master_seq] != self._hub_masters:
            asked = {
                "after": here.master_seq,
                "epoch": here.hub_epoch,
                "page": self._page,
                "hub": _seen(here),
            }
            answer = self._call("masters", batch_format.pack(asked))
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

    def _heard(self, answer: Any) -> None:
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
            self.connect()  # the hub knows nothing yet of the new epoch

    def _declare(self, here: Target, needs: Needs) -> None:
        if tuple(needs) in self._asked:
            self._take_less(here, f"the hub does not know {needs}, and this box cannot tell it")
            return
        self._asked.add(tuple(needs))
        self._needs = Needs(*(sorted({*old, *new}) for old, new in zip(self._needs, needs, strict=True)))

    def _prepare(self, here: Target, *, with_history: bool) -> None:
        """Read what is due and store it as the pending batch."""
        since = clock.now() - (here.board_at or 0)
        is_seen_due = not 0 <= since < self._seen_every
        with reading():
            moment, until = clock.now(), change_feed.newest()
            due = _with_few_records(change_feed.after(here.acked_seq, self._max_rows)) if with_history else []
            contents = outgoing.Contents(here.organization_id, here.horizon)
            contents.need(self._needs)
            for change in due:
                contents.add(change, self._max_rows)
            most_seen = NOW_ROWS if self._max_rows >= MAX_ROWS else self._max_rows
            told = outgoing.ToTell()
            if is_seen_due:
                told = outgoing.tracks_to_tell(here.organization_id, most_seen, MAX_RECORDS)
            contents.add_tracks(told.changed)
            is_up_to_date = with_history and (due[-1].seq if due else here.acked_seq) == until
            if is_up_to_date and batch_format.SEEN in self._accepts:
                contents.add_seen(told.seen)
            else:
                contents.add_tracks(told.seen)  # where they are may be among the changes that wait
            self._is_lane_clear = told.is_all or not is_seen_due
            is_nothing_due = not told.changed and not told.seen and not any(self._needs)
            if is_nothing_due and (until == here.acked_seq or not with_history):
                return
            last = here.acked_seq if not with_history else due[-1].seq if due else until
            batch = contents.batch(last)
        if with_history and batch.until_seq == here.acked_seq:  # sightings only
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
            hub_link.keep_pending(body, batch.until_seq, moment if told.is_all else None)
        self._on_its_way = batch

    def _acknowledge(self, here: Target, cursor: Cursor) -> None:
        batch = self._on_its_way or batch_format.decode(here.pending or b"")[1]
        seen = [*((track.no, track.last_seen_at) for track in batch.tracks), *batch.seen]
        hub_link.acknowledge(cursor, seen, batch.gone_tracks)
        self._on_its_way = None

    def _take_less(self, here: Target, reason: str) -> None:
        """Half the batch, until a single change is left that the hub cannot take: that one is set aside."""
        self._max_rows //= 2
        self._needs = Needs()
        self._asked.clear()
        hub_link.drop_pending()
        if self._max_rows >= 1:
            return
        self._max_rows = 1
        first = change_feed.after(here.acked_seq, 1)
        if not first:
            raise LinkError(f"the hub does not take where things are: {reason}", REFUSED_SECONDS)
        for change in first:
            with writing():
                set_aside(0, f"change {change.seq}, {Kind(change.kind).name.lower()} {change.a}", reason)
                hub_link.skip(change.seq)

    def _reconcile(self, here: Target, hub: Cursor) -> bool:
        """Continue from the hub's cursor; False when a new handshake is needed."""
        if hub == here.cursor:
            return True
        if here.pending and hub.chain == batch_format.next_chain(here.chain, here.pending):
            self._acknowledge(here, hub)  # it was accepted, and only the response was lost
            return True
        known = hub_link.checkpoint_chain(hub.acked_seq)
        if hub.epoch == here.epoch and hub.acked_seq <= here.acked_seq and known in (None, hub.chain):
            self._rewind(here, hub)
            return True
        since = clock.now() - (here.renewed_at or 0)
        if 0 <= since < RENEW_AGAIN:
            raise LinkError(NO_AGREEMENT, min(REFUSED_SECONDS, (RENEW_AGAIN - since) / clock.SECOND))
        hub_link.renew_epoch()
        return False

    def _rewind(self, here: Target, hub: Cursor) -> None:
        """The hub was restored from a backup. What is older than the feed is found by comparing digests."""
        with writing():
            hub_link.go_on_from(hub)
            if hub.acked_seq + 1 < change_feed.oldest_kept():
                change_feed.add_names(here.organization_id)
                hub_link.update(verify_wanted=1)


def _with_few_records(due: list[Change]) -> list[Change]:
    """The beginning of these changes, with no more than MAX_RECORDS different assets and locations."""
    records = set()
    for at, change in enumerate(due):
        if change.kind in (Kind.ASSET, Kind.LOCATION):
            records.add((change.kind, change.a))
        if len(records) > MAX_RECORDS:
            return due[:at]
    return due


def _target() -> Target:
    found = hub_link.find()
    if found is None:
        raise Stopped("This box reports to no hub")
    return found


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
    """What an answer says about the state of the hub, as columns; hubs of earlier releases say nothing."""
    state = batch_format.hub_state(answer.get("state"))
    return {"hub_seen_epoch": state.epoch, "hub_seen": state.number, "hub_seen_mark": state.mark} if state else {}


def _report(here: Target, until_seq: int) -> dict[str, int]:
    """For the hub's page: how far this site is, and how far its clock may be off."""
    return {
        "waiting": change_feed.count_after(until_seq),
        "board_at": here.board_at or 0,
        "history_until": sync_state.history_until(here) or 0,
        "clock_offset": here.clock_offset or 0,
    }


def _cursor(answer: Any) -> Cursor:
    epoch, acked, chain = answer["cursor"]
    return Cursor(epoch, acked, bytes.fromhex(chain))
