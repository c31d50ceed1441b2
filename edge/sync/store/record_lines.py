"""The line of a record: one list of columns for all that reads, sends, keeps and compares copies of records.

Columns that `edge.validation.bodies` declares beyond version 1 of the protocol travel by name beside the lines. A box
that does not know one ignores it, and a copy keeps its value of a column that the sender does not know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from edge.database.connection import execute
from edge.errors import Invalid, Unreadable
from edge.records import search
from edge.sync.store.exchange import AssetRecord, LocationRecord, Record
from edge.validation import strict_json, times, values
from edge.validation.bodies import fields_of

_COLUMNS = {"asset": AssetRecord._fields[:-1], "location": LocationRecord._fields[:-1]}
# SQL for the live tags of a record `r` as JSON, in order.
TAGS = (
    "(SELECT json_group_array(json_array(tag_type, value)) FROM (SELECT tag_type, value FROM tag "
    "WHERE tag.{0}_id = r.id AND tag.deleted_at IS NULL ORDER BY tag_type, value))"
)


class Naming(NamedTuple):
    """SQL for the columns of a record `r` that machines name in different ways."""

    ref: str = "r.id"
    parent: str = "r.parent_id"
    external_key: str = "r.external_key"
    created_at: str = "r.created_at"
    home: str = "''"


_AT_SITE = Naming(
    "link.remote_id",
    "(SELECT min(remote_id) FROM link WHERE local_id = r.parent_id AND peer = :site_no AND remote_id > 0)",
    created_at="ifnull(link.created_at, r.created_at)",
)
# Records of a hub as a site knows them, and copies of the hub's assets at a site as the hub knows them.
BY_LINK = {AssetRecord: _AT_SITE, LocationRecord: _AT_SITE._replace(external_key="substr(r.external_key, :key_begins)")}


def of_site(peer: int, code: str) -> dict[str, int]:
    """Return the values in the SQL of `BY_LINK`. The keys of a site's locations begin with its code at the hub."""
    return {"site_no": peer, "key_begins": len(code) + 2}


def table_of(kind: Record | type[Record]) -> search.Kind:
    return "asset" if kind is AssetRecord or isinstance(kind, AssetRecord) else "location"


def further(kind: type[Record]) -> list[str]:
    """Return the declared columns that version 1 does not have."""
    known = {*kind._fields, "parent_id", "parent_external_key"}
    return [field.name for field in fields_of(table_of(kind)) if field.name not in known]


def read(
    kind: type[Record], naming: Naming, rest: str, values: Sequence[object] | Mapping[str, object]
) -> Iterator[Any]:
    """Yield records of a kind. `rest`: SQL from FROM on, with the table `r`."""
    more, names = further(kind), _COLUMNS[table_of(kind)]
    named, tags_at = {**naming._asdict(), "tags": TAGS.format(table_of(kind))}, names.index("tags")
    columns = ", ".join(named.get(name, f"r.{name}") for name in (*names, *more))
    for row in execute(f"SELECT {columns} {rest}", values):
        tags, home, *others = row[tags_at:]
        yield kind._make((*row[:tags_at], tag_pairs(tags), home, dict(zip(more, others, strict=True))))


def tag_pairs(text: str) -> list[tuple[str, str]]:
    """Return tags (type, value) from JSON."""
    return [(tag_type, value) for tag_type, value in json.loads(text)]


def parts(name: str, records: Sequence[Record]) -> dict[str, Any]:
    """Return records as parts of a message."""
    more = [record.more for record in records]
    return {name: [record[:-1] for record in records], **({f"{name}_more": more} if any(more) else {})}


def of_parts(kind: type[Record], name: str, content: Any) -> list[Any]:
    """Return the records of a message. Raises KeyError, TypeError or ValueError if they are invalid."""
    lines, names, width = content[name], further(kind), len(_COLUMNS[table_of(kind)])
    more = content.get(f"{name}_more") or [{}] * len(lines)
    records: list[Any] = [kind(*line[:width]) for line in lines]
    return [
        record._replace(more={column: values[column] for column in names if column in values}) if values else record
        for record, values in zip(records, more, strict=True)
    ]


def stored(record: Record) -> str:
    """Return a record as JSON text for the table `conflict`."""
    return json.dumps([*record[:-1], record.more] if record.more else record[:-1])


def of_stored(kind: type[Record], text: str) -> Any:
    return kind(*json.loads(text))


def checked(record: Record, key: str, tags_here: int = 0) -> Record:
    """Return the record with canonical metadata. Raises Invalid with all faults.

    `key`: its key here. `tags_here`: its number of tags here, which is not too many.
    """
    faults: list[Invalid] = []
    canonical: dict[str, Any] = {}
    for check, name, value in _rules(record, key, tags_here):
        try:
            canonical[name] = check(name, value)
        except Invalid as error:
            faults.append(error)
    if faults:
        raise Invalid([field for fault in faults for field in fault.fields])
    return record._replace(metadata=canonical["metadata"]) if isinstance(record, AssetRecord) else record


def _rules(record: Record, key: str, tags_here: int) -> Iterator[tuple[Callable[[str, Any], object], str, Any]]:
    """Yield a check for each value. Those of declared columns follow from their fields."""
    sent = {**record._asdict(), **record.more, "external_key": key}
    for field in fields_of(table_of(record)):
        if field.name in sent:
            rule = _moment if field.is_time else _BY_TYPE.get(field.type or "") or _text(field.check)
            yield _optional(rule) if field.is_nullable else rule, field.name, sent[field.name]
    for name in ("created_at", "updated_at"):
        yield _moment, name, sent[name]
    yield _optional(_moment), "deleted_at", record.deleted_at
    yield _optional(_text(values.name)), "home", record.home or None
    yield _number_of_tags(tags_here), "tags", [value for _, value in record.tags]
    for kind, value in record.tags:
        yield _text(values.tag_type), "tag_type", kind
        yield _text(values.tag_value), "tag value", value


def _text(rule: Callable[[str, str], object]) -> Callable[[str, Any], object]:
    def check(name: str, value: Any) -> None:
        if not isinstance(value, str) or strict_json.has_lone_surrogate(value):
            raise Invalid.one(name, "invalid_value", f"{name} must be text")
        rule(name, value)

    return check


def _optional(rule: Callable[[str, Any], object]) -> Callable[[str, Any], object]:
    return lambda name, value: None if value is None else rule(name, value)


def _number_of_tags(tags_here: int) -> Callable[[str, Any], object]:
    def check(name: str, tag_values: Sequence[str]) -> None:
        if len(tag_values) > tags_here:
            size = sum(len(value.encode("utf-8", "surrogatepass")) for value in tag_values)
            values.number_of_tags(name, len(tag_values), size)

    return check


def _flag(name: str, value: Any) -> None:
    if value not in (0, 1):
        raise Invalid.one(name, "invalid_value", f"{name} must be 0 or 1")


def _number(name: str, value: Any) -> None:
    if type(value) is not int or abs(value) > values.MAX_INT64:
        raise Invalid.one(name, "invalid_value", f"{name} must be an integer")


def _moment(name: str, value: Any) -> None:
    if type(value) is not int or not times.is_representable(value):
        raise Invalid.one(name, "invalid_value", f"{name} is not a time between the years 1 and 9999")


def _metadata(name: str, value: Any) -> str:
    _text(lambda *_: None)(name, value)
    try:
        parsed = strict_json.parse(value.encode())
    except Unreadable as error:
        raise Invalid.one(name, "invalid_value", f"{name} must be a JSON object ({error})") from error
    if not isinstance(parsed, dict):
        raise Invalid.one(name, "invalid_value", f"{name} must be a JSON object")
    return values.metadata(name, parsed)


_BY_TYPE: Mapping[str, Callable[[str, Any], object]] = {"boolean": _flag, "integer": _number, "object": _metadata}
