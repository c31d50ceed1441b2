"""Writes bulk jobs in slices. Others can write between two slices, and a job continues after a crash.

A slice changes some assets and removes them from the job in one transaction, so each is changed exactly once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from edge.audit import quotas
from edge.bulk import asset_changes, bulk_jobs, import_kinds, imports
from edge.bulk.asset_changes import Action
from edge.bulk.bulk_jobs import BulkJob
from edge.database.connection import column, execute_many, writing
from edge.database.sliced_writing import SLICE_SECONDS, next_length
from edge.errors import OverQuota
from edge.people import people
from edge.people.people import RANK, Role
from edge.records import gs1
from edge.texts import N_, fill
from edge.validation import json_text
from edge.validation.packed_texts import pack

PAUSE_SECONDS = 0.01  # waiting writers come first anyway
MOST_OF_A_SLICE = 200  # assets


def run_jobs(wait: Callable[[float], bool]) -> None:
    """Write all running jobs in turns, one slice each, until they are done or `wait` returns True.

    A job whose person is over quota continues with a later call, as after Unavailable, which is raised.
    """
    waiting: set[str] = set()
    seconds = SLICE_SECONDS
    while jobs := [job for job in bulk_jobs.running_jobs() if job.id not in waiting]:
        for job in jobs:
            try:
                held = write_slice(job, seconds)
                seconds = next_length(seconds, held)
            except OverQuota:
                waiting.add(job.id)
            if wait(PAUSE_SECONDS):
                return


def write_slice(job: BulkJob, seconds: float = SLICE_SECONDS) -> float:
    """Change the next assets of a job in one transaction, for about `seconds`, and end the job after the last one.

    Returns how long the write lock was held.
    """
    gs1.identify_before_writing(_next_codes(job))
    with quotas.put_back_on_failure(), writing():
        begun = time.monotonic()
        _write(job, begun + seconds)
    return time.monotonic() - begun


def _write(job: BulkJob, until: float) -> None:
    current = bulk_jobs.find_job(job.organization_id, job.id)
    if current is None or current.finished_at is not None:
        return
    if not _is_permitted(job):
        bulk_jobs.finish(job.actor, job, fill(N_("%(name)s may no longer change assets"), name=job.person_name))
        return
    if job.is_import:
        is_done = imports.write_some(job, until, MOST_OF_A_SLICE)
    else:
        _change_some(job, _next_assets(job), until)
        is_done = not _next_assets(job)
    if is_done:
        bulk_jobs.finish(job.actor, job)


def _is_permitted(job: BulkJob) -> bool:
    person = people.find_person(job.organization_id, job.person_id)
    required = import_kinds.role_for(job.change.field) if job.is_import else Role.EDITOR
    return person is not None and person.disabled_at is None and RANK[Role(person.role)] >= RANK[required]


def _next_assets(job: BulkJob) -> list[int]:
    sql = "SELECT asset_id FROM bulk_job_asset WHERE job_id = ? AND reason IS NULL ORDER BY asset_id LIMIT ?"
    return column(sql, (job.id, MOST_OF_A_SLICE))


def _next_codes(job: BulkJob) -> list[str]:
    """Return the tags of the next rows, or the keys of the next assets, which a move looks up like scanned codes."""
    if job.is_import:
        return imports.next_codes(job, MOST_OF_A_SLICE)
    if job.change.action is not Action.MOVE:
        return []
    sql = "SELECT external_key FROM asset WHERE id IN (SELECT value FROM json_each(?))"
    return column(sql, (json_text.text(_next_assets(job)),))


def _change_some(job: BulkJob, asset_ids: Sequence[int], until: float) -> None:
    """Change assets until the time of the slice is over, and record which were changed."""
    changed: list[tuple[str, int]] = []
    failed: list[tuple[str, str, int]] = []
    for asset_id in asset_ids:
        change = partial(asset_changes.apply, job.actor, job.change, job.id, job.created_at, asset_id)
        if reason := bulk_jobs.why_failed(change, f"bulk change {job.id}, asset {asset_id}"):
            failed.append((pack(reason), job.id, asset_id))
        else:
            changed.append((job.id, asset_id))
        if time.monotonic() > until:
            break
    execute_many("DELETE FROM bulk_job_asset WHERE job_id = ? AND asset_id = ?", changed)
    execute_many("UPDATE bulk_job_asset SET reason = ? WHERE job_id = ? AND asset_id = ?", failed)
