"""Model of the records of an organization: refusals, changes and lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.api.model.record import Body, Record, Tag, instant, whole_millisecond, wire

MINTED = {"asset": ("ASSET-", 4), "location": ("LOC-", 3)}
DIFFERING = {
    **dict.fromkeys(["id", "created_at", "updated_at", "deleted_at"], "read_only"),
    **dict.fromkeys(["external_key", "tags"], "invalid_context"),
}

Faults = list[tuple[str, str]]


@dataclass(frozen=True)
class ApiError:
    """A refusal. `faults` are field and code; `word` is in the detail of a conflict."""

    status: int
    type: str
    faults: Faults = field(default_factory=list)
    word: str = ""


NOT_FOUND = ApiError(404, "not_found")


def invalid(faults: Faults) -> ApiError | None:
    return ApiError(400, "validation_error", faults) if faults else None


@dataclass(eq=False)
class Organization:
    name: str
    records: list[Record] = field(default_factory=list)

    def of(self, kind: str) -> list[Record]:
        return [one for one in self.records if one.kind == kind]

    def live(self, kind: str) -> list[Record]:
        return [one for one in self.of(kind) if one.live]

    def find(self, record: Record) -> Record | None:
        """Return a record by id. Deleted records and those of another organization do not exist."""
        return record if record.owner is self and record.live else None

    def by_key(self, kind: str, key: str) -> Record | None:
        return next((one for one in self.live(kind) if one.external_key == key), None)

    def held_tags(self) -> set[Tag]:
        return {tag for one in self.records for tag in one.tags.values()}

    def mint(self, kind: str) -> str:
        """Return the next generated key (interface: Auto-mint 2, 3)."""
        prefix, width = MINTED[kind]
        numbers = [re.fullmatch(rf"{prefix}(\d{{{width},}})", one.external_key) for one in self.live(kind)]
        return f"{prefix}{max((int(number[1]) for number in numbers if number), default=0) + 1:0{width}d}"

    # Writes: first the refusals, then the changes

    def refuse_create(self, kind: str, body: Body, now: int) -> ApiError | None:
        valid_from = _instant_in(body, "valid_from", whole_millisecond(now))
        if faults := _window_faults(valid_from, _instant_in(body, "valid_to", None)):
            return invalid(faults)
        if faults := self.parent_faults(body):
            return invalid(faults)
        if "external_key" in body and self.by_key(kind, body["external_key"]):
            return ApiError(409, "conflict")
        return self.refuse_tags([(tag["tag_type"], tag["value"]) for tag in body.get("tags") or []])

    def create(self, kind: str, body: Body, now: int, chosen: Body) -> Record:
        """Create a record. `chosen` is the server's response, the source of ids and `updated_at`."""
        tags = [(tag["tag_type"], tag["value"]) for tag in body.get("tags") or []]
        record = Record(
            owner=self,
            kind=kind,
            id=chosen["id"],
            external_key=body.get("external_key") or self.mint(kind),
            name=body["name"],
            created_at=now,
            updated_at=chosen["updated_at"],
            valid_from=whole_millisecond(now),
            tags=dict(zip((tag["id"] for tag in chosen["tags"]), tags, strict=True)),
        )
        self._set(record, body)
        self.records.append(record)
        return record

    def refuse_patch(self, record: Record, body: Body) -> ApiError | None:
        if not self.find(record):
            return NOT_FOUND
        if faults := list(_differing(record, body)):
            return invalid([fault for fault in faults if fault[1] == "read_only"] or faults)
        valid_from = _instant_in(body, "valid_from", record.valid_from)
        if faults := _window_faults(valid_from, _instant_in(body, "valid_to", record.valid_to)):
            return invalid(faults)
        if faults := self.parent_faults(body):
            return invalid(faults)
        parent = self.named_parent(body, record)
        if parent and (parent is record or record in parent.ancestors):
            return ApiError(409, "conflict", word="cycle")
        return None

    def patch(self, record: Record, body: Body, chosen: Body) -> None:
        self._set(record, body)
        self.touch(record, chosen)

    def touch(self, record: Record, chosen: Body) -> None:
        """Check that `updated_at` strictly increases (interface: Fields)."""
        assert chosen["updated_at"] > record.updated_at
        record.updated_at = chosen["updated_at"]

    def refuse_rename(self, record: Record, key: str) -> ApiError | None:
        if not self.find(record):
            return NOT_FOUND
        return ApiError(409, "conflict") if self.by_key(record.kind, key) not in (None, record) else None

    def rename(self, record: Record, key: str, chosen: Body) -> int:
        """Rename a record and return the number of affected descendants. A rename to the same key changes nothing."""
        if key == record.external_key:
            return 0
        record.external_key = key
        self.touch(record, chosen)
        return len(record.descendants)

    def refuse_delete(self, record: Record) -> ApiError | None:
        """Check a delete (interface: Write operations 4). Descendants are checked first."""
        if not self.find(record):
            return NOT_FOUND
        if record.children:
            return ApiError(409, "conflict", word="descendant")
        if any(one.sightings and one.seen[-1].location is record for one in self.live("asset")):
            return ApiError(409, "conflict", word="asset")
        return None

    def delete(self, record: Record, now: int) -> None:
        record.deleted_at = now
        record.updated_at = wire(now) or ""  # not specified; a deletion counts as a change
        record.tags = {}

    def refuse_tags(self, tags: list[Tag]) -> ApiError | None:
        held = self.held_tags()
        for tag in tags:
            if tag in held:
                return ApiError(409, "conflict", word=f"tag {tag[0]}:{tag[1]} already exists")
            held.add(tag)
        return None

    def refuse_attach(self, record: Record, tag: Tag) -> ApiError | None:
        return self.refuse_tags([tag]) if self.find(record) else NOT_FOUND

    def refuse_detach(self, record: Record, tag_id: int) -> ApiError | None:
        return None if self.find(record) and tag_id in record.tags else NOT_FOUND

    def parent_faults(self, body: Body) -> Faults:
        """Check a tag (interface: Write operations 2)."""
        given = [name for name in ("parent_id", "parent_external_key") if name in body]
        resolved = {name: self.resolve(name, body[name]) for name in given}
        if missing := [name for name in given if body[name] is not None and resolved[name] is None]:
            return [(missing[0], "fk_not_found")]
        return [(name, "ambiguous_fields") for name in given] if len(set(resolved.values())) > 1 else []

    def resolve(self, form: str, value: Any) -> Record | None:
        if form == "parent_external_key":
            return self.by_key("location", value)
        return next((one for one in self.live("location") if one.id == value), None)

    def named_parent(self, body: Body, record: Record) -> Record | None:
        for form in ("parent_id", "parent_external_key"):
            if form in body:
                return self.resolve(form, body[form])
        return record.parent

    def _set(self, record: Record, body: Body) -> None:
        for name in ("name", "description", "is_active", "metadata"):
            if name in body:
                setattr(record, name, body[name])
        for name in ("valid_from", "valid_to"):
            setattr(record, name, _instant_in(body, name, getattr(record, name)))
        record.parent = self.named_parent(body, record)

    # Reads

    def listed(self, kind: str, query: Body, now: int) -> list[Record]:
        """Return the rows of a list (interface: Lists)."""
        deleted = query.get("include_deleted") == "true"
        records = [one for one in self.of(kind) if one.listed(now, include_deleted=deleted)]
        for name, value in query.items():
            if name == "is_active":
                records = [one for one in records if one.is_active == (value == "true")]
            elif name == "q":
                records = [one for one in records if one.contains(value)]
            elif name in ("external_key", "parent_id", "parent_external_key"):
                records = [one for one in records if one.shown[name] in value]
        return _sorted(records, query.get("sort") or "external_key", lambda one: one.shown)

    def report(self, query: Body, now: int) -> list[Body]:
        deleted = query.get("include_deleted") == "true"
        assets = [one for one in self.of("asset") if one.sightings and one.listed(now, include_deleted=deleted)]
        rows = [one.place(now) for one in assets if one.contains(query.get("q", ""), description=False)]
        for name in ("asset_id", "asset_external_key", "location_id", "location_external_key"):
            if name in query:
                rows = [row for row in rows if row[name] in query[name]]
        return _sorted(rows, query.get("sort") or "-asset_last_seen", lambda row: row | {"id": row["asset_id"]})


def _instant_in(body: Body, name: str, present: int | None) -> Any:
    """Return True for an echo of the response, which has less precision than the stored value."""
    if name not in body or (present is not None and body[name] == wire(present)):
        return present
    return instant(body[name])


def _window_faults(valid_from: int, valid_to: int | None) -> Faults:
    """Check the window (interface: Fields)."""
    return [("valid_to", "invalid_value")] if valid_to is not None and valid_to <= valid_from else []


def _differing(record: Record, body: Body) -> Iterator[tuple[str, str]]:
    """Return the errors of a PATCH (interface: Write operations 3). Errors of read-only keys precede those of
    values (interface: Precedence).
    """
    shown = record.shown
    for name, value in body.items():
        if name == "tags":
            same = {tuple(tag.items()) for tag in value} == {tuple(tag.items()) for tag in shown["tags"]}
        else:
            same = name in shown and value == shown[name]
        if name in DIFFERING and not same:
            yield name, DIFFERING[name]


def _sorted(rows: list[Any], sort: str, shown: Callable[[Any], Body]) -> list[Any]:
    """Sort rows. Every order ends with `id` ascending; rows without a key come first."""
    rows = sorted(rows, key=lambda row: shown(row)["id"])
    for name in reversed(sort.split(",")):
        rows.sort(key=lambda row: shown(row)[name.strip("-")] or "", reverse=name.startswith("-"))
    return rows
