"""Attach and detach tags of assets and locations."""

from __future__ import annotations

from collections.abc import Sequence

from blinker import Signal

from edge.audit.audit import Act
from edge.records import former_people, tags
from edge.records.tags import NewTag, Owner, PreparedTag, TagRow

# Sent with `organization_id` and `tags` (a list of NewTag) in the transaction that attaches them. Receivers record the
# scans and request the replay of the messages that were waiting for these tags. Their errors undo the transaction.
tag_attached = Signal()


def attach_all(act: Act, owner: Owner, owner_id: int, new: Sequence[NewTag], created_at: int) -> list[TagRow]:
    """Attach tags to a live owner and take over the scans that waited for them.

    The caller writes the audit entry. Raises Conflict if a live record has one of the tags, Forbidden if a person had
    one and the actor may not see people.
    """
    prepared = tags.prepare_all(act.organization_id, owner, owner_id, new)
    attach_prepared(act, owner, prepared, created_at)
    return [one.row for one in prepared]


def attach_prepared(act: Act, owner: Owner, new: Sequence[PreparedTag], created_at: int) -> None:
    """Attach prepared tags to live owners. The caller has checked that the tags are free. Raises Forbidden."""
    former_people.check_tags(act.actor, [(one.row.tag_type, one.match_key, one.owner_id) for one in new])
    tags.add_prepared(act.organization_id, owner, new, created_at)
    send_tag_attached(act.organization_id, [NewTag(tag.row.tag_type, tag.row.value) for tag in new])


def send_tag_attached(organization_id: int, attached: Sequence[NewTag]) -> None:
    """Send `tag_attached`. Call in the transaction that attaches the tags."""
    if not tag_attached.receivers:
        raise RuntimeError("nothing receives tag_attached: edge.listeners.connect was not called")
    tag_attached.send(organization_id=organization_id, tags=attached)


def tag_text(tag: TagRow | NewTag) -> str:
    """Return a tag as text for the audit log: `rfid:E28011700000020A7B2C3D4E`."""
    return f"{tag.tag_type}:{tag.value}"
