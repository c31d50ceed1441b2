"""Background imports with progress, one at a time. The last few are remembered."""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from edge.audit.actors import Actor
from edge.budget import MB
from edge.database.connection import close_database
from edge.errors import Conflict, EdgeError
from edge.pages.records.csv_import_rows import MOST_ROWS, Table, records_of
from edge.people.secrets import new_token
from edge.records.csv_import import NewRecord, Outcome, check_records, import_records
from edge.validation.csv_text import Line

log = logging.getLogger(__name__)

KEPT = 5
KEPT_BYTES = 8 * MB  # total size of remembered files


@dataclass
class Job:
    """An import. `outcomes` are available when it `is_done`; `trouble` is the reason if it failed as a whole.

    With `lines` it is a dry run that produces the records; with `records` it imports them.
    """

    actor: Actor
    kind: str
    lines: Sequence[Line] = ()
    data: bytes = field(default=b"", repr=False)  # of a dry run, to try another encoding
    table: Table | None = None
    records: Sequence[NewRecord] = ()
    step: str = ""  # current step
    id: str = field(default_factory=new_token)
    progress: int = 0
    is_done: bool = False
    outcomes: Sequence[Outcome] = ()
    trouble: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.dry_run, self.rows = bool(self.lines), len(self.lines or self.records)

    @property
    def counts(self) -> Counter[str]:
        return Counter(outcome.result for outcome in self.outcomes)

    @property
    def faults(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.result == "faulty"]


_lock = threading.Lock()
_jobs: OrderedDict[str, Job] = OrderedDict()


def start(job: Job) -> Job:
    """Start a job. Raises Conflict while another one runs."""
    with _lock:
        if any(not one.is_done for one in _jobs.values()):
            raise Conflict("Another import is running. Wait until it has finished")
        _jobs[job.id] = job
        while len(_jobs) > KEPT or (len(_jobs) > 1 and _is_much(_jobs.values())):
            _jobs.popitem(last=False)
    threading.Thread(target=_run, args=(job,), name="import", daemon=True).start()
    return job


def _is_much(jobs: Iterable[Job]) -> bool:
    return sum(job.rows for job in jobs) > MOST_ROWS or sum(len(job.data) for job in jobs) > KEPT_BYTES


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
        if number == job.rows and not job.dry_run:
            job.step = "Writing"

    try:
        if job.dry_run:
            job.step = "Reading"
            job.records, job.lines = records_of(job.kind, job.lines, progress), ()
        job.step = "Checking"
        if job.dry_run:
            job.outcomes = check_records(job.actor.organization_id, job.kind, job.records, progress)
        else:
            job.outcomes = import_records(job.actor, job.kind, job.records, progress)
    except EdgeError as error:
        job.trouble = str(error)
    except Exception:
        job.trouble = "Internal error: nothing was imported. See the log for details."
        log.exception("Import failed")
    finally:
        close_database()
        if not job.dry_run:
            job.records = ()
        job.is_done = True
        job.ended.set()
