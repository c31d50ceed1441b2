"""Live reads of one reader by tag and antenna, with signal strength, to position antennas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlencode

from flask import render_template, request

from edge import clock
from edge.database.connection import are_people_hidden
from edge.pages.actions import add_fragment
from edge.pages.forms import search_text
from edge.pages.guard import editors, organization_id
from edge.pages.readers.readers import BUCKETS
from edge.readers import live_reads, readers
from edge.readers.live_reads import LiveRead
from edge.tracking import antenna_names, board, tracked_people

LAST = 60 * clock.SECOND
MOST_ROWS = 100


class TagReads(NamedTuple):
    """Reads of one tag at one antenna in the last minute."""

    tag_type: str
    value: str
    antenna: int
    reads: int
    rssi: float | None  # of the newest read
    weakest: float | None
    strongest: float | None
    received_at: int
    bucket: str
    asset_id: int | None


@editors.get("/readers/<int:reader_id>/reads", manual="readers#live-reads")
def show_live_reads(reader_id: int) -> str:
    shown = _now(reader_id)
    antenna, tag = _filters()
    query = urlencode({"antenna": antenna, "tag": tag})
    return render_template("readers/live-reads.html", antenna=antenna, tag=tag, query=query, **shown)


def _filters() -> tuple[str, str]:
    """Return the antenna (number or name) and the part of a tag to filter by."""
    return search_text(request.args.get("antenna", "")).strip(), search_text(request.args.get("tag", ""))


def _now(reader_id: int) -> dict[str, object]:
    reader = readers.get_reader(organization_id(), reader_id)
    antenna, tag = _filters()
    rows = by_tag_and_antenna(live_reads.watch(reader_id), clock.now() - LAST)
    antennas = antenna_names.names_of(reader_id)
    hidden = tracked_people.among({row.asset_id for row in rows if row.asset_id}) if are_people_hidden() else set()
    shown = [
        row
        for row in rows
        if row.asset_id not in hidden
        and antenna.casefold() in ("", antennas.get(row.antenna, str(row.antenna)).casefold())
        and tag.casefold() in row.value.casefold()
    ]
    assets = {row.asset_id for row in shown[:MOST_ROWS] if row.asset_id}
    names = {row.asset_id: row.name for row in board.by_ids(organization_id(), list(assets))}
    return {
        "reader": reader,
        "rows": shown[:MOST_ROWS],
        "more": len(shown) - MOST_ROWS,
        "names": names,
        "antenna_names": antennas,
        "bucket_names": BUCKETS,
    }


add_fragment(editors, "/readers/<int:reader_id>/reads/now", "readers/_live-reads.html", _now, "rows")


def by_tag_and_antenna(reads: Iterable[LiveRead], since: int) -> list[TagReads]:
    """Aggregate reads since a time. The order is stable while reads arrive."""
    latest: dict[tuple[str, str, int], TagReads] = {}
    for read in reads:
        if read.received_at < since:
            continue
        key = (read.tag_type, read.value, read.antenna)
        before = latest.get(key)
        strengths = [value for value in (before.weakest, before.strongest) if value is not None] if before else []
        if read.rssi is not None:
            strengths.append(read.rssi)
        latest[key] = TagReads(
            *key,
            before.reads + 1 if before else 1,
            read.rssi,
            min(strengths, default=None),
            max(strengths, default=None),
            read.received_at,
            read.bucket,
            read.asset_id,
        )
    return [latest[key] for key in sorted(latest)]
