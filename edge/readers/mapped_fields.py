"""Statistics on the optional paths of mappings, counted by ingest and shown to the author of the mapping."""

from __future__ import annotations

from collections.abc import Mapping

from edge.database.connection import execute, execute_many
from edge.readers.readers import get_reader
from edge.validation.field_counts import FieldCount, remarks

ENOUGH = 10  # minimum number of reads for a remark on a path without values
WINDOW = 1000  # number of reads after which the counts are halved


def record(counts: Mapping[int, Mapping[str, FieldCount]]) -> None:
    """Add counts by reader and field, in the caller's transaction."""
    rows = [(reader_id, field, *count) for reader_id, fields in counts.items() for field, count in fields.items()]
    execute_many(
        "INSERT INTO mapped_field (reader_id, field, reads, missing, unreadable, example) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET reads = reads + excluded.reads, missing = missing + excluded.missing, "
        "unreadable = unreadable + excluded.unreadable, "
        "example = CASE excluded.example WHEN '' THEN example ELSE excluded.example END",
        rows,
    )
    execute_many(
        "UPDATE mapped_field SET reads = reads / 2, missing = missing / 2, unreadable = unreadable / 2 "
        "WHERE reader_id = ? AND reads > ?",
        [(reader_id, WINDOW) for reader_id in counts],
    )


def remarks_of(organization_id: int, reader_id: int) -> list[str]:
    """Return remarks on the mapping of a reader. Raises NotFound."""
    get_reader(organization_id, reader_id)
    rows = execute(
        "SELECT field, reads, missing, unreadable, example FROM mapped_field WHERE reader_id = ? ORDER BY field",
        (reader_id,),
    )
    return list(remarks({field: FieldCount(*count) for field, *count in rows}, ENOUGH))


def remarks_of_all() -> list[tuple[str, str]]:
    """Return (reader, remark) of all organizations. For the operator only."""
    by_reader: dict[str, dict[str, FieldCount]] = {}
    for name, field, *count in execute(
        "SELECT r.name, f.field, f.reads, f.missing, f.unreadable, f.example FROM mapped_field f "
        "JOIN reader r ON r.id = f.reader_id AND r.deleted_at IS NULL AND r.is_enabled ORDER BY r.name, f.field"
    ):
        by_reader.setdefault(name, {})[field] = FieldCount(*count)
    return [(name, remark) for name, counts in by_reader.items() for remark in remarks(counts, ENOUGH)]
