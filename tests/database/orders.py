"""Random reads of many assets at four readers, and their histories for any order of arrival."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute, writing
from edge.readers import readers
from edge.records import assets, locations
from edge.tracking.positions import record, settle
from edge.tracking.recent_reads import RecentReads, Sign
from edge.tracking.signal_strength import Weight
from edge.tracking.signs import GOODBYE, OTHERS
from edge.tracking.stays import Quality, Scan

GAP = 300 * SECOND
START = 1_772_439_330 * SECOND
MINUTES = 14  # shorter than reads are kept: no read is too late
OUTAGE = 40  # seconds
LATER = 3_600  # seconds after the last read
PACES = (0.3, 0.5, 1.0, 1.0, 3.0, 5.0)  # seconds between attempts to read a tag
# Reader and weight of each place: two antennas of one reader, a portal, two more readers.
PLACES = (
    (0, Weight.RFID_ZONE),
    (0, Weight.RFID_ZONE),
    (1, Weight.RFID_ZONE),
    (1, Weight.RFID_PORTAL),
    (2, Weight.BLE_ZONE),
    (3, Weight.RFID_PORTAL),
    (3, Weight.DIRECT),
)


class Message(NamedTuple):
    """A message of a reader: its scans, or only a sign of life."""

    at: int
    reader: int
    scans: tuple[Scan, ...] = ()
    sign: int = OTHERS


class World(NamedTuple):
    organization_id: int
    places: list[int]
    readers: list[int]

    def new_assets(self, count: int) -> list[int]:
        with writing():
            return [assets.create(shell(self.organization_id), name="pallet").id for _ in range(count)]

    def history(self, asset_ids: Sequence[int]) -> list[list[tuple[int, ...]]]:
        """Return the history of each asset, without its id and the times of receipt."""
        histories = []
        for asset_id in asset_ids:
            rows = execute(
                "SELECT h.observed_at, h.seq, iif((h.observed_at, h.seq) = (t.row_at, t.row_seq), 0, h.seen_for), "
                "s.location_id, s.port, h.rssi, h.rule, t.location_id, t.last_seen_at, t.dwell_started_at, t.row_at, "
                "t.row_seq, t.row_rule, t.history_rows FROM history h JOIN source s ON s.no = h.source_no "
                "JOIN track t ON t.no = h.position_no WHERE t.asset_id = ? ORDER BY h.observed_at, h.seq",
                (asset_id,),
            ).fetchall()
            histories.append([tuple(row) for row in rows])
        return histories


def make_world(organization_id: int) -> World:
    actor = shell(organization_id)
    places = [locations.create(actor, name=f"Place {number}").id for number in range(len(PLACES))]
    numbers = sorted({reader for reader, _ in PLACES})
    added = [
        readers.add_reader(actor, name=f"r{number}", topic=f"r/{number}", format="csl", location_id=places[0]).id
        for number in numbers
    ]
    return World(organization_id, places, added)


def messages(world: World, asset_ids: Sequence[int], random: Random) -> list[Message]:
    """Return messages in time order. No two reads are simultaneous, so the order is unique."""
    out = [_outage(random) for _ in world.readers]
    sent: list[Message] = []
    taken: set[int] = set()
    for asset_id in asset_ids:
        for at, place, rssi in _way(random):
            reader, weight = PLACES[place]
            begin, end, _ = out[reader]
            while at in taken:
                at += 1
            if begin <= at < end:
                continue
            taken.add(at)
            moment = START + at
            scan = Scan(
                world.organization_id, asset_id, world.places[place], world.readers[reader], place, moment, moment,
                Quality.READER, rssi, weight,
            )  # fmt: skip
            sent.append(Message(moment, reader, (scan,)))
    for reader, (begin, end, says_goodbye) in enumerate(out):
        beat = random.choice((0, 1, 10, 30))
        if beat:
            for at in range(0, MINUTES * 60 * SECOND, beat * SECOND):
                if not begin <= at < end:
                    sent.append(Message(START + at, reader))
        if says_goodbye:
            sent.append(Message(START + begin + 5 * SECOND, reader, sign=GOODBYE))
    return sorted(sent, key=lambda message: message.at)


def _outage(random: Random) -> tuple[int, int, bool]:
    begin = random.randrange(0, MINUTES * 60 * SECOND)
    return begin, begin + random.choice((0, 10, OUTAGE, 400)) * SECOND, random.random() < 0.3


def _way(random: Random) -> Iterator[tuple[int, int, float | None]]:
    """Yield (microsecond, place, RSSI) of each read of one asset."""
    moment = random.uniform(0, 300)
    place, pace = random.randrange(len(PLACES)), random.choice(PACES)
    knows_strength = random.random() < 0.8
    for _ in range(random.randrange(1, 8)):
        stay = random.choice((0.1, 2, 5, 15, 60, 200))
        until = moment + stay
        neighbor, share = random.randrange(len(PLACES)), random.choice((0.0, 0.1, 0.5, 0.9))
        while moment < min(until, MINUTES * 60):
            is_neighbor = random.random() < share
            rssi = random.choice((-45.0, -55.0, -65.0)) - (random.choice((0, 5, 20)) if is_neighbor else 0)
            yield round(moment * SECOND), neighbor if is_neighbor else place, rssi if knows_strength else None
            moment += pace * random.choice((0.1, 1, 1, 1, 2))
        place = random.randrange(len(PLACES))
        moment += random.choice((0, 0, 2, 4, 20, 90))


def tell(
    sent: Sequence[Message], world: World, recent: RecentReads | None, random: Random | None, gap: int = GAP
) -> None:
    """Record the messages in this order; with `random`, in random batches and with settling in between.

    Without `recent`, smoothing is off.
    """
    begin = 0
    while begin < len(sent):
        end = begin + (random.choice((1, 7, 60, 400, 3_000)) if random else 5_000)
        _record(sent[begin:end], world, recent, gap)
        if recent and random and random.random() < 0.3:
            settle_until(recent, max(message.at for message in sent[:end]) // SECOND - 1, gap)
        begin = end
    if recent:
        settle_until(recent, START // SECOND + MINUTES * 60 + LATER, gap)


def _record(batch: Sequence[Message], world: World, recent: RecentReads | None, gap: int) -> None:
    """Record a batch as ingest does."""
    scans = [scan for one in batch for scan in one.scans]
    if recent is None:
        record(scans, gap)
        return
    signs: set[Sign] = set()
    for one in batch:
        only = one.scans[0].asset_id if one.scans else one.sign
        signs.add((world.readers[one.reader], one.at // SECOND, only))
    with writing():
        recent.refresh()
        record(scans, gap, recent, signs, START + MINUTES * 60 * SECOND)
        recent.done()


def settle_until(recent: RecentReads, second: int, gap: int = GAP) -> None:
    with writing():
        recent.refresh()
        settle(recent, gap, second)
        while recent.held.is_due(second):
            settle(recent, gap, second)
        recent.done()


def same_assets(sent: Sequence[Message], other: dict[int, int]) -> list[Message]:
    """Return the same messages for other assets."""
    return [one._replace(scans=tuple(_with_asset(scan, other[scan.asset_id]) for scan in one.scans)) for one in sent]


def _with_asset(scan: Scan, asset_id: int) -> Scan:
    return Scan(
        scan.organization_id, asset_id, scan.location_id, scan.reader_id, scan.port, scan.observed_at,
        scan.received_at, scan.quality, scan.rssi, scan.weight,
    )  # fmt: skip


def shuffled(sent: Sequence[Message], random: Random) -> list[Message]:
    """Return a realistic order of arrival: each reader on time, late, buffered, or any order."""
    kind = random.choice(("on time", "late", "buffered", "any"))
    delays = [random.uniform(0, MINUTES * 60) for _ in range(8)]

    def arrival(message: Message) -> float:
        at = message.at / SECOND
        if kind == "on time":
            return at + random.uniform(0, 1)
        if kind == "late":
            return at + random.uniform(0, 30)
        if kind == "buffered":
            return at + delays[message.reader]
        return random.random()

    return sorted(sent, key=arrival)


def differing(world: World, count: int, seed: int, *, is_smoothing: bool = True) -> list[str]:
    """Record the reads of `count` assets in order and shuffled. Returns the differences of their histories."""
    random = Random(seed)
    reads, reads_of_others = (RecentReads(), RecentReads()) if is_smoothing else (None, None)
    ones, others = world.new_assets(count), world.new_assets(count)
    sent = messages(world, ones, random)
    tell(sent, world, reads, None)
    _forget()  # the others have the same signs of life, in their own order
    again = shuffled(same_assets(sent, dict(zip(ones, others, strict=True))), random)
    tell(again, world, reads_of_others, random)
    _forget()
    pairs = zip(ones, world.history(ones), world.history(others), strict=True)
    return [
        f"seed {seed}, asset {ones.index(asset_id)}:\n in order {one}\n shuffled {other}"
        for asset_id, one, other in pairs
        if one != other
    ]


def _forget() -> None:
    with writing():
        execute("DELETE FROM recent_read")
        execute("DELETE FROM held_back")
