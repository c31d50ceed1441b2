"""Uploaded tables and their checks in the background, one at a time. The last few are remembered."""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from edge.audit.actors import Actor
from edge.bulk import import_kinds
from edge.database.connection import close_database
from edge.errors import Conflict, EdgeError, Invalid
from edge.memory_budget import MB, WORK
from edge.pages.records import csv_import_rows, csv_import_tag_rows
from edge.pages.records.csv_import_rows import (
    MOST_ROWS,
    MOST_VALUES,
    PREVIEWED,
    Reading,
    Table,
    check_columns,
    known_columns,
    table_of_workbook,
)
from edge.people.secrets import new_token
from edge.readers import reader_rows
from edge.records.csv_import import NewRecord, Outcome
from edge.texts import N_
from edge.validation.csv_text import RawRow

log = logging.getLogger(__name__)

# Functions that convert the rows of each kind.
ROWS: Mapping[str, Callable[[Reading, Sequence[RawRow], Callable[[int], None]], list[NewRecord]]] = {
    "asset": csv_import_rows.records_of,
    "location": csv_import_rows.records_of,
    "tag": csv_import_tag_rows.records_of,
    "reader": lambda reading, rows, _: reader_rows.records_of(
        (row.line(reading.columns) for row in rows), is_exact=reading.is_exact
    ),
}
KEPT = 5
BYTES_OF_WORKBOOK = 64 * MB  # shared texts and cells, bounded by the checks of edge.validation.xlsx
KEPT_BYTES = 8 * MB  # total size of remembered files


@dataclass
class Job:
    """The check of a table. `outcomes` are available when it `is_done`; `trouble` is the reason if it failed.

    Without `columns` it waits for a person who chooses them.
    """

    actor: Actor
    kind: str
    data: bytes = field(repr=False)  # to read the table again in another way
    table: Table
    reading: Reading
    records: Sequence[NewRecord] = ()
    step: str = ""  # current step
    id: str = field(default_factory=new_token)
    progress: int = 0
    is_done: bool = False
    outcomes: Sequence[Outcome] = ()
    trouble: str = ""
    import_id: str = ""  # the job that imports the table
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.rows = len(self.table.rows)
        self.values = self.table.cells

    @property
    def is_workbook(self) -> bool:
        return not self.table.separator

    @property
    def needs_columns(self) -> bool:
        return not self.reading.columns

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.result for outcome in self.outcomes)

    @property
    def faults(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.result == "faulty"]

    @property
    def detached(self) -> int:
        return sum(outcome.detached for outcome in self.outcomes)

    @property
    def cleared(self) -> int:
        return sum(outcome.cleared for outcome in self.outcomes)


_lock = threading.Lock()
_jobs: OrderedDict[str, Job] = OrderedDict()


def start(job: Job) -> Job:
    """Remember a table, and check it if its columns are known. Raises Conflict while another check runs."""
    with _lock:
        if any(not one.is_done for one in _jobs.values()):
            raise Conflict(N_("Another import is being checked. Wait until it has finished"))
        _jobs[job.id] = job
        while len(_jobs) > KEPT or (len(_jobs) > 1 and _is_much(_jobs.values())):
            _jobs.popitem(last=False)
        job.is_done = job.needs_columns and not job.is_workbook
    if not job.is_done:
        threading.Thread(target=_run, args=(job,), name="import", daemon=True).start()
    return job


def _is_much(jobs: Iterable[Job]) -> bool:
    numbers = [(job.rows, job.values, len(job.data)) for job in jobs]
    most = (MOST_ROWS, MOST_VALUES, KEPT_BYTES)
    return any(sum(one) > limit for one, limit in zip(zip(*numbers, strict=True), most, strict=True))


def find(organization_id: int, job_id: str) -> Job | None:
    with _lock:
        job = _jobs.get(job_id)
    return job if job is not None and job.actor.organization_id == organization_id else None


def wait(job_id: str, seconds: float) -> bool:
    """Wait for the import. Returns False after the timeout."""
    with _lock:
        job = _jobs[job_id]
    return job.ended.wait(seconds)


def _run(job: Job) -> None:
    def progress(number: int) -> None:
        job.progress = number

    try:
        job.step = N_("Reading")
        if job.is_workbook:
            _read_workbook(job)
            if job.needs_columns:
                return
        records = ROWS[job.kind](job.reading, job.table.rows, progress)
        job.table = job.table._replace(rows=job.table.rows[:PREVIEWED])
        job.step = N_("Checking")
        checked = import_kinds.check(job.actor.organization_id, job.kind, records, progress)
        job.outcomes, job.records = checked.outcomes, checked.records
        job.values += sum(len(record.tags) for record in records)
    except EdgeError as error:
        job.trouble = error.fields[0].message if isinstance(error, Invalid) else error.args[0]
    except Exception:
        job.trouble = N_("Internal error: nothing was imported. See the log for details.")
        log.exception("Check of an import failed")
    finally:
        close_database()
        job.is_done = True
        job.ended.set()


def _read_workbook(job: Job) -> None:
    """Read an Excel file and look for its columns, one file at a time."""
    with WORK.holding(BYTES_OF_WORKBOOK):
        job.table = table_of_workbook(job.data)
    job.rows, job.values = len(job.table.rows), job.table.cells
    columns = job.reading.columns or known_columns(job.kind, job.table.heading)
    if columns:
        check_columns(job.kind, columns)
        job.reading = job.reading._replace(columns=columns)
    else:
        job.table = job.table._replace(rows=job.table.rows[:PREVIEWED])
