"""Kinds of imported rows: how each is checked and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.records import csv_import, csv_import_tags
from edge.records.csv_import import NewRecord, Outcome


class Checked(NamedTuple):
    """The rows to write, and the outcome of each."""

    records: Sequence[NewRecord]
    outcomes: Sequence[Outcome]


def check(organization_id: int, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]) -> Checked:
    """Dry run, without writing anything. `progress` gets the number of rows checked so far."""
    if kind == "tag":
        return Checked(*csv_import_tags.check_tags(organization_id, records, progress))
    return Checked(records, csv_import.check_records(organization_id, kind, records, progress))


def write(actor: Actor, kind: str, records: Sequence[NewRecord]) -> list[Outcome]:
    """Write some rows, or the first of them, in the caller's transaction."""
    if kind == "tag":
        return csv_import_tags.write_tags(actor, records)
    return csv_import.write_records(actor, kind, records)
