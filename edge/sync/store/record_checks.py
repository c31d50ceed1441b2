"""Validates records from another machine by the rules of the API.

Lists are rendered from rows without checks, so an invalid time or metadata that is not JSON would break them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from edge.errors import Invalid, Unreadable
from edge.sync.store.exchange import AssetRecord, Record
from edge.validation import strict_json, times, values


def checked(record: Record, key: str, tags_here: int = 0) -> Record:
    """Return the record with canonical metadata. Raises Invalid with all faults.

    `key`: its key here. `tags_here`: its number of tags here, which is not too many.
    """
    faults: list[Invalid] = []
    for check, name, value in _rules(record, key, tags_here):
        try:
            check(name, value)
        except Invalid as error:
            faults.append(error)
    metadata = ""
    if isinstance(record, AssetRecord):
        try:
            metadata = _metadata("metadata", record.metadata)
        except Invalid as error:
            faults.append(error)
    if faults:
        raise Invalid([field for fault in faults for field in fault.fields])
    return record._replace(metadata=metadata) if isinstance(record, AssetRecord) else record


def _rules(record: Record, key: str, tags_here: int) -> Sequence[tuple[Callable[[str, Any], object], str, Any]]:
    return [
        (_text(values.external_key), "external_key", key),
        (_text(values.name), "name", record.name),
        (_optional(_text(values.description)), "description", record.description),
        (_flag, "is_active", record.is_active),
        (_moment, "valid_from", record.valid_from),
        (_optional(_moment), "valid_to", record.valid_to),
        (_moment, "created_at", record.created_at),
        (_moment, "updated_at", record.updated_at),
        (_optional(_moment), "deleted_at", record.deleted_at),
        (_optional(_text(values.name)), "home", record.home or None),
        (_number_of_tags(tags_here), "tags", [value for _, value in record.tags]),
        *((_text(values.tag_type), "tag_type", kind) for kind, _ in record.tags),
        *((_text(values.tag_value), "tag value", value) for _, value in record.tags),
    ]


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
