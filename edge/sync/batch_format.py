"""Wire format of batches: JSON arrays, one per column, mostly delta-coded and zlib-compressed.

Columns compress better than rows, and small differences better than large numbers: about 20 bytes per stay. The
receiver inflates at most MAX_INFLATED bytes and checks all types before any lookup. It ignores unknown keys and
tolerates missing newer ones, so adding a key needs no new version.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import accumulate, chain, islice, repeat
from operator import add, gt
from typing import Any, TypeVar

from edge.doors.passage_copies import SentDoor, SentPassage
from edge.doors.passage_rule import Direction
from edge.errors import TooLarge, Unreadable
from edge.memory_budget import MB, cost_of, marks_in
from edge.sync.store import record_lines, site_health
from edge.sync.store.exchange import (
    AntennaName,
    AssetRecord,
    Batch,
    Cursor,
    HubState,
    LocationRecord,
    Origin,
    Patch,
    Record,
    Stay,
    TrackState,
)
from edge.tracking.decision_rule import Rule
from edge.validation import json_text, times
from edge.validation.values import MAX_NAME

VERSION = 1
VERSIONS = (1,)  # supported versions, newest first
REASON = "X-Sync-Reason"  # response header with the reason of a refusal
SECOND_BOX = "second-box"
SECOND_HUB = "second-hub"  # another machine writes the history as this hub
HISTORY_WAITS = "history-waits"  # the hub takes only current locations for now
ASK = "ask"  # a hub that `accepts` it returns the assets that a site asks for by id
SEEN = "seen"  # a hub that `accepts` it takes last-seen times alone and batches without changes
MAX_BODY = 4 * 1024 * 1024
MAX_INFLATED = 32 * 1024 * 1024
LEVEL = 6
MOST_REPORTED = 50
MOST_RECORDS = 12_000  # assets and locations per batch; only requested ones come in large numbers
MAX_BATCH_MEMORY = 64 * MB  # memory for the objects of one batch
MAX_REQUEST_MEMORY = 4 * MB  # memory for any other request
_MAX_INT, _MAX_INT32, _MAX_INT16 = 2**63 - 1, 2**31 - 1, 2**15 - 1
_RULES = frozenset(Rule)
_DIRECTIONS = frozenset(Direction)
_PIECE = 256 * 1024

Row = TypeVar("Row", Origin, Stay, TrackState)


def pack(content: object) -> bytes:
    """Return content as compressed JSON."""
    return zlib.compress(json_text.encode(content), LEVEL)


def unpack(body: bytes) -> Any:
    """Return the JSON content of a compressed body. Raises TooLarge, or Unreadable if it is not zlib and JSON."""
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(body, MAX_INFLATED)
        if stream.unconsumed_tail:
            raise TooLarge("the body is too large when it is unpacked")
        if not stream.eof or stream.unused_data:
            raise Unreadable("the body has bytes after its compressed content")
        return json_text.decode(text)
    except (zlib.error, json_text.NotJson) as error:
        raise Unreadable(f"the body is invalid: {error}") from error


def cost(body: bytes, most: int) -> int:
    """Return the memory in bytes needed to unpack a body, measured in chunks. Raises TooLarge and Unreadable."""
    stream, size, marks, taken = zlib.decompressobj(), 0, 0, 0
    try:
        while body:
            piece = stream.decompress(body, _PIECE)
            size, marks, body = size + len(piece), marks + marks_in(piece), stream.unconsumed_tail
            taken = cost_of(size, marks, most)
    except zlib.error as error:
        raise Unreadable(f"the body is invalid: {error}") from error
    return taken


def next_chain(chain: bytes, body: bytes) -> bytes:
    """Return the hash chain extended by one batch."""
    return blake2b(chain + body, digest_size=16).digest()


def encode(base: Cursor, batch: Batch) -> bytes:
    """Return a batch, and the cursor it follows, as a request body."""
    tracks, stays = sorted(batch.tracks), [stay for patch in batch.patches for stay in patch.stays]
    since = [patch.since for patch in batch.patches]
    return pack(
        {
            "v": VERSION,
            "base": [base.epoch, base.acked_seq, base.chain.hex()],
            "until": batch.until_seq,
            "horizon": batch.horizon,
            **record_lines.parts("assets", batch.assets),
            **record_lines.parts("locations", batch.locations),
            "readers": sorted(batch.readers.items()),
            "people": sorted(batch.people.items()),
            "origins": _columns(Origin, batch.origins),
            "tracks": _differences(_columns(TrackState, tracks), (0, 3, 4, 5)),
            "gone": batch.gone_tracks,
            "report": dict(batch.report),
            "patches": [
                _deltas(patch.track for patch in batch.patches),
                _deltas(since),
                [patch.until - patch.since for patch in batch.patches],
                [len(patch.stays) for patch in batch.patches],
            ],
            "stays": [
                [stay.observed_at - patch.since for patch in batch.patches for stay in patch.stays],
                *([stay[column] for stay in stays] for column in range(1, len(Stay._fields))),
            ],
            **({"antennas": [tuple(antenna) for antenna in batch.antennas]} if batch.antennas else {}),
            **({"seen": _pairs(batch.seen)} if batch.seen else {}),
            **({"born": _pairs(batch.created_at_by_ref.items())} if batch.created_at_by_ref else {}),
            **({"hub": tuple(batch.hub_seen)} if batch.hub_seen else {}),
            **({"doors": [tuple(door) for door in batch.doors]} if batch.doors else {}),
            **({"passages": [tuple(passage) for passage in batch.passages]} if batch.passages else {}),
            **site_health.content(batch.health),
        }
    )


def decode(body: bytes) -> tuple[Cursor, Batch]:
    """Return the cursor and the batch of a body. Raises TooLarge and Unreadable."""
    content = unpack(body)
    try:
        if content["v"] not in VERSIONS:
            raise Unreadable(f"version {content['v']!r:.20} of the batch is not one that this program knows")
        if len(content["assets"]) + len(content["locations"]) > MOST_RECORDS:
            raise TooLarge("the batch has too many assets and locations")
        epoch, acked, chain = content["base"]
        tracks = _rows(TrackState, _sums(content["tracks"], (0, 3, 4, 5)), {1})
        patches = _patches(content["patches"], content["stays"], len(content["origins"][0]))
        refused = _refused(((track.no, [track]) for track in tracks), _are_sound_tracks)
        refused |= _refused(((patch.track, patch.stays) for patch in patches), _are_sound_stays)
        batch = Batch(
            _whole(content["until"]),
            _whole(content["horizon"]),
            _records(AssetRecord, "assets", content),
            _records(LocationRecord, "locations", content),
            _names(content["readers"]),
            _names(content["people"]),
            [track for track in tracks if track.no not in refused],
            [_whole(no) for no in content["gone"]],
            _rows(Origin, content["origins"], {1, 2, 3}),
            [patch for patch in patches if patch.track not in refused],
            checked_report(content["report"]),
            tuple(_antenna(*row) for row in content.get("antennas", ())),
            tuple(f"position {no}" for no in sorted(refused)),
            tuple((no, at) for no, at in _unpaired(content.get("seen", ((), ()))) if times.is_representable(at)),
            dict(_unpaired(content.get("born", ((), ())))),
            hub_state(content.get("hub")),
            site_health.checked(content.get("health")),
            tuple(_door(*row) for row in content.get("doors", ())),
            tuple(filter(_is_sound_passage, map(_passage, content.get("passages", ())))),
        )
        return Cursor(str(epoch), _whole(acked), bytes.fromhex(chain)), batch
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        raise Unreadable(f"the batch is invalid: {error!r:.200}") from error


def _patches(columns: Sequence[Sequence[int]], stay_columns: Sequence[Sequence[Any]], origins: int) -> list[Patch]:
    """Decode patches column by column, since decoding single values would dominate the hub's CPU time."""
    differences, since_differences, spans, counts = columns
    tracks, since = _undelta(differences), _undelta(since_differences)
    offsets, seqs, seen_for, stay_origins, delays, qualities, rules, rssi = stay_columns
    for column in (spans, counts, offsets, seqs, seen_for, stay_origins, delays, qualities, rules):
        _whole_numbers(column)
    _whole_numbers([value for value in rssi if value is not None])
    if min(chain(counts, spans, offsets), default=0) < 0 or sum(counts) != len(offsets):
        raise ValueError("patches and rows that do not fit together")
    if any(map(gt, offsets, _each(spans, counts))):
        raise ValueError("a patch with rows outside its range")
    if stay_origins and not 0 <= min(stay_origins) <= max(stay_origins) < origins:
        raise ValueError("a stay from an origin that is not there")
    begun = _whole_numbers([*map(add, offsets, _each(since, counts))])
    rows = zip(begun, seqs, seen_for, stay_origins, delays, qualities, rules, rssi, strict=True)
    stays = map(Stay._make, rows)
    until = _whole_numbers([*map(add, since, spans)])
    return [
        Patch(track, begin, end, list(islice(stays, count)))
        for track, begin, end, count in zip(tracks, since, until, counts, strict=True)
    ]


def _are_sound_stays(stays: Sequence[Stay]) -> bool:
    """Return False for values that would break the lists that show them, or do not fit into PostgreSQL.

    Compares only the smallest and the largest value of each column.
    """
    if not stays:
        return True
    begun, seqs, seen_for, _, delays, qualities, rules, rssi = zip(*stays, strict=True)
    return (
        all(_are_times(moments) for moments in (begun, [*map(add, begun, seen_for)], [*map(add, begun, delays)]))
        and min(seen_for) >= 0
        and 0 <= min(seqs) <= max(seqs) <= _MAX_INT32
        and 0 <= min(qualities) <= max(qualities) <= _MAX_INT16
        and all(-_MAX_INT16 <= value <= _MAX_INT16 for value in set(rssi) if value is not None)
        and _RULES.issuperset(rules)
    )


def _are_sound_tracks(tracks: Sequence[TrackState]) -> bool:
    """Return False for values that would break the lists that show them."""
    if not tracks:
        return True
    columns = list(zip(*tracks, strict=True))
    return all(map(_are_times, columns[3:6])) and _RULES.issuperset(columns[-1])


def _are_times(values: Sequence[int]) -> bool:
    return times.is_representable(min(values)) and times.is_representable(max(values))


def _refused(sent: Iterable[tuple[int, Sequence[Row]]], are_sound: Callable[[Sequence[Row]], bool]) -> set[int]:
    """Return the tracks of which a row is not sound. First asks for all rows at once, which takes little time."""
    by_track = list(sent)
    every = [row for _, rows in by_track for row in rows]
    return set() if are_sound(every) else {no for no, rows in by_track if not are_sound(rows)}


def _door(no: Any, location: Any, name: Any) -> SentDoor:
    return SentDoor(_whole(no), None if location is None else _whole(location), short_name(name))


def _passage(row: Sequence[Any]) -> SentPassage:
    return SentPassage(*_whole_numbers(row))


def _is_sound_passage(one: SentPassage) -> bool:
    """Return False for values that would break the lists that show them."""
    return (
        all(map(times.is_representable, (one.at, one.since, one.until, one.decided_at)))
        and one.since <= one.until
        and one.direction in _DIRECTIONS
        and 0 <= one.confidence <= 1000
        and min(one.no, one.inner_reads, one.outer_reads, one.revision) >= 0
    )


def _each(values: Iterable[int], counts: Iterable[int]) -> Iterable[int]:
    """Repeat the value of each patch for each of its rows."""
    return chain.from_iterable(map(repeat, values, counts))


def _columns(kind: type[Row], rows: Sequence[Row]) -> list[list[Any]]:
    return [[row[column] for row in rows] for column in range(len(kind._fields))]


def _rows(kind: type[Row], columns: Sequence[Sequence[Any]], optional: set[int]) -> list[Row]:
    if len(columns) != len(kind._fields):
        raise ValueError("a column is missing")
    for at, column in enumerate(columns):
        _whole_numbers([cell for cell in column if cell is not None] if at in optional else column)
    return [kind._make(row) for row in zip(*columns, strict=True)]


def _records(kind: type[Record], name: str, content: Any) -> list[Any]:
    """Check keys, names and tags; `checked` checks the other columns, one record at a time."""
    records = record_lines.of_parts(kind, name, content)
    _whole_numbers([record.ref for record in records])
    records = [one._replace(tags=[(tag_type, value) for tag_type, value in one.tags]) for one in records]
    for record in records:
        texts = (record.external_key, record.name, *chain.from_iterable(record.tags))
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a record with a key, name or tag that is not text")
    return records


def asset_records(content: Any) -> list[AssetRecord]:
    """Return the asset records of a decoded answer. Raises Unreadable."""
    try:
        return _records(AssetRecord, "assets", content)
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"the records are invalid: {error!r:.200}") from error


def _names(pairs: Iterable[Sequence[Any]]) -> dict[int, str]:
    return {_whole(remote_id): short_name(name) for remote_id, name in pairs}


def _pairs(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    ordered = sorted(pairs)
    return [_deltas(first for first, _ in ordered), _deltas(second for _, second in ordered)]


def _unpaired(columns: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    first, second = map(_undelta, columns)
    return list(zip(first, second, strict=True))


def hub_state(value: Any) -> HubState | None:
    """Return the hub state that the site has seen, or None. Raises TypeError or ValueError."""
    if value is None:
        return None
    epoch, number, mark = value
    return HubState(short_name(epoch), _whole(number), short_name(mark))


def _antenna(reader: Any, port: Any, name: Any) -> AntennaName:
    return AntennaName(_whole(reader), _whole(port), short_name(name))


def checked_report(report: Any) -> dict[str, int]:
    """Return a site's status report of at most `MOST_REPORTED` numbers. Raises TypeError or ValueError."""
    if len(report) > MOST_REPORTED:
        raise ValueError("a report with too many numbers")
    return {short_name(name): _whole(value) for name, value in report.items()}


def short_name(name: Any) -> str:
    """Return a name from another machine as one line, cut to the maximum length."""
    return "".join(letter if letter.isprintable() else " " for letter in str(name)[:MAX_NAME]).strip()


def _whole(value: Any) -> int:
    return _whole_numbers([value])[0]


def _whole_numbers(values: Sequence[Any]) -> Sequence[int]:
    """Return `values` if all are integers that the database can store; raises TypeError otherwise."""
    if not set(map(type, values)) <= {int} or (values and not -_MAX_INT <= min(values) <= max(values) <= _MAX_INT):
        raise TypeError("a value that is not a whole number")
    return values


def _differences(columns: list[list[Any]], which: Sequence[int]) -> list[list[Any]]:
    return [_deltas(column) if at in which else column for at, column in enumerate(columns)]


def _sums(columns: Sequence[Sequence[Any]], which: Sequence[int]) -> list[Sequence[Any]]:
    return [_undelta(column) if at in which else column for at, column in enumerate(columns)]


def _deltas(numbers: Iterable[int]) -> list[int]:
    deltas, before = [], 0
    for number in numbers:
        deltas.append(number - before)
        before = number
    return deltas


def _undelta(differences: Sequence[int]) -> Sequence[int]:
    return _whole_numbers([*accumulate(_whole_numbers(differences))])
