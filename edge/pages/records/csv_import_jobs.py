"""Uploaded tables and their checks in the background, one at a time: memory has room for one large table.

Organizations take turns, each with one check that runs or waits. The last few of each are remembered, in files.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from edge.audit.actors import Actor
from edge.bulk import import_kinds
from edge.bulk.import_columns import COLUMNS, check_columns, known_columns
from edge.bulk.import_rows import PREVIEWED, Reading, records_of
from edge.bulk.imports import FAULTY
from edge.database.connection import close_database
from edge.errors import Conflict, EdgeError, Invalid
from edge.fair_turns import FairTurns, Turn
from edge.memory_budget import WORK
from edge.pages.spilled import Spilled
from edge.people.secrets import new_token
from edge.records.csv_import import NewRecord, Outcome
from edge.texts import N_
from edge.validation.table_files import Table, memory_of, read

log = logging.getLogger(__name__)

KEPT = 5  # of each organization
SHOWN_FAULTS = 100  # on the page; the files of results and errors have all


@dataclass
class Job:
    """The check of a table. `outcomes` are available when it `is_done`; `trouble` is the reason if it failed.

    Without `columns` it waits for a person who chooses them. `file` has the content of the file, to read the table
    again in another way.
    """

    actor: Actor
    kind: str
    file: Spilled[bytes]
    table: Table
    reading: Reading
    records: Spilled[NewRecord] | None = None
    step: str = N_("Waiting")  # current step
    id: str = field(default_factory=new_token)
    progress: int = 0
    is_done: bool = False
    outcomes: Spilled[Outcome] | None = None
    counts: Counter[str] = field(default_factory=Counter)  # of outcomes by result
    faults: Sequence[Outcome] = ()  # the first ones
    detached: int = 0
    cleared: int = 0
    trouble: str = ""
    import_id: str = ""  # the job that imports the table
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        self.rows = len(self.table.rows)

    @property
    def data(self) -> bytes:
        return b"".join(self.file)

    @property
    def is_workbook(self) -> bool:
        return not self.table.layout.separator

    @property
    def needs_columns(self) -> bool:
        return not self.reading.columns


_checks = FairTurns()
_lock = threading.Lock()
_jobs: OrderedDict[str, Job] = OrderedDict()


def start(job: Job) -> Job:
    """Remember a table, and check it if its columns are known.

    Raises Conflict while another check of the organization runs or waits.
    """
    organization_id = job.actor.organization_id
    job.is_done = job.needs_columns and not job.is_workbook
    turn = None if job.is_done else _checks.join(organization_id)
    if turn is None and not job.is_done:
        raise Conflict(N_("Another import is being checked. Wait until it has finished"))
    if turn is None or not _checks.is_current(turn):
        job.table = job.table._replace(rows=job.table.rows[:PREVIEWED])  # read again when it is its turn
    with _lock:
        _jobs[job.id] = job
        own = [one.id for one in _jobs.values() if one.actor.organization_id == organization_id]
        for old in own[:-KEPT]:
            del _jobs[old]
    if turn is None:
        job.ended.set()
    else:
        threading.Thread(target=_run, args=(job, turn), name="import", daemon=True).start()
    return job


def find(organization_id: int, job_id: str) -> Job | None:
    with _lock:
        job = _jobs.get(job_id)
    return job if job is not None and job.actor.organization_id == organization_id else None


def _run(job: Job, turn: Turn) -> None:
    _checks.wait(turn)
    try:
        _check(job)
    except EdgeError as error:
        job.trouble = error.fields[0].message if isinstance(error, Invalid) else error.args[0]
    except Exception:
        job.trouble = N_("Internal error: nothing was imported. See the log for details.")
        log.exception("Check of an import failed")
    finally:
        close_database()
        job.table = job.table._replace(rows=job.table.rows[:PREVIEWED])
        job.is_done = True
        _checks.leave(turn)
        job.ended.set()


def _check(job: Job) -> None:
    def progress(number: int) -> None:
        job.progress = number

    job.step = N_("Reading")
    if job.is_workbook or len(job.table.rows) < job.rows:
        _read(job)
    if job.needs_columns:
        job.table = job.table._replace(rows=job.table.rows[:PREVIEWED])
        return
    records = records_of(job.reading, job.table.rows, progress)
    job.table = job.table._replace(rows=job.table.rows[:PREVIEWED])
    job.step = N_("Checking")
    checked = import_kinds.check(job.actor.organization_id, job.kind, records, progress)
    _keep(job, checked)


def _keep(job: Job, checked: import_kinds.Checked) -> None:
    """Keep the result of a check in files, and what the page shows in memory."""
    job.records, job.outcomes = Spilled(checked.records), Spilled(checked.outcomes)
    job.counts = Counter(outcome.result for outcome in checked.outcomes)
    faults = (outcome for outcome in checked.outcomes if outcome.result == FAULTY)
    job.faults = list(islice(faults, SHOWN_FAULTS))
    job.detached = sum(outcome.detached for outcome in checked.outcomes)
    job.cleared = sum(outcome.cleared for outcome in checked.outcomes)


def _read(job: Job) -> None:
    """Read the file, and look for its columns if nobody has chosen them."""
    data, is_certain = job.data, job.table.is_certain
    with WORK.holding(memory_of(data)):
        job.table = read(data, job.table.layout, COLUMNS[job.kind])._replace(is_certain=is_certain)
    job.rows = len(job.table.rows)
    columns = job.reading.columns or known_columns(job.kind, job.table.heading)
    if columns:
        check_columns(job.kind, columns)
        job.reading = job.reading._replace(columns=columns)
