"""CSV downloads, streamed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flask import Response, request, stream_with_context

from edge import clock
from edge.pages.guard import until_received
from edge.services import services
from edge.validation import csv_text

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}


def csv_file(name: str, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> Response:
    """Return a CSV file with the separator given in the query."""
    separator = SEPARATORS.get(request.args.get("separator", ""), ",")
    chunks = stream_with_context(csv_text.write_rows(heading, rows, separator))
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return until_received(Response(chunks, mimetype="text/csv", headers=headers))


def times(*moments: int | None) -> Iterator[str]:
    """Format times in the time zone of the site, with the offset from UTC."""
    zone = services().zone
    for moment in moments:
        yield clock.to_datetime(moment).astimezone(zone).isoformat(" ", "seconds") if moment is not None else ""
