"""Values of a record here and at the service, and which of them to write there.

Three versions decide, field by field: the value here, the value there, and the hash of the value that was there after
the last write. A value that somebody else has changed there is a conflict and is not overwritten.
"""

from __future__ import annotations

import json
from base64 import b85encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from edge.database.change_log import Kind
from edge.validation import json_text

KEY = "external_key"
TAGS = "tags"
WINDOW = ("valid_from", "valid_to")
FIELDS = {
    Kind.ASSET: ("name", "description", "is_active", "metadata", "valid_from", "valid_to"),
    Kind.LOCATION: ("name", "description", "is_active", "valid_from", "valid_to", "parent_id"),
}
Tag = tuple[str, str]  # type and value
Marks = Mapping[str, Any]  # hash by field; the value of TAGS is a list of hashes


class Content(NamedTuple):
    """The values that are kept equal. `fields` has API values, metadata as text if it is of this box; `parent_id` is an
    id of the service.
    """

    key: str
    fields: Mapping[str, Any]
    tags: Sequence[Tag]

    @property
    def marks(self) -> Marks:
        return {
            KEY: mark(self.key),
            **{name: mark(value) for name, value in self.fields.items()},
            TAGS: sorted(map(mark, self.tags)),
        }


class Known(NamedTuple):
    """What is stored of a record: marks of its values there after the last write, of the values here at that time, and
    of a write without a stored answer. None is unknown.
    """

    base: Marks | None = None
    sent: Marks | None = None
    sending: Marks | None = None


class Plan(NamedTuple):
    """What to write, and the names of the fields that somebody else has changed."""

    key: str | None
    fields: Mapping[str, Any]
    attach: Sequence[Tag]
    detach: Sequence[Tag]
    conflicts: Sequence[str]


def of_answer(kind: Kind, record: Mapping[str, Any]) -> Content:
    """Return the content of a record in an answer. Raises KeyError or TypeError if it is not one."""
    tags = [(str(tag["tag_type"]), str(tag["value"])) for tag in record[TAGS]]
    return Content(str(record[KEY]), {name: record[name] for name in FIELDS[kind]}, tags)


def plan(here: Content, there: Content, known: Known, *, is_forced: bool) -> Plan:
    """Decide on the values to write. With `is_forced`, values that somebody else has changed are overwritten, too."""
    changed, conflicts = {}, []
    for name, value in {KEY: here.key, **here.fields}.items():
        remote = there.key if name == KEY else there.fields[name]
        if mark(value) == mark(remote) or _is_settled(name, value, remote, known):
            continue
        if not is_forced and mark(remote) != (known.base or {}).get(name):
            conflicts.append(name)
        changed[name] = value
    attach, detach, is_conflict = _plan_tags(here, there, known)
    if is_conflict and not is_forced:
        conflicts.append(TAGS)
    key = changed.pop(KEY, None)
    return Plan(key, changed, attach, detach, conflicts)


def changed_by_others(there: Content, known: Known) -> list[str]:
    """Return the names of the fields that are not as they were after the last write."""
    base = known.base or {TAGS: []}
    changed = [name for name, value in there.marks.items() if name != TAGS and base.get(name) != value]
    return [*changed, TAGS] if {*there.marks[TAGS]} - {*base[TAGS]} else changed


def settled(there: Content, known: Known) -> Known:
    """Return the state known after a write without an answer: values there are ours if this write has them."""
    if known.sending is None:
        return known
    theirs, base = there.marks, dict(known.base or {TAGS: []})
    for name, value in theirs.items():
        if name != TAGS and value == known.sending.get(name):
            base[name] = value
    ours = {*base[TAGS], *known.sending[TAGS]}
    lost = {one for one in base[TAGS] if one not in theirs[TAGS] and one not in known.sending[TAGS]}
    base[TAGS] = sorted(({*base[TAGS]} - lost) | ({*theirs[TAGS]} & ours))
    return Known(base)


def is_of_write(there: Content, sending: Marks) -> bool:
    """Return True if a record there is the one that a write without an answer has created.

    Tags and window may have been left for a later request.
    """
    theirs = there.marks
    return all(theirs[name] == value for name, value in sending.items() if name not in (TAGS, *WINDOW))


def is_unchanged(here: Marks, known: Known) -> bool:
    """Return True if the values here are those of the last write, which was completed."""
    return known.base is not None and known.sending is None and here == (known.sent or known.base)


def _is_settled(name: str, value: Any, remote: Any, known: Known) -> bool:
    """Return True if the service stores the last written value in another form, such as 1 for 1.0, and both are as
    they were then.
    """
    if known.sent is None or known.base is None:
        return False
    return known.sent.get(name) == mark(value) and known.base.get(name) == mark(remote)


def _plan_tags(here: Content, there: Content, known: Known) -> tuple[list[Tag], list[Tag], bool]:
    """Return the tags to attach and to detach, and whether somebody else has attached or detached some."""
    attach = [tag for tag in here.tags if tag not in set(there.tags)]
    detach = [tag for tag in there.tags if tag not in set(here.tags)]
    base = set(known.base[TAGS]) if known.base else set()
    return attach, detach, any(mark(tag) in base for tag in attach) or any(mark(tag) not in base for tag in detach)


def mark(value: Any) -> str:
    """Return a hash of a JSON value, or of a JSON text. The order of keys and the form of numbers make no difference.

    The standard library reads values that strict readers refuse, such as 1e999, which metadata may contain.
    """
    plain = json.loads(bytes(value)) if isinstance(value, json_text.Raw) else value
    text = json.dumps(_canonical(plain), sort_keys=True)
    return b85encode(blake2b(text.encode(), digest_size=8).digest()).decode()


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _canonical(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def names(fields: Iterable[str]) -> str:
    """Return field names for people."""
    return ", ".join(name.replace("external_key", "key").replace("parent_id", "parent") for name in fields)
