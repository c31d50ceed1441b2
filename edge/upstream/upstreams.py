"""The service of an organization: its address, credentials and progress.

Changes made by users are audited. Progress is not.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting
from edge.database import change_log
from edge.database.connection import execute, writing
from edge.database.triggers import Follower
from edge.errors import Conflict, NotFound
from edge.outbound import Network, check_host
from edge.sync.store import change_feed
from edge.upstream import counterparts

FIRST_PAUSE = 5 * clock.SECOND
LONGEST_PAUSE = 600 * clock.SECOND
TROUBLE_AFTER = clock.HOUR  # tolerates a restart of the service


class NewUpstream(NamedTuple):
    """A service to add. `secret` is sealed (see `edge.people.secrets`)."""

    url: str
    network: Network
    client_id: str
    secret: bytes
    authority: str = ""  # PEM; empty: those of the system


class Upstream(NamedTuple):
    """A row of the table `upstream`."""

    no: int
    organization_id: int
    url: str
    network: Network
    client_id: str
    secret: bytes
    authority: str
    created_at: int
    paused_at: int | None
    seq: int
    walk_id: int | None
    walked_at: int | None
    failures: int
    failing_since: int | None
    next_try_at: int
    last_error: str | None
    last_success_at: int | None
    written: int

    @property
    def state(self) -> str:
        return "paused" if self.paused_at is not None else "failing" if self.last_error else "working"


_SELECT = f"SELECT {', '.join(Upstream._fields)} FROM upstream "


def add(actor: Actor, new: NewUpstream) -> Upstream:
    """Add the service and begin to copy all records to it.

    Raises Invalid for an address that is not allowed, and Conflict if there is a service already.
    """
    check_host("url", urlsplit(new.url).hostname or "", new.network)
    with acting(actor) as act:
        if find(actor.organization_id):
            raise Conflict("There is an upstream already. Remove it first: edge upstream remove")
        execute(
            "INSERT INTO upstream (organization_id, url, network, client_id, secret, authority, created_at, seq, "
            "walk_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)",
            (actor.organization_id, *new, clock.now(), change_log.newest()),
        )
        change_log.begin(Follower.UPSTREAM)
        row = get(actor.organization_id)
        act.note(
            "upstream.added", subject_of(row), {"url": row.url, "network": row.network, "client_id": row.client_id}
        )
    return row


def remove(actor: Actor) -> None:
    """Remove the service. Its records stay there. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id)
        execute("DELETE FROM upstream WHERE no = ?", (row.no,))
        if not change_feed.has_upstream():
            change_log.leave(Follower.UPSTREAM)
        act.note("upstream.removed", subject_of(row))


def pause(actor: Actor) -> None:
    """Stop writing until `resume`. Raises NotFound."""
    _change(actor, "upstream.paused", "paused_at = ?", clock.now())


def resume(actor: Actor) -> None:
    """Continue, also at once after an outage. Raises NotFound."""
    _change(actor, "upstream.resumed", "paused_at = NULL, next_try_at = 0")


def change_secret(actor: Actor, client_id: str, secret: bytes) -> None:
    """Replace the credentials. Raises NotFound."""
    columns, details = "client_id = ?, secret = ?, next_try_at = 0", {"client_id": client_id}
    _change(actor, "upstream.secret_changed", columns, client_id, secret, details=details)


def change_authority(actor: Actor, authority: str) -> None:
    """Replace the certificates of the authority (PEM). Raises NotFound."""
    _change(actor, "upstream.authority_changed", "authority = ?, next_try_at = 0", authority)


def retry(actor: Actor) -> int:
    """Compare all records now, and check all troubles again. Returns the number of troubles. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id)
        number = counterparts.retry(row.no)
        execute("UPDATE upstream SET walk_id = 0, next_try_at = 0 WHERE no = ?", (row.no,))
        act.note("upstream.compared", subject_of(row))
    return number


def overwrite(actor: Actor, ids: Collection[int]) -> int:
    """Overwrite changes of others in these records at the service. Returns their number. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id)
        number = counterparts.force(row.no, ids)
        act.note("upstream.overwritten", subject_of(row), {"records": sorted(ids)[:100], "number": number})
    return number


def get(organization_id: int) -> Upstream:
    """Return the upstream of an organization. Raises NotFound."""
    row = find(organization_id)
    if row is None:
        raise NotFound("There is no upstream. Add one: edge upstream add-v1 URL")
    return row


def find(organization_id: int) -> Upstream | None:
    rows = _rows("WHERE organization_id = ?", (organization_id,))
    return rows[0] if rows else None


def all_upstreams() -> list[Upstream]:
    """Return the upstreams of all organizations. For the service and for diagnosis only."""
    return _rows("ORDER BY no", ())


def count_waiting(row: Upstream) -> int:
    """Return an upper bound of changes that are not there yet."""
    return len(change_feed.all_records_listed(row.seq, 10_000))


def add_written(no: int, number: int) -> None:
    """Count records that were written. Call in a transaction."""
    execute("UPDATE upstream SET written = written + ? WHERE no = ?", (number, no))


def note_failure(row: Upstream, error: str, wait_seconds: float) -> None:
    """Record that the service cannot be used, and when to try again."""
    now = clock.now()
    pause = min(FIRST_PAUSE << min(row.failures, 20), LONGEST_PAUSE) * random.uniform(0.8, 1.2)  # noqa: S311  jitter
    asked = wait_seconds * clock.SECOND * random.uniform(1.0, 1.2)  # noqa: S311  never before the service allows it
    with writing():
        execute(
            "UPDATE upstream SET failures = failures + 1, failing_since = ifnull(failing_since, ?), next_try_at = ?, "
            "last_error = ? WHERE no = ?",
            (now, now + int(max(pause, asked)), error[:500], row.no),
        )


def move(no: int, *, seq: int | None, walk_id: int | None) -> None:
    """Record that a round was completed, and how far the changes, or the comparison, are.

    Call in the transaction that stores the results.
    """
    execute(
        "UPDATE upstream SET failures = 0, failing_since = NULL, next_try_at = 0, last_error = NULL, "
        "last_success_at = ?, seq = max(seq, ifnull(?, seq)), walk_id = ifnull(?, walk_id) WHERE no = ?",
        (clock.now(), seq, walk_id, no),
    )


def begin_walk(no: int) -> None:
    """Begin to compare all records. Changes made before need not be read."""
    with writing():
        execute("UPDATE upstream SET walk_id = 0, seq = ? WHERE no = ?", (change_log.newest(), no))


def end_walk(no: int) -> None:
    with writing():
        execute("UPDATE upstream SET walk_id = NULL, walked_at = ? WHERE no = ?", (clock.now(), no))


def troubles() -> list[str]:
    """Return one sentence for each service that has not been usable for an hour."""
    return [
        f"{row.url} has taken no records since {clock.rfc3339(row.failing_since)}: {row.last_error}"
        for row in all_upstreams()
        if row.failing_since and not row.paused_at and row.failing_since < clock.now() - TROUBLE_AFTER
    ]


def _change(
    actor: Actor, event: str, columns: str, *values: object, details: Mapping[str, object] | None = None
) -> None:
    """Set columns of the service, and note it. Raises NotFound."""
    with acting(actor) as act:
        row = get(actor.organization_id)
        execute(f"UPDATE upstream SET {columns} WHERE no = ?", (*values, row.no))
        act.note(event, subject_of(row), details)


def _rows(where: str, values: tuple[object, ...]) -> list[Upstream]:
    rows = execute(_SELECT + where, values).fetchall()
    return [row._replace(network=Network(row.network)) for row in map(Upstream._make, rows)]


def subject_of(row: Upstream) -> Subject:
    """Return the service as a subject of the audit."""
    return Subject("upstream", row.no, row.url)
