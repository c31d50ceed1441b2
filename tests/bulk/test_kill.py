"""A process that writes jobs is killed with SIGKILL again and again; each row is still written exactly once."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from edge.audit import actors
from edge.audit.actors import shell
from edge.bulk import bulk_jobs, imports
from edge.bulk.asset_changes import Action, BulkChange
from edge.database.connection import database, execute
from edge.people import people
from edge.people.people import Role
from edge.records import locations
from edge.records.csv_import import NewRecord
from edge.records.tags import NewTag
from tests.conftest import Cast
from tests.observed import scanned_assets, scans_by_people

KILLS = 3
WRITER = """
import sys, time
from pathlib import Path
from edge import listeners
from edge.bulk import slices
from edge.database import migrate
listeners.connect()
migrate.migrate(Path(sys.argv[1]))
slices.run_jobs(lambda seconds: time.sleep(seconds) or False)
"""


def write_with_kills(organization_id: int, job_id: str) -> int:
    """Run the job in processes that are killed soon after they have written something. Returns the number of kills."""
    folder, kills = str(Path(database.database).parent), 0
    while True:
        writer = subprocess.Popen([sys.executable, "-c", WRITER, folder])
        job = bulk_jobs.find_job(organization_id, job_id)
        assert job
        before = bulk_jobs.progress(job).tried
        while writer.poll() is None and (kills == KILLS or bulk_jobs.progress(job).tried == before):
            time.sleep(0.002)
        if writer.poll() is not None:
            assert writer.returncode == 0
            return kills
        writer.kill()
        writer.wait()
        kills += 1


@pytest.mark.slow
def test_jobs_survive_sigkill(cast: Cast) -> None:
    person = people.add_person(shell(cast.acme), "Ed", Role.EDITOR)
    ed = actors.person(cast.acme, person.id, person.name)
    dock = locations.create(shell(cast.acme), name="Dock")
    rows = [NewRecord(n, f"K-{n}", {"name": f"Box {n}"}, [NewTag("rfid", f"AA{n:04X}")]) for n in range(2, 1002)]
    assert write_with_kills(cast.acme, imports.start(ed, "asset", rows, len(rows))) == KILLS
    assert execute("SELECT count(*), count(DISTINCT external_key) FROM asset").fetchone() == (1000, 1000)
    assert execute("SELECT count(*) FROM audit WHERE action = 'asset.created'").fetchone() == (1000,)
    ids = [asset_id for (asset_id,) in execute("SELECT id FROM asset").fetchall()]
    assert write_with_kills(cast.acme, bulk_jobs.start(ed, BulkChange(Action.MOVE, dock.id), ids)) == KILLS
    assert (scans_by_people(), scanned_assets()) == (1000, 1000)
    assert execute("SELECT count(*) FROM history").fetchone() == (1000,)
