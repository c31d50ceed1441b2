"""Test a message against unsaved reader settings: its reads, and the bucket of each."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from edge.database.connection import reading
from edge.formats.reads import Attempt, Kind, Malformed, Parsed, Read, Trial, TrialRead
from edge.formats.registry import check_format, parser_of
from edge.ingest.batch import BUCKET_PRIORITY, judge
from edge.ingest.timing import times_of
from edge.readers.ledger import Bucket
from edge.readers.matching import NoAsset, TagMatcher
from edge.readers.readers import Placement, Route, routes
from edge.tracking.antenna_names import names_of
from edge.validation.field_counts import remarks

_MOST_READS = 200


def try_out(organization_id: int, attempt: Attempt) -> Trial:
    """Return the outcome of a message without writing anything. Raises Invalid for an unusable format or mapping."""
    check_format(attempt.format, attempt.mapping)
    parse = parser_of(attempt.format, attempt.mapping)
    try:
        parsed = parse(attempt.topic, attempt.payload)
    except Malformed as error:
        return Trial(Bucket.MALFORMED, str(error))
    field_remarks = tuple(remarks(parsed.fields))
    if parsed.skipped and not parsed.reads:
        return Trial(Bucket.MALFORMED, parsed.note, remarks=field_remarks)
    if not parsed.reads:
        bucket = Bucket.IGNORED if parsed.kind is Kind.IGNORED else Bucket.STATUS
        return Trial(bucket, parsed.note, remarks=field_remarks)
    with reading():
        return _judged(_route(organization_id, attempt), parsed)


def _route(organization_id: int, attempt: Attempt) -> Route:
    """Return the route of the reader with the attempted settings. An existing reader keeps its antennas."""
    placement = Placement(attempt.location_id, attempt.min_rssi, True)
    known = [
        route for route in routes() if route.reader_id == attempt.reader_id and route.organization_id == organization_id
    ]
    antennas = known[0].antennas if known else {}
    whole = replace(placement, kind=known[0].placement.kind) if known else placement
    return Route(
        attempt.reader_id or 0,
        organization_id,
        attempt.topic,
        None,
        attempt.format,
        attempt.mapping,
        attempt.clock_setting,
        whole,
        antennas,
        has_places=bool(known) and known[0].has_places,
    )


def _numbered(reader_id: int, reads: Sequence[Read]) -> list[Read]:
    """Return the reads with the ports of known antenna names."""
    ports = {name: port for port, name in names_of(reader_id).items()}
    return [
        replace(read, antenna=ports.get(read.antenna_name)) if read.antenna_name and read.antenna is None else read
        for read in reads
    ]


def _judged(route: Route, parsed: Parsed) -> Trial:
    matcher = TagMatcher()
    matcher.prepare(
        (route.organization_id, read.tag_type, value) for read in parsed.reads for value in (read.value, *read.aliases)
    )
    trial_reads, buckets = [], []
    reads = _numbered(route.reader_id, parsed.reads[:_MOST_READS])
    for read, time in zip(reads, times_of(reads, route.clock_setting), strict=True):
        placement, asset, bucket = judge(route, read, matcher)
        buckets.append(bucket or Bucket.RECORDED)
        asset_id = None if isinstance(asset, NoAsset) else asset
        trial_reads.append(TrialRead(read, time, asset_id, placement.location_id, buckets[-1]))
    field_remarks = tuple(remarks(parsed.fields))
    bucket = min(buckets, key=BUCKET_PRIORITY.index)
    return Trial(bucket, parsed.note, tuple(trial_reads), parsed.skipped, field_remarks)
