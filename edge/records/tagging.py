"""Attaching tags and taking them off: the one way for assets and locations, whoever asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from edge.audit.audit import Act, Subject
from edge.handhelds import scans
from edge.readers import kept_messages, unknown_tags
from edge.records import tags
from edge.records.external_keys import moment
from edge.records.tags import NewTag, Owner, PreparedTag, TagRow


def attach_all(act: Act, owner: Owner, owner_id: int, new: Sequence[NewTag], created_at: int) -> list[TagRow]:
    """Attach tags to an owner known to be live, which then takes over the scans that waited for them.

    The caller writes the audit line. Raises Conflict for a tag that a live record holds.
    """
    added = tags.add_all(act.organization_id, owner, owner_id, new, created_at)
    take_over(act.organization_id, [NewTag(tag.tag_type, tag.value) for tag in added])
    return added


def attach_prepared(act: Act, owner: Owner, new: Sequence[PreparedTag], created_at: int) -> None:
    """Many at once, as `attach_all`; to live owners, and all of them known to be free."""
    tags.add_prepared(act.organization_id, owner, new, created_at)
    take_over(act.organization_id, [NewTag(tag.row.tag_type, tag.row.value) for tag in new])


def take_over(organization_id: int, attached: Sequence[NewTag]) -> None:
    """Whatever waited for these tags counts now: scans by people, and messages that are kept for a replay.

    Within the transaction that attached them, in whatever way.
    """
    scans.take_over_waiting(organization_id, attached)
    keys = [(tag.tag_type, tags.match_key(tag.tag_type, tag.value)) for tag in attached]
    unknown_tags.forget(organization_id, keys)
    kept_messages.order_for_tags(organization_id, keys)


def attach(act: Act, owner: Subject, kind: Owner, owner_id: int, tag: NewTag) -> TagRow:
    added = attach_all(act, kind, owner_id, [tag], moment())[0]
    act.note("tag.attached", owner, {"tag": told(added)})
    return added


def detach(act: Act, owner: Subject, kind: Owner, owner_id: int, tag_id: int) -> None:
    """Raises NotFound also for a tag of another record, and the second time."""
    removed = tags.remove(kind, owner_id, tag_id, moment())
    act.note("tag.detached", owner, {"tag": told(removed)})


def told(tag: TagRow | NewTag) -> str:
    """As the audit and the shell write it: `rfid:E28011700000020A7B2C3D4E`."""
    return f"{tag.tag_type}:{tag.value}"
