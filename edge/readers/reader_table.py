"""The table of readers: a row for each reader, and one for each antenna with settings of its own.

Export and import use the same fields, so that an export imported again changes nothing. It has no passwords.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge.database.connection import execute
from edge.formats.registry import CUSTOM
from edge.readers.antenna_kinds import kinds_of
from edge.readers.clocks import AUTO
from edge.readers.readers import ReaderRow, list_readers
from edge.tracking.rssi_offsets import offsets_of

Fields = dict[str, Any]  # by column; None: empty

OF_READER = ("topic", "status_topic", "format", "mapping", "clock_setting")  # empty in rows of antennas
OF_BOTH = ("location", "min_rssi", "is_enabled", "kind", "rssi_offset")
NEW_READER: Mapping[str, Any] = dict.fromkeys((*OF_READER, *OF_BOTH)) | {"clock_setting": AUTO, "is_enabled": True}
NEW_ANTENNA: Mapping[str, Any] = dict.fromkeys(OF_BOTH)


@dataclass
class SavedReader:
    """A reader with the fields of the table. `antennas`: fields by number or name. `id` is 0 if it is not saved yet."""

    id: int
    fields: Fields
    antennas: dict[str, Fields]


def load(organization_id: int) -> dict[str, SavedReader]:
    """Return the live readers of an organization by name."""
    keys = dict(execute(_KEYS, (organization_id,)).fetchall())
    kinds, offsets = kinds_of(organization_id), offsets_of(organization_id)
    readers: dict[int, SavedReader] = {}
    by_name = {}
    for row in list_readers(organization_id):
        own = {"kind": kinds.readers.get(row.id), "rssi_offset": offsets.readers.get(row.id)}
        readers[row.id] = by_name[row.name] = SavedReader(row.id, _fields(row, keys) | own, {})
    for reader_id, port, name, location_id, min_rssi, is_enabled in execute(_ANTENNAS, (organization_id,)):
        readers[reader_id].antennas[name or str(port)] = {
            "location": keys.get(location_id),
            "min_rssi": min_rssi,
            "is_enabled": None if is_enabled is None else bool(is_enabled),
            "kind": kinds.antennas.get((reader_id, port)),
            "rssi_offset": offsets.antennas.get((reader_id, port)),
        }
    return by_name


def rows(organization_id: int, columns: Sequence[str]) -> Iterator[list[str]]:
    """Yield the cells of all readers by name, each followed by its antennas by port."""
    for name, reader in load(organization_id).items():
        of_antennas = ({"port": port, **fields} for port, fields in reader.antennas.items())
        for fields in (reader.fields, *of_antennas):
            yield [_cell({"name": name, **fields}.get(column)) for column in columns]


def _fields(row: ReaderRow, keys: Mapping[int, str]) -> Fields:
    return {
        "topic": row.topic,
        "status_topic": row.status_topic,
        "format": row.format,
        "mapping": as_saved(row.mapping) if row.format == CUSTOM and row.mapping else None,
        "clock_setting": row.clock_setting,
        "location": keys.get(row.location_id or 0),
        "min_rssi": row.min_rssi,
        "is_enabled": bool(row.is_enabled),
    }


def as_saved(mapping: str) -> str:
    """Return a mapping as a table can contain it: a cell has no spaces around it."""
    return mapping.replace("\r\n", "\n").strip()


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "" if value is None else str(value)


_KEYS = "SELECT id, external_key FROM location WHERE organization_id = ? AND deleted_at IS NULL"
# Antennas with settings in one of the three tables.
_ANTENNAS = """
WITH known (reader_id, port) AS (
    SELECT reader_id, port FROM antenna
    UNION SELECT reader_id, port FROM antenna_kind WHERE reader_id IS NOT NULL AND port IS NOT NULL
    UNION SELECT reader_id, port FROM rssi_offset WHERE reader_id IS NOT NULL AND port IS NOT NULL
)
SELECT known.reader_id, known.port, n.name, a.location_id, a.min_rssi, a.is_enabled
FROM known JOIN reader r ON r.id = known.reader_id
LEFT JOIN antenna a ON a.reader_id = known.reader_id AND a.port = known.port
LEFT JOIN antenna_name n ON n.reader_id = known.reader_id AND n.port = known.port
WHERE r.organization_id = ? AND r.deleted_at IS NULL ORDER BY known.reader_id, known.port
"""
