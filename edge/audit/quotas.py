"""Quotas for people and API keys: bytes added over time, and the number of records of some kinds.

Every audited creation and every scan is charged here, through any interface. Shell, readers and hub are exempt. Without
quotas, one operator could fill the disk within hours and force retention to delete history.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from edge.audit.actors import Actor, ActorKind
from edge.database.connection import database, execute
from edge.errors import Conflict, OverQuota, Unavailable
from edge.limits import Buckets

DISK_NEARLY_FULL = (
    "The disk is nearly full; the remaining space is reserved for reads and scans. Free disk space and try again"
)
MB = 1024 * 1024
ROW_BYTES = 500  # bytes of a small record with its indexes and audit entry
LINE_BYTES = 100  # bytes of one stock-take row
_LIMITED = (ActorKind.PERSON, ActorKind.API_KEY)
_of_caller = Buckets(burst=200 * MB, per_second=20 * MB / 3600)
_of_organization = Buckets(burst=1000 * MB, per_second=100 * MB / 3600)


class Cap(NamedTuple):
    """The maximum number of records of one kind in an organization. `rows` selects the records that count."""

    limit: int
    rows: str
    remedy: str


CAPS = {
    "key": Cap(
        500,
        "api_key WHERE organization_id = ? AND revoked_at IS NULL "
        "AND NOT EXISTS (SELECT 1 FROM site WHERE api_key_id = api_key.id)",
        "revoke one first",
    ),
    "person": Cap(5_000, "person WHERE organization_id = ? AND disabled_at IS NULL", "disable one first"),
    "device": Cap(1_000, "device WHERE organization_id = ? AND revoked_at IS NULL", "revoke one first"),
    "reader": Cap(2_000, "reader WHERE organization_id = ? AND deleted_at IS NULL", "remove one first"),
    "site": Cap(1_000, "site WHERE organization_id = ? AND removed_at IS NULL", "remove one first"),
    "floor_plan": Cap(200, "floor_plan WHERE organization_id = ?", "remove one first"),
    "stock_take": Cap(
        50_000,
        "stock_take WHERE organization_id = ?",
        "they are deleted after retention.history_days; lower that setting",
    ),
    "open stock_take": Cap(
        200,
        "stock_take WHERE organization_id = ? AND finished_at IS NULL AND cancelled_at IS NULL",
        "sign off or cancel one first",
    ),
}


class _Reserve:
    """Disk space reserved for reads and scans."""

    size = 0  # bytes; 0 disables the check, as in shell commands


def keep_free(size: int) -> None:
    """Refuse everything except reads and scans while fewer than `size` bytes of the disk are free."""
    _Reserve.size = size


def forget() -> None:
    """Reset all usage counters, as a restart does."""
    _of_caller.clear()
    _of_organization.clear()


def charge(actor: Actor, size: int, *, is_scan: bool = False) -> None:
    """Count `size` bytes against the actor's quota. Call inside the transaction, which a refusal rolls back.

    Raises OverQuota, or Unavailable if the disk is nearly full. A scan is exempt from the disk check.
    """
    if actor.kind not in _LIMITED or size == 0:
        return
    if not is_scan:
        _check_disk()
    caller = f"{actor.kind} {actor.sender_id or actor.id}"
    for buckets, key in ((_of_caller, caller), (_of_organization, str(actor.organization_id))):
        budget = buckets.take(key, size)
        if not budget.allowed:
            raise OverQuota(budget.retry_after)


def check_cap(actor: Actor, kind: str, more: int = 0) -> None:
    """Raise Conflict if the organization exceeds its cap for `kind`. Call inside the transaction."""
    cap = CAPS.get(kind)
    if cap is None or actor.kind not in _LIMITED:
        return
    count = execute(f"SELECT count(*) FROM {cap.rows}", (actor.organization_id,)).fetchone()[0]
    if count + more > cap.limit:
        raise Conflict(f"There are {cap.limit:,} of these already ({kind.replace('_', ' ')}); {cap.remedy}")


def _check_disk() -> None:
    """Raise Unavailable if the disk is nearly full. Unused pages of the database file count as free space."""
    if not _Reserve.size:
        return
    free = shutil.disk_usage(Path(database.database).parent).free
    if free >= _Reserve.size:
        return
    unused = execute("SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size").fetchone()[0]
    if free + unused < _Reserve.size:
        raise Unavailable(DISK_NEARLY_FULL, retry_after_seconds=60)
