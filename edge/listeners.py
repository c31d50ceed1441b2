"""Connects the receivers of the signals that records send.

Programs that change records call `connect` once at startup: the service and the commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edge.errors import Conflict
from edge.handhelds import accepted_scans
from edge.readers import kept_messages, unknown_tags
from edge.records.locations import location_deleting
from edge.records.tagging import tag_attached
from edge.records.tags import NewTag, match_key
from edge.tracking import pending_moves, report


def connect() -> None:
    """Connect all receivers. Repeated calls change nothing."""
    tag_attached.connect(_record_waiting_scans)
    tag_attached.connect(_replay_waiting_messages)
    location_deleting.connect(_check_unused)


def _record_waiting_scans(_: Any, organization_id: int, tags: Sequence[NewTag]) -> None:
    accepted_scans.record_waiting_scans(organization_id, tags)


def _replay_waiting_messages(_: Any, organization_id: int, tags: Sequence[NewTag]) -> None:
    keys = [(tag.tag_type, match_key(tag.tag_type, tag.value)) for tag in tags]
    unknown_tags.forget(organization_id, keys)
    kept_messages.request_for_tags(organization_id, keys)


def _check_unused(_: Any, location_id: int) -> None:
    if count := report.count_assets_at(location_id):
        raise Conflict(f"location has {count} live asset(s) placed at it")
    pending_moves.check_none_to(location_id)
