"""Records of a service that is not edge, in memory. Written from the specification, without code of edge.

It is strict, and chooses differently where the specification leaves a choice: sparse ids, lists in random order, a
small default page, more fields in answers, numbers as in JavaScript, and a search that finds names only.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

KEY = re.compile(r"[A-Za-z0-9-]{1,255}")
MOST_ROWS, DEFAULT_ROWS = 200, 3
NULLABLE = ("description", "valid_to", "parent_id", "parent_external_key")
READ_ONLY = ("id", "created_at", "updated_at", "deleted_at")
TYPES = {
    "name": str,
    "description": str,
    "is_active": bool,
    "metadata": dict,
    "valid_from": str,
    "valid_to": str,
    "external_key": str,
    "tags": list,
    "parent_id": int,
    "parent_external_key": str,
}
Body = dict[str, Any]


class Problem(Exception):
    """An error answer."""

    def __init__(self, status: int, kind: str, detail: str, *fields: tuple[str, str]) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.fields = status, kind, detail, fields


def invalid(name: str, code: str) -> Problem:
    return Problem(400, "validation_error", f"Field '{name}' is wrong ({code})", (name, code))


@dataclass
class Row:
    id: int
    key: str
    values: Body
    created_at: datetime
    updated_at: datetime
    parent: Row | None = None
    tags: list[Body] = field(default_factory=list)


class Records:
    """All live records of one organization, by kind: `assets` and `locations`."""

    def __init__(self, seed: int = 0) -> None:
        self.rows: dict[str, dict[int, Row]] = {"assets": {}, "locations": {}}
        self.writes = 0
        self.ahead = timedelta()
        self._chance = random.Random(seed)
        self._last = datetime(2000, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return a time that no earlier call has returned, in milliseconds."""
        moment = datetime.now(UTC) + self.ahead
        moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        self._last = max(moment, self._last + timedelta(milliseconds=1))
        return self._last

    def find(self, kind: str, key: str) -> Row | None:
        return next((row for row in self.rows[kind].values() if row.key == key), None)

    def get(self, kind: str, record_id: int) -> Row:
        if record_id < 1:
            raise invalid("id", "too_small")
        if record_id not in self.rows[kind]:
            raise Problem(404, "not_found", "Nothing here")
        return self.rows[kind][record_id]

    def page(self, kind: str, query: list[tuple[str, str]]) -> Body:
        allowed = {"external_key", "q", "limit", "offset", "sort", "is_active", "include_deleted"}
        for name, _ in query:
            if name not in allowed:
                raise invalid(name, "unknown_field")
        values = dict(query)
        limit, offset = int(values.get("limit", DEFAULT_ROWS)), int(values.get("offset", 0))
        if limit > MOST_ROWS:
            raise invalid("limit", "too_large")
        keys = {value for name, value in query if name == "external_key"}
        now = datetime.now(UTC) + self.ahead
        rows = [
            row
            for row in self.rows[kind].values()
            if (not keys or row.key in keys)
            and ("q" not in values or values["q"] in row.values["name"])
            and _moment(row.values["valid_from"]) <= now
            and (row.values["valid_to"] is None or _moment(row.values["valid_to"]) > now)
        ]
        if keys or "q" in values:
            self._chance.shuffle(rows)
        shown = [self.shown(kind, row) for row in rows[offset : offset + limit]]
        return {"data": shown, "limit": limit, "offset": offset, "total_count": len(rows)}

    def create(self, kind: str, body: Body) -> Row:
        _check(kind, body, {"external_key", "tags"})
        if "name" not in body:
            raise invalid("name", "required")
        now = self.now()
        key = body.get("external_key") or f"{kind[:-1].upper()}-{len(self.rows[kind]) + 1:04}"
        self._check_key(kind, key, None)
        for tag in body.get("tags", []):
            self._check_tag(tag)
        row = Row(self._new_id(), key, _defaults(kind, now), now, now)
        self._set(kind, row, body)
        row.tags = [self._tag(tag) for tag in body.get("tags", [])]
        self.rows[kind][row.id] = row
        self.writes += 1
        return row

    def patch(self, kind: str, row: Row, body: Body) -> None:
        shown = self.shown(kind, row)
        for name in (*READ_ONLY, "external_key", "tags"):
            if name in body and body[name] != shown[name]:
                raise invalid(name, "read_only" if name in READ_ONLY else "invalid_context")
        writable = {name: value for name, value in body.items() if name not in (*READ_ONLY, "external_key", "tags")}
        _check(kind, writable, set())
        self._set(kind, row, writable)
        self._touch(row)

    def rename(self, kind: str, row: Row, body: Body) -> int:
        if set(body) != {"external_key"}:
            raise invalid("external_key", "required")
        if body["external_key"] == row.key:
            return 0
        self._check_key(kind, body["external_key"], row)
        row.key = body["external_key"]
        self._touch(row)
        return sum(row in _ancestors(one) for one in self.rows[kind].values())

    def delete(self, kind: str, row: Row) -> None:
        if any(one.parent is row for one in self.rows["locations"].values()):
            raise Problem(409, "conflict", "It has locations below it")
        del self.rows[kind][row.id]
        self.writes += 1

    def attach(self, row: Row, body: Body) -> Body:
        self._check_tag(body)
        row.tags.append(self._tag(body))
        self._touch(row)
        return row.tags[-1]

    def detach(self, row: Row, tag_id: int) -> None:
        kept = [tag for tag in row.tags if tag["id"] != tag_id]
        if len(kept) == len(row.tags):
            raise Problem(404, "not_found", "No such tag")
        row.tags = kept
        self._touch(row)

    def shown(self, kind: str, row: Row) -> Body:
        """Return a record as in answers, with a field of a later minor version."""
        shown: Body = {"id": row.id, "external_key": row.key, **row.values, "colour": None}
        shown |= {"created_at": _text(row.created_at), "updated_at": _text(row.updated_at), "deleted_at": None}
        if kind == "locations":
            shown |= (
                {"parent_id": row.parent.id, "parent_external_key": row.parent.key}
                if row.parent
                else {
                    "parent_id": None,
                    "parent_external_key": None,
                }
            )
        shown["tags"] = [dict(tag) for tag in self._chance.sample(row.tags, len(row.tags))]
        return shown

    def _touch(self, row: Row) -> None:
        row.updated_at = self.now()
        self.writes += 1

    def _new_id(self) -> int:
        return self._chance.randrange(1 << 40, 1 << 53)

    def _tag(self, body: Body) -> Body:
        tag = {"id": self._new_id(), "tag_type": body["tag_type"], "value": body["value"]}
        return {**tag, "created_at": _text(self.now())}

    def _check_tag(self, tag: Any) -> None:
        if not isinstance(tag, dict) or set(tag) != {"tag_type", "value"}:
            raise invalid("tags", "invalid_value")
        if tag["tag_type"] not in ("rfid", "ble", "barcode") or not 1 <= len(tag["value"]) <= 255:
            raise invalid("tags", "invalid_value")
        for rows in self.rows.values():
            for row in rows.values():
                if any((one["tag_type"], one["value"]) == (tag["tag_type"], tag["value"]) for one in row.tags):
                    raise Problem(409, "conflict", f"tag {tag['tag_type']}:{tag['value']} already exists")

    def _check_key(self, kind: str, key: Any, own: Row | None) -> None:
        if not isinstance(key, str) or not KEY.fullmatch(key):
            raise invalid("external_key", "invalid_value")
        if self.find(kind, key) not in (None, own):
            raise Problem(409, "conflict", "Key in use")

    def _set(self, kind: str, row: Row, body: Body) -> None:
        if "parent_id" in body:
            parent = None if body["parent_id"] is None else self.rows[kind].get(body["parent_id"])
            if body["parent_id"] is not None and parent is None:
                raise invalid("parent_id", "fk_not_found")
            if parent and row in (parent, *_ancestors(parent)):
                raise Problem(409, "conflict", "This would be a cycle")
            row.parent = parent
        for name, value in body.items():
            if name in row.values:
                row.values[name] = _text(_moment(value)) if value and name.startswith("valid_") else value


def _defaults(kind: str, now: datetime) -> Body:
    values: Body = {"name": "", "description": None, "is_active": False, "valid_from": _text(now), "valid_to": None}
    return {**values, "metadata": {}} if kind == "assets" else values


def _check(kind: str, body: Body, more: set[str]) -> None:
    fields = {"name", "description", "is_active", "valid_from", "valid_to", *more}
    fields |= {"metadata"} if kind == "assets" else {"parent_id", "parent_external_key"}
    for name, value in body.items():
        if name not in fields:
            raise invalid(name, "unknown_field")
        if value is None and name in NULLABLE and "external_key" not in more:
            continue
        if value is None and name in ("parent_id", "parent_external_key"):
            continue
        if type(value) is not TYPES[name]:
            raise invalid(name, "invalid_value")
        if value == "":
            raise invalid(name, "too_short")
        if name.startswith("valid_"):
            _moment(str(value))


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError as error:
        raise invalid("valid_from", "invalid_value") from error


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def _ancestors(row: Row) -> list[Row]:
    return list(_above(row))


def _above(row: Row) -> Iterator[Row]:
    while row.parent:
        row = row.parent
        yield row


def number(text: str) -> int | float:
    """Read a number like JavaScript, with 53 bits."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def decoded(text: bytes) -> Any:
    try:
        return json.loads(text, parse_int=number, parse_float=number)
    except ValueError as error:
        raise Problem(400, "bad_request", "Invalid JSON") from error
