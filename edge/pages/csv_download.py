"""Downloads of tables: CSV, streamed, or an Excel file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from flask import Response, abort, request, send_file, stream_with_context

from edge.errors import Invalid
from edge.pages.forms import message_of
from edge.pages.guard import download
from edge.pages.translation import gettext
from edge.services import services
from edge.tracking.exports import local_time
from edge.validation import csv_text, xlsx
from edge.validation.tables import MOST_ROWS

XLSX = "xlsx"  # instead of a separator
XLSX_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}


def table_file(name: str, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> Response:
    """Return a CSV file with the separator in the query, or an Excel file for `separator=xlsx`.

    `name` is that of the CSV file.
    """
    chosen = request.args.get("separator", "")
    if chosen == XLSX:
        return download(lambda: _workbook(name, heading, rows))
    return download(lambda: _streamed(name, heading, rows, SEPARATORS.get(chosen, ",")))


def _streamed(name: str, heading: Sequence[str], rows: Iterable[Sequence[Any]], separator: str) -> Response:
    chunks = stream_with_context(csv_text.write_rows(heading, rows, separator))
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(chunks, mimetype="text/csv", headers=headers)


def _workbook(name: str, heading: Sequence[str], rows: Iterable[Sequence[Any]]) -> Response:
    if not xlsx.is_available():
        command = f"pip install '{xlsx.EXTRA}'"
        abort(400, gettext("Excel files need an extra on the box: {command}").format(command=command))
    try:
        file = xlsx.write(heading, _at_most(rows))
    except Invalid as error:
        abort(400, message_of(error))
    return send_file(file, XLSX_TYPE, as_attachment=True, download_name=f"{name.removesuffix('.csv')}.xlsx")


def _at_most(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    for number, row in enumerate(rows):
        if number >= MOST_ROWS:
            abort(400, gettext("This table has too many rows for an Excel file. Choose CSV."))
        yield row


def times(*moments: int | None) -> Iterator[datetime | None]:
    """Return times in the time zone of the site, in seconds."""
    zone = services().zone
    return (local_time(moment, zone) for moment in moments)
