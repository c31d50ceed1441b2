"""Preview of joining a hub: which records of this box clash with the hub's. Nothing is changed at either end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from edge.database.change_log import Kind
from edge.database.connection import reading
from edge.errors import Unreadable
from edge.records.keys_in_bulk import Prefixed
from edge.sync import batch_format
from edge.sync.store import clashes
from edge.sync.store.clashes import Clash, OwnRecord
from edge.texts import N_, fill

MOST_SHOWN = 200  # clashes with their details
Ask = Callable[[bytes], Any]


class Shown(NamedTuple):
    """A clash with this box's record."""

    own: OwnRecord
    clash: Clash

    @property
    def kind(self) -> str:
        return "asset" if self.own.kind == Kind.ASSET else "location"


class Preview(NamedTuple):
    """What would happen. `is_all` is False if the time was up before all records were compared."""

    code: str
    hub_name: str
    compared: int
    by_key: int  # clashing keys
    by_tag: int  # records that clash by a tag only
    agreeing: int  # clashes with the same key, name and tag
    shown: list[Shown]
    clashing: Collection[tuple[int, int]]  # kind and id of the records with clashing keys
    is_all: bool

    @property
    def total(self) -> int:
        return self.by_key + self.by_tag


def compare(organization_id: int, ask: Ask, seconds: float | None = None) -> Preview:
    """Compare all live records page by page, at most for `seconds`. Raises the errors of `ask`."""
    ends_at = None if seconds is None else time.monotonic() + seconds
    answer = _answer(ask, [])
    shown: list[Shown] = []
    clashing: list[tuple[int, int]] = []
    compared = by_tag = agreeing = 0
    is_all = True
    for kind in (Kind.LOCATION, Kind.ASSET):
        after = 0
        while is_all:
            with reading():
                page = clashes.own_records(organization_id, kind, after, str(answer["hub_id"]))
            if not page:
                break
            after, compared = page[-1].id, compared + len(page)
            by_id = {record.id: record for record in page}
            for row in _answer(ask, page)["clashes"]:
                clash = _clash(row)
                if clash.id not in by_id:
                    raise Unreadable("the hub responds with records that this box does not have")
                agreeing += clash.agrees
                if clash.by == "key":
                    clashing.append((kind, clash.id))
                else:
                    by_tag += 1
                if len(shown) < MOST_SHOWN:
                    shown.append(Shown(by_id[clash.id], clash))
            is_all = ends_at is None or time.monotonic() < ends_at
    code, hub_name = batch_format.short_name(answer["code"]), batch_format.short_name(answer["hub_name"])
    return Preview(code, hub_name, compared, len(clashing), by_tag, agreeing, shown, clashing, is_all)


def _answer(ask: Ask, records: list[OwnRecord]) -> Any:
    return ask(batch_format.pack([tuple(record) for record in records]))


def _clash(row: Any) -> Clash:
    try:
        kind, record_id, by, *texts, agrees = row
        key, name, home = map(batch_format.short_name, texts)
        return Clash(int(kind), int(record_id), str(by), key, name, home, bool(agrees))
    except (TypeError, ValueError) as error:
        raise Unreadable(f"the response of the hub is invalid: {error!r:.200}") from error


def summary(preview: Preview) -> list[str]:
    """Return the result as sentences for people."""
    lines: list[str] = [
        fill(
            N_(
                "Records compared with %(hub)s: %(compared)s. Same key as another record there: %(by_key)s. "
                "Only a tag in common: %(by_tag)s."
            ),
            hub=preview.hub_name,
            compared=preview.compared,
            by_key=preview.by_key,
            by_tag=preview.by_tag,
        )
    ]
    if not preview.is_all:
        lines.append(N_("The time was up before all were compared. `edge sync preview` in a shell compares all."))
    if preview.agreeing:
        text = N_(
            "With the same key, name and tag: %(number)s. These can be merged at the hub after joining; nothing else "
            "is merged."
        )
        lines.append(fill(text, number=preview.agreeing))
    return lines


def prefixed(result: Prefixed) -> list[str]:
    """Return the result of prefixing keys as sentences for people."""
    lines: list[str] = [fill(N_("Keys changed: %(number)s."), number=result.changed)]
    if result.refused:
        lines.append(fill(N_("Not changed: %(number)s."), number=len(result.refused)))
        lines.append("; ".join(result.refused[:5]))
    return lines
