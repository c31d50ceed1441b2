"""Columns of imported tables, by kind: how each cell is read, and what an empty one means."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any, NamedTuple

from edge import clock
from edge.errors import EdgeError, Invalid
from edge.readers import reader_table
from edge.readers.clocks import check_clock
from edge.records.csv_import import ROOT
from edge.records.csv_import_tags import KINDS
from edge.texts import N_, fill
from edge.tracking.signal_strength import AntennaKind
from edge.validation import strict_json, values
from edge.validation.bodies import OWN_FIELDS, fields_of
from edge.validation.body import Field
from edge.validation.imported_rows import yes_or_no
from edge.validation.topics import check_filter
from edge.validation.values import MAX_TEXT, TAG_TYPES

Parse = Callable[[str, str, tzinfo], Any]  # gets the name of the column, the cell, and the time zone of the site
BETWEEN_TAGS = "|"  # in one cell; unusual in tags
PROPERTY = "metadata."  # column of one property
_OWN = ("error", "line")  # columns of the file of errors, which are not imported
_DATE = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})(.*)")  # as spreadsheets in many languages show it
TIMES = ("valid_from", "valid_to")
_EXAMPLE_OF_TIME = "2026-03-02 14:00"


def _as_is(_: str, cell: str, __: tzinfo) -> str:
    return cell.replace("\r\n", "\n")


def _by(check: Callable[[str, str], Any]) -> Parse:
    """Read a cell as the API does."""
    return lambda name, cell, _: check(name, cell.replace("\r\n", "\n"))


def _one_of(names: Sequence[str], message: str) -> Parse:
    def parse(name: str, cell: str, _: tzinfo) -> str:
        if cell.lower() not in names:
            raise Invalid.one(name, "invalid_value", fill(message, kinds=", ".join(names), value=repr(cell[:20])))
        return cell.lower()

    return parse


def _yes_or_no(name: str, cell: str, _: tzinfo) -> bool:
    is_yes = yes_or_no(cell)
    if is_yes is None:
        message = fill(N_("%(column)s must be yes or no, not %(value)s"), column=name, value=repr(cell[:20]))
        raise Invalid.one(name, "invalid_value", message)
    return is_yes


def _metadata(name: str, cell: str, _: tzinfo) -> str:
    try:
        value = strict_json.parse(cell.encode())
    except (ValueError, EdgeError):
        value = None
    if not isinstance(value, dict):
        message = N_('metadata must be a JSON object such as {"color": "blue"}')
        raise Invalid.one(name, "invalid_value", message)
    return values.metadata(name, value)


def time_of(name: str, cell: str, zone: tzinfo) -> str:
    """Return a time as the API expects it. Without an offset it is in the time zone of the site."""
    written = _DATE.sub(lambda match: f"{match[3]}-{int(match[2]):02}-{int(match[1]):02}{match[4]}", cell)
    try:
        moment = datetime.fromisoformat(written)
        return clock.rfc3339(clock.to_micros(moment if moment.tzinfo else moment.replace(tzinfo=zone)))
    except (ValueError, OverflowError):
        message = N_("%(column)s must be a time such as %(example)s, not %(value)s")
        message = fill(message, column=name, example=_EXAMPLE_OF_TIME, value=repr(cell[:30]))
        raise Invalid.one(name, "invalid_value", message) from None


class Column(NamedTuple):
    """A column of a table. An empty cell of a column that `is_cleared` gives the field the value `empty`, if chosen.

    The table has to have a column that `is_required`. A spreadsheet must not have changed a cell that `is_code`.
    """

    name: str
    parse: Parse = _as_is
    example: str = ""
    is_required: bool = False
    is_cleared: bool = False
    empty: Any = None
    is_code: bool = False


def _of_record(kind: str, **examples: str) -> Iterator[Column]:
    """Return the columns of a kind of record: those of both kinds, its own, and its tags."""
    declared = fields_of(kind)
    for field in sorted(declared, key=OWN_FIELDS[kind].__contains__):
        if field.type != "integer":  # a parent is named by its key
            is_cleared = field.is_nullable or field.type == "object"
            empty = {"metadata": "{}", "parent_external_key": ROOT}.get(field.name)
            is_code = field.check is values.external_key
            yield Column(field.name, _parse_of(field), examples.get(field.name, ""), False, is_cleared, empty, is_code)
    for tag_type in TAG_TYPES:
        yield Column(tag_type, example=examples.get(tag_type, ""), is_code=True)


def _parse_of(field: Field) -> Parse:
    if field.is_time:
        return lambda name, cell, zone: field.check(name, time_of(name, cell, zone))
    return {"boolean": _yes_or_no, "object": _metadata}.get(field.type or "") or _by(field.check)


_EPC, _LIST = "3074257BF7194E4000001A85", N_("An antenna is one of %(kinds)s")
DECLARED: Mapping[str, Sequence[Column]] = {
    "asset": tuple(
        _of_record(
            "asset",
            external_key="PALLET-71",
            name="Pallet 71",
            description="Blue, for bottles",
            is_active="yes",
            valid_from=_EXAMPLE_OF_TIME,
            metadata='{"color":"blue"}',
            rfid=_EPC,
            barcode="4006381333931",
        )
    ),
    "location": tuple(
        _of_record("location", external_key="DOCK-1", name="Dock 1", is_active="yes", parent_external_key="HALL-1")
    ),
    "tag": (
        Column("kind", _one_of(KINDS, N_("kind must be asset or location, not %(value)s")), "asset"),
        Column("external_key", _by(values.external_key), "PALLET-71", is_required=True, is_code=True),
        Column("tag_type", lambda name, cell, _: values.tag_type(name, cell.lower()), "rfid", is_required=True),
        Column("value", example=_EPC, is_required=True, is_code=True),
    ),
    "reader": (
        Column("name", example="Gate 1", is_required=True),
        Column("port"),
        Column("topic", _by(lambda _, cell: check_filter(cell)), "site/gate1/reads"),
        Column("status_topic", _by(lambda _, cell: check_filter(cell)), is_cleared=True),
        Column("format", example="edge"),  # checked with the mapping
        Column("mapping", _by(lambda _, cell: reader_table.as_saved(cell)), is_cleared=True),
        Column("clock_setting", _by(lambda _, cell: check_clock(cell)), "auto"),
        Column("location", _by(values.external_key), is_cleared=True),
        Column("min_rssi", _by(values.signal_strength), "-65", is_cleared=True),
        Column("is_enabled", _yes_or_no, "yes"),
        Column("kind", _one_of(list(AntennaKind), _LIST), "portal", is_cleared=True),
        Column("rssi_offset", _by(values.decibels), is_cleared=True),
    ),
}
COLUMNS = {kind: tuple(column.name for column in columns) for kind, columns in DECLARED.items()}
EXAMPLES = {kind: [column.example for column in columns] for kind, columns in DECLARED.items()}


def known_columns(kind: str, heading: Sequence[str]) -> list[str]:
    """Return the field of each column of a file, or nothing if a person has to choose them."""
    proposed = proposed_columns(kind, heading)
    return [] if None in proposed else [name or "" for name in proposed]


def proposed_columns(kind: str, heading: Sequence[str]) -> list[str | None]:
    """Return the field of each column of a file, "" for one that is not imported, and None for an unknown one."""
    fields = [_proposed(kind, name) for name in heading]
    return [None if name and fields.index(name) != at else name for at, name in enumerate(fields)]


def _proposed(kind: str, name: str) -> str | None:
    lowered = name.strip().lower()
    if lowered in COLUMNS[kind]:
        return lowered
    if is_property(kind, name.strip()):
        return name.strip()
    return "" if not lowered or lowered in _OWN else None


def is_property(kind: str, name: str) -> bool:
    return "metadata" in COLUMNS[kind] and name.startswith(PROPERTY) and name != PROPERTY and len(name) <= MAX_TEXT


def check_columns(kind: str, columns: Sequence[str]) -> None:
    """Raise Invalid if a chosen field does not exist, occurs twice, or none is chosen."""
    chosen = [name for name in columns if name]
    unknown = [name for name in chosen if name not in COLUMNS[kind] and not is_property(kind, name)]
    if unknown:
        raise _wrong(fill(N_("There is no field %(name)s"), name=repr(unknown[0][:40])))
    twice = [name for name, number in Counter(chosen).items() if number > 1]
    if twice:
        raise _wrong(fill(N_("Two columns have the field %(name)s. Choose one"), name=repr(twice[0][:40])))
    if "metadata" in chosen and any(name.startswith(PROPERTY) for name in chosen):
        raise _wrong(N_("Import either metadata as a whole or single properties"))
    required = {column.name for column in DECLARED[kind] if column.is_required}
    if missing := required - set(chosen):
        raise _wrong(fill(N_("Choose a column for %(name)s"), name=min(missing)))
    if not required and not set(chosen) & {"external_key", "name"}:
        raise _wrong(N_("Choose a column for external_key or name"))


def _wrong(message: str) -> Invalid:
    return Invalid.one("columns", "invalid_value", message)
