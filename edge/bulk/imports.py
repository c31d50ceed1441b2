"""Imports as bulk jobs: the rows of a checked file are stored first, then written in slices.

A stop while rows are stored changes nothing, and the job says so. Once all are stored, the job continues after a stop,
and each row is written exactly once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple

from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.bulk import bulk_jobs, import_kinds
from edge.bulk.asset_changes import Action, BulkChange
from edge.bulk.bulk_jobs import BulkJob
from edge.database.connection import execute, execute_many, writing
from edge.database.sliced_writing import ROWS_OF_STEP, parts_of, write_in_slices
from edge.records.csv_import import NewRecord, Outcome
from edge.records.tags import NewTag
from edge.texts import N_
from edge.validation import json_text
from edge.validation.packed_texts import pack, unpack

KEPT = 5  # finished imports of an organization
DROPPED_TOGETHER = 500  # rows
TOGETHER = 50  # rows that are written with one statement each; the search index is flushed after them
WRITTEN_TOGETHER = 200  # records and tags; 50 records with 500 tags each would hold the write lock for a minute
FAULTY = "faulty"
NOT_STORED = N_("the service stopped before the import began: nothing was imported")
STOPPED = N_("stopped before this row was imported")


class ImportedRow(NamedTuple):
    """A row of an import. `record` is None once it is written."""

    line: int
    external_key: str
    result: str | None
    reason: str
    record: NewRecord | None


def start(actor: Actor, kind: str, records: Collection[NewRecord], created: int) -> str:
    """Store the rows of a checked file and return the id of the job. `slices` writes them afterwards.

    `created`: number of records that would be created. Raises Conflict while another job of the organization is running
    or if there would be too many records.
    """
    change = BulkChange(Action.IMPORT, field=kind)
    write_in_slices(_drop_many(actor.organization_id))
    with writing():
        bulk_jobs.check_idle(actor.organization_id)
        quotas.check_cap(actor, kind, more=created, added=0)
        quotas.charge(actor, quotas.LINE_BYTES * len(records))
        job_id = bulk_jobs.add(actor, change, len(records), NOT_STORED)
    write_in_slices(_stored(job_id, iter(records)))
    with acting(actor) as act:
        bulk_jobs.check_idle(actor.organization_id)
        bulk_jobs.begin(act, job_id, change, {"rows": len(records)})
    return job_id


def _stored(job_id: str, records: Iterator[NewRecord]) -> Iterator[None]:
    while part := list(islice(records, ROWS_OF_STEP)):
        execute_many(
            "INSERT INTO bulk_job_row (job_id, line, external_key, record, reason) VALUES (?, ?, ?, ?, '')",
            ((job_id, record.line, record.external_key or "", _to_json(record)) for record in part),
        )
        yield


def next_codes(job: BulkJob, most: int) -> list[str]:
    """Return the tags of the next rows, at most as many."""
    codes = (tag.value for record in _next_records(job, most) for tag in record.tags)
    return list(islice(codes, most))


def write_some(job: BulkJob, until: float, most: int) -> bool:
    """Write the next rows in the caller's transaction until the time of the slice is over. Returns True at the end."""
    for _ in range(most // TOGETHER):
        records = _next_records(job, TOGETHER)
        if not records:
            return True
        size = partial(import_kinds.size_of, job.change.field)
        outcomes = _written(job, next(parts_of(records, size, WRITTEN_TOGETHER, ROWS_OF_STEP)))
        execute_many(
            "UPDATE bulk_job_row SET result = ?1, reason = ?2, external_key = ?3, "
            "record = iif(?1 = 'faulty', record, NULL) WHERE job_id = ?4 AND line = ?5",
            ((one.result, one.reason, one.external_key, job.id, one.line) for one in outcomes),
        )
        if time.monotonic() > until:
            break
    return not _next_records(job, 1)


def _written(job: BulkJob, records: Sequence[NewRecord]) -> list[Outcome]:
    """Write rows together, or else one by one. A row that fails leaves no trace."""
    outcomes: list[Outcome] = []

    def write() -> None:
        outcomes.extend(import_kinds.write(job.actor, job.change.field, records))

    line, key = records[0].line, records[0].external_key or ""
    reason = bulk_jobs.why_failed(write, f"import {job.id}, from line {line} on")
    if reason and len(records) > 1:
        return [one for record in records for one in _written(job, [record])]
    return [Outcome(line, key, FAULTY, pack(reason))] if reason else outcomes


def _next_records(job: BulkJob, most: int) -> list[NewRecord]:
    sql = "SELECT record FROM bulk_job_row WHERE job_id = ? AND result IS NULL ORDER BY line LIMIT ?"
    return [_from_json(text) for (text,) in execute(sql, (job.id, most))]


def counts(job: BulkJob) -> Counter[str]:
    """Return the number of written rows by result."""
    sql = "SELECT result, count(*) FROM bulk_job_row WHERE job_id = ? AND result IS NOT NULL GROUP BY result"
    return Counter(dict(execute(sql, (job.id,)).fetchall()))


def rows(job: BulkJob, *, is_faulty: bool = False, limit: int = -1) -> Iterator[ImportedRow]:
    """Yield the rows of an import, or only those that were not imported."""
    condition = "(result IS NULL OR result = 'faulty')" if is_faulty else "true"
    sql = (
        "SELECT line, external_key, result, reason, record FROM bulk_job_row "
        f"WHERE job_id = ? AND {condition} ORDER BY line LIMIT ?"
    )
    for line, key, result, reason, record in execute(sql, (job.id, limit)).fetchall():
        stopped = STOPPED if result is None and job.finished_at else unpack(reason)
        yield ImportedRow(line, key, result, stopped, _from_json(record) if record else None)


def _drop_many(organization_id: int) -> Iterator[None]:
    """Delete the oldest imports, which are more than the limit with the one that is added, rows first."""
    old = execute(
        "SELECT id FROM bulk_job WHERE organization_id = ? AND finished_at IS NOT NULL "
        "AND change ->> 'action' = 'import' ORDER BY finished_at DESC LIMIT -1 OFFSET ?",
        (organization_id, KEPT - 1),
    ).fetchall()
    for (job_id,) in old:
        while execute(
            "DELETE FROM bulk_job_row WHERE job_id = ?1 AND line IN "
            "(SELECT line FROM bulk_job_row WHERE job_id = ?1 LIMIT ?2)",
            (job_id, DROPPED_TOGETHER),
        ).rowcount:
            yield
        execute("DELETE FROM bulk_job WHERE id = ?", (job_id,))
        yield


def _to_json(record: NewRecord) -> str:
    return json_text.text(record)


def _from_json(text: str) -> NewRecord:
    record = NewRecord._make(json_text.decode(text))
    return record._replace(tags=[NewTag(*tag) for tag in record.tags])
