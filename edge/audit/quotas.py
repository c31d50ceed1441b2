"""Quotas for people and API keys: bytes added over time, and the number of records of some kinds.

Every audited creation and every scan is charged here, through any interface. Shell, readers and hub are exempt. Without
quotas, one operator could fill the disk within hours and force retention to delete history. A cap also applies to
records that sync brings.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from edge.audit.actors import Actor, ActorKind
from edge.database.connection import database, execute, scalar
from edge.errors import Conflict, OverQuota, Unavailable
from edge.rate_limits import Buckets
from edge.texts import N_, Count, fill

DISK_NEARLY_FULL = N_(
    "The disk is nearly full; the remaining space is reserved for reads and scans. Free disk space and try again"
)
MB = 1024 * 1024
ROW_BYTES = 500  # bytes of a small record with its indexes and audit entry
ENTRY_BYTES = 250  # bytes of an audit entry with its indexes, without its detail
LINE_BYTES = 100  # bytes of one row of a stock-take or expected list, or of history of an asset on a carrier
LIMITED = (ActorKind.PERSON, ActorKind.API_KEY)
_of_caller = Buckets(burst=200 * MB, per_second=20 * MB / 3600)
_of_key = Buckets(burst=1000 * MB, per_second=100 * MB / 3600)  # a program may import all records with their metadata
_of_organization = Buckets(burst=2000 * MB, per_second=200 * MB / 3600)
_thread = threading.local()
COUNT_EVERY = 1_000  # creations between two counts of a kind with many records


_REMOVE, _DELETE = N_("remove one first"), N_("delete some first")
_LOWER_HISTORY = N_("they are deleted after retention.history_days; lower that setting")


class Cap(NamedTuple):
    """The maximum number of records of one kind in an organization.

    Records of `table`, without it of the table with the name of the kind, count if they meet `condition`.
    """

    limit: int
    name: str
    condition: str = "TRUE"
    remedy: str = _REMOVE
    table: str = ""


_PRESENT = "deleted_at IS NULL"
_NOT_OF_A_SITE = "revoked_at IS NULL AND NOT EXISTS (SELECT 1 FROM site WHERE api_key_id = api_key.id)"
_RUNNING = "finished_at IS NULL AND cancelled_at IS NULL"
_SIGN_OFF, _CANCEL = N_("sign off or delete one first"), N_("sign off or cancel one first")
CAPS = {
    "asset": Cap(1_000_000, N_("asset"), _PRESENT, N_("delete some first, or raise limits.assets")),
    "location": Cap(100_000, N_("location"), _PRESENT, N_("delete some first, or raise limits.locations")),
    "key": Cap(500, N_("API key"), _NOT_OF_A_SITE, N_("revoke one first"), "api_key"),
    "person": Cap(5_000, N_("person"), "disabled_at IS NULL", N_("disable one first")),
    "device": Cap(1_000, N_("device"), "revoked_at IS NULL", N_("revoke one first")),
    "reader": Cap(2_000, N_("reader"), _PRESENT),
    "door": Cap(500, N_("door"), f"{_PRESENT} AND site_no IS NULL"),
    "event_destination": Cap(20, N_("event destination"), "family = 'event_destination'", table="destination"),
    "channel": Cap(50, N_("channel"), "family = 'channel'", table="destination"),
    "output": Cap(20, N_("output"), "family = 'output'", table="destination"),
    "rule": Cap(50, N_("rule"), _PRESENT),
    "expected_list": Cap(20_000, N_("expected list"), remedy=_LOWER_HISTORY),
    "open expected_list": Cap(500, N_("open expected list"), "signed_at IS NULL", _SIGN_OFF, "expected_list"),
    "muster_plan": Cap(200, N_("muster plan"), remedy=N_("delete one first")),
    "muster": Cap(5_000, N_("muster"), remedy=N_("shorten the time for which reports are kept")),
    "site": Cap(1_000, N_("site"), "removed_at IS NULL"),
    "asset_note": Cap(20_000, N_("asset note"), remedy=_DELETE),
    "asset_photo": Cap(2_000, N_("asset photo"), remedy=_DELETE),
    "location_printer": Cap(200, N_("location printer")),
    "wall": Cap(50, N_("kiosk display"), remedy=N_("revoke one first")),
    "saved_filter": Cap(100, N_("saved filter")),
    "floor_plan": Cap(200, N_("floor plan")),
    "stock_take": Cap(50_000, N_("stock take"), remedy=_LOWER_HISTORY),
    "open stock_take": Cap(200, N_("open stock take"), _RUNNING, _CANCEL, "stock_take"),
}


# Counting many records takes milliseconds, so a count allows up to COUNT_EVERY creations without another one. Records
# deleted meanwhile are not noticed until the next count; other kinds are counted for each new record.
_RARELY_COUNTED = ("asset", "location")
_creations_left: dict[tuple[int, str], int] = {}  # until the next count, by organization and kind


class _Reserve:
    """Disk space reserved for reads and scans."""

    size = 0  # bytes; 0 disables the check, as in shell commands


def keep_free(size: int) -> None:
    """Refuse everything except reads and scans while fewer than `size` bytes of the disk are free."""
    _Reserve.size = size


def set_limits(limits: Mapping[str, int]) -> None:
    """Change caps by kind."""
    for kind, limit in limits.items():
        CAPS[kind] = CAPS[kind]._replace(limit=limit)
    _creations_left.clear()


def forget() -> None:
    """Reset all usage counters."""
    for buckets in _buckets().values():
        buckets.clear()
    _creations_left.clear()


def _buckets() -> dict[str, Buckets]:
    return {"callers": _of_caller, "keys": _of_key, "organizations": _of_organization}


def usage() -> dict[str, dict[str, float]]:
    """Return the bytes left of each quota in use, by kind and key."""
    return {name: buckets.levels() for name, buckets in _buckets().items()}


def restore_usage(saved: Mapping[str, Mapping[str, float]], seconds: float) -> None:
    """Restore a result of `usage` from `seconds` ago."""
    for name, buckets in _buckets().items():
        buckets.restore(saved.get(name, {}), seconds)


def charge(actor: Actor, size: int, *, is_scan: bool = False) -> None:
    """Count `size` bytes against the actor's quota. Call inside the transaction, which a refusal rolls back.

    Raises OverQuota, or Unavailable if the disk is nearly full. A scan is exempt from the disk check.
    """
    if actor.kind not in LIMITED or size == 0:
        return
    if not is_scan:
        _check_disk()
    _take(actor, size, f"{actor.kind} {actor.sender_id or actor.id}", str(actor.organization_id))


def charge_changes(actor: Actor, size: int) -> None:
    """Count `size` bytes of audit entries of changes, apart from what the actor adds. Raises OverQuota.

    Also possible on a nearly full disk: somebody must sign in to free space.
    """
    if actor.kind in LIMITED and size:
        caller = f"changes of {actor.kind} {actor.sender_id or actor.id}"
        _take(actor, size, caller, f"changes in {actor.organization_id}")


def _take(actor: Actor, size: int, caller: str, organization: str) -> None:
    of_sender = _of_key if actor.kind == ActorKind.API_KEY else _of_caller
    budget = of_sender.take(caller, size)
    if not budget.allowed:
        raise OverQuota(budget.retry_after)
    budget = _of_organization.take(organization, size)
    if not budget.allowed:
        of_sender.put_back(caller, size)
        raise OverQuota(budget.retry_after)
    getattr(_thread, "taken", []).extend([(of_sender, caller, size), (_of_organization, organization, size)])


@contextmanager
def put_back_on_failure() -> Iterator[None]:
    """Put back what this thread takes in a transaction of several acts if it fails, since none of them is stored."""
    taken: list[tuple[Buckets, str, int]] = []
    _thread.taken = taken
    try:
        yield
    except Exception:
        for buckets, key, size in taken:
            buckets.put_back(key, size)
        raise
    finally:
        del _thread.taken


def check_cap(actor: Actor, kind: str, more: int = 0, added: int = 1) -> None:
    """Raise Conflict if the organization exceeds its cap for `kind`. Call inside the transaction.

    `more`: records that will be added; `added`: records added since the last call.
    """
    if kind in CAPS and actor.kind in LIMITED:
        check_number(actor.organization_id, kind, more, added)


def check_number(organization_id: int, kind: str, more: int = 0, added: int = 1) -> None:
    """Like `check_cap`, whoever adds the records."""
    if kind not in _RARELY_COUNTED:
        _creations_until_count(organization_id, kind, more)
        return
    left = _creations_left.pop((organization_id, kind), 0) - added - more
    if left < 0:
        left = _creations_until_count(organization_id, kind, more)
    _creations_left[organization_id, kind] = left


def _creations_until_count(organization_id: int, kind: str, more: int) -> int:
    """Count the records and return how many can be created before the next count. Raises Conflict over the cap."""
    cap = CAPS[kind]
    count = count_of(organization_id, kind) + more
    if count > cap.limit:
        message = N_("At most %(number)s are allowed (%(kind)s); %(remedy)s")
        kind_name, remedy = fill(cap.name), fill(cap.remedy)
        raise Conflict(fill(message, number=Count(cap.limit), kind=kind_name, remedy=remedy))
    return min(cap.limit - count, COUNT_EVERY)


def count_of(organization_id: int, kind: str) -> int:
    """Return the number of records that count for a cap."""
    cap = CAPS[kind]
    sql = f"SELECT count(*) FROM {cap.table or kind} WHERE organization_id = ? AND {cap.condition}"
    return scalar(sql, (organization_id,))


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
