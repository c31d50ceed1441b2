"""Kinds of imported rows: how each is checked and written, and who may import it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from edge.audit.actors import Actor
from edge.people.people import Role
from edge.readers import reader_import
from edge.records import csv_import, csv_import_tags
from edge.records.csv_import import NewRecord, Outcome

ROWS_OF_READER = 40  # as many rows of a slice as a reader counts for: each is written on its own


class Checked(NamedTuple):
    """The rows to write, and the outcome of each."""

    records: Sequence[NewRecord]
    outcomes: Sequence[Outcome]


def role_for(kind: str) -> Role:
    """Return the role that may import rows of this kind. It is the role that may change them in a form."""
    return Role.ADMINISTRATOR if kind == "reader" else Role.EDITOR


def size_of(kind: str, record: NewRecord) -> int:
    """Return how many rows of a slice a record counts for."""
    return ROWS_OF_READER if kind == "reader" else 1 + len(record.tags)


def check(organization_id: int, kind: str, records: Sequence[NewRecord], progress: Callable[[int], None]) -> Checked:
    """Dry run, without writing anything. `progress` gets the number of rows checked so far."""
    if kind == "tag":
        return Checked(*csv_import_tags.check_tags(organization_id, records, progress))
    if kind == "reader":
        return Checked(records, reader_import.check_readers(organization_id, records, progress))
    return Checked(records, csv_import.check_records(organization_id, kind, records, progress))


def write(actor: Actor, kind: str, records: Sequence[NewRecord]) -> list[Outcome]:
    """Write some rows, or the first of them, in the caller's transaction."""
    if kind == "tag":
        return csv_import_tags.write_tags(actor, records)
    if kind == "reader":
        return reader_import.write_readers(actor, records)
    return csv_import.write_records(actor, kind, records)
