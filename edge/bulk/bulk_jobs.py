"""Bulk jobs: started after all assets were checked, stopped by a person, and shown with their progress."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from edge import clock
from edge.audit import actors, quotas
from edge.audit.actors import Actor
from edge.audit.audit import Act, Subject, acting
from edge.bulk import asset_changes
from edge.bulk.asset_changes import Action, BulkChange, Fault
from edge.database.connection import database, execute, execute_many, reading, writing
from edge.errors import Conflict, EdgeError, Invalid, OverQuota, Unavailable
from edge.people.secrets import new_token
from edge.texts import N_, Count, fill, joined
from edge.validation.imported_rows import messages_of
from edge.validation.packed_texts import pack, unpack

MAX_ASSETS = 10_000
KEPT = 20  # finished jobs of an organization
STOPPED = N_("stopped before this asset was changed")
INTERNAL_ERROR = N_("internal error; see the log")

log = logging.getLogger(__name__)


class Refused(EdgeError):
    """Nothing was changed, because some assets cannot be changed."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{len(faults)} assets cannot be changed")
        self.faults = faults


class BulkJob(NamedTuple):
    """A bulk job. Times are microseconds since the epoch, UTC. `end_reason` is set if it ended early."""

    id: str
    organization_id: int
    person_id: int
    person_name: str
    device_id: int | None
    device_name: str
    change: BulkChange
    total: int
    created_at: int
    finished_at: int | None
    end_reason: str | None

    @property
    def is_import(self) -> bool:
        return self.change.action is Action.IMPORT

    @property
    def actor(self) -> Actor:
        return actors.person(self.organization_id, self.person_id, self.person_name, self.device_id, self.device_name)


class Progress(NamedTuple):
    """Numbers of assets: `failed` ones were tried and not changed, `remaining` ones not tried yet."""

    total: int
    failed: int
    remaining: int

    @property
    def tried(self) -> int:
        return self.total - self.remaining

    @property
    def changed(self) -> int:
        return self.total - self.remaining - self.failed


_COLUMNS = ", ".join(BulkJob._fields)


def start(actor: Actor, change: BulkChange, asset_ids: Sequence[int]) -> str:
    """Check all assets, store the job and return its id. Nothing is changed yet; `slices` does that.

    Raises Refused, Invalid, and Conflict while another job of the organization is running.
    """
    if actor.person_id is None:
        raise Invalid.one("actor", "invalid_value", N_("Only people can start a bulk job"))
    ids = list(dict.fromkeys(asset_ids))
    if not 1 <= len(ids) <= MAX_ASSETS:
        message = fill(N_("Choose 1 to %(number)s assets"), number=Count(MAX_ASSETS))
        raise Invalid.one("assets", "invalid_value", message)
    with reading():  # checking takes longer than writing, so the write lock is not held
        asset_changes.check_change(actor.organization_id, change)
        if faults := asset_changes.check_assets(actor.organization_id, change, ids):
            raise Refused(faults)
    with acting(actor) as act:
        check_idle(actor.organization_id)
        if change.action is Action.RESTORE:
            quotas.check_cap(actor, "asset", more=len(ids), added=0)
        quotas.charge(actor, quotas.LINE_BYTES * len(ids))
        return _store(act, change, ids)


def why_failed(change: Callable[[], object], what: str) -> str:
    """Make a change in the caller's transaction. Return why it failed, or "". A failure leaves no trace.

    `what` is for the log. Raises OverQuota and Unavailable, which concern the whole job.
    """
    try:
        with database.savepoint():
            change()
    except (OverQuota, Unavailable):
        raise
    except EdgeError as error:
        return joined(messages_of(error))
    except Exception:
        if not database.connection().in_transaction:  # SQLite has rolled back the slice
            raise
        log.exception("Failed: %s", what)
        return INTERNAL_ERROR
    return ""


def check_idle(organization_id: int) -> None:
    """Raise Conflict while a job of the organization is running. Call in the transaction that starts another one."""
    if running_job(organization_id):
        raise Conflict(N_("Another change or import is running. Wait until it has finished, or stop it"))


def stop(actor: Actor, job_id: str) -> None:
    """Stop a job after the slice that is being written. Assets that are already changed stay changed."""
    with writing():
        job = find_job(actor.organization_id, job_id)
        if job and job.finished_at is None:
            finish(actor, job, fill(N_("stopped by %(name)s"), name=actor.name))


def finish(actor: Actor, job: BulkJob, end_reason: str | None = None) -> None:
    """End a job. Assets that were not tried get a reason."""
    with acting(actor) as act:
        number = progress(job)
        execute("UPDATE bulk_job_asset SET reason = ? WHERE job_id = ? AND reason IS NULL", (STOPPED, job.id))
        execute(
            "UPDATE bulk_job SET finished_at = ?, end_reason = ? WHERE id = ?",
            (clock.now(), end_reason and pack(end_reason), job.id),
        )
        detail = {"action": job.change.action, "changed": number.changed, "not_changed": number.total - number.changed}
        act.note("bulk_change.ended", _subject(job.id), detail | ({"reason": end_reason} if end_reason else {}))


def find_job(organization_id: int, job_id: str) -> BulkJob | None:
    row = execute(
        f"SELECT {_COLUMNS} FROM bulk_job WHERE id = ? AND organization_id = ?", (job_id, organization_id)
    ).fetchone()
    return _job(row) if row else None


def running_job(organization_id: int) -> BulkJob | None:
    row = execute(
        f"SELECT {_COLUMNS} FROM bulk_job WHERE organization_id = ? AND finished_at IS NULL", (organization_id,)
    ).fetchone()
    return _job(row) if row else None


def running_jobs() -> list[BulkJob]:
    """Return the running jobs of all organizations, oldest first. For the service only."""
    sql = f"SELECT {_COLUMNS} FROM bulk_job WHERE finished_at IS NULL ORDER BY created_at"
    return [_job(row) for row in execute(sql).fetchall()]


def progress(job: BulkJob) -> Progress:
    sql = "SELECT count(reason), count(*) - count(reason) FROM bulk_job_asset WHERE job_id = ?"
    if job.is_import:
        sql = (
            "SELECT count(*) FILTER (WHERE result = 'faulty'), count(*) FILTER (WHERE result IS NULL) "
            "FROM bulk_job_row WHERE job_id = ?"
        )
    failed, remaining = execute(sql, (job.id,)).fetchone()
    if job.is_import and job.finished_at:  # stopped
        failed, remaining = failed + remaining, 0
    return Progress(job.total, failed, remaining)


def failures(job: BulkJob, limit: int) -> list[Fault]:
    """Return assets that were not changed, sorted by key."""
    sql = (
        "SELECT one.asset_id, ifnull(a.external_key, ''), ifnull(a.name, ''), one.reason FROM bulk_job_asset one "
        "LEFT JOIN asset a ON a.id = one.asset_id WHERE one.job_id = ? AND one.reason IS NOT NULL "
        "ORDER BY a.external_key LIMIT ?"
    )
    return [Fault(*row)._replace(reason=unpack(row[-1])) for row in execute(sql, (job.id, limit))]


def _store(act: Act, change: BulkChange, asset_ids: Sequence[int]) -> str:
    job_id = add(act.actor, change, len(asset_ids), "")
    execute_many(
        "INSERT INTO bulk_job_asset (job_id, asset_id) VALUES (?, ?)", ((job_id, asset_id) for asset_id in asset_ids)
    )
    begin(act, job_id, change, {"assets": len(asset_ids)})
    return job_id


def add(actor: Actor, change: BulkChange, total: int, end_reason: str) -> str:
    """Add a job in the caller's transaction and return its id. Until it begins, it has ended for the given reason."""
    job_id, now = new_token(), clock.now()
    row = (
        *(job_id, actor.organization_id, actor.person_id, actor.name, actor.device_id, actor.device_name),
        *(asset_changes.to_json(change), total, now, now, end_reason),
    )
    _drop_many(actor.organization_id)
    execute(f"INSERT INTO bulk_job ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
    return job_id


def begin(act: Act, job_id: str, change: BulkChange, detail: Mapping[str, int]) -> None:
    """Let `slices` write the job."""
    execute("UPDATE bulk_job SET finished_at = NULL, end_reason = NULL WHERE id = ?", (job_id,))
    given = {name: value for name, value in change._asdict().items() if value not in (None, "", False)}
    act.note("bulk_change.started", _subject(job_id), given | dict(detail))


def _drop_many(organization_id: int) -> None:
    """Delete the oldest finished jobs, which are more than the limit with the one that is added."""
    execute(
        "DELETE FROM bulk_job WHERE id IN (SELECT id FROM bulk_job WHERE organization_id = ? "
        "AND finished_at IS NOT NULL ORDER BY finished_at DESC LIMIT -1 OFFSET ?)",
        (organization_id, KEPT - 1),
    )


def _subject(job_id: str) -> Subject:
    return Subject("bulk_change", job_id, "Bulk change")


def _job(row: Sequence[object]) -> BulkJob:
    job = BulkJob._make(row)
    end_reason = job.end_reason and unpack(job.end_reason)
    return job._replace(change=asset_changes.from_json(str(job.change)), end_reason=end_reason)
