"""Imports of many rows: written in slices, each row exactly once, also after a stop."""

from __future__ import annotations

import json

import pytest

from edge.audit import actors, quotas
from edge.audit.actors import Actor, shell
from edge.bulk import bulk_jobs, imports, slices
from edge.database import sliced_writing
from edge.database.connection import execute
from edge.errors import Conflict
from edge.people import people
from edge.people.people import Role
from edge.rate_limits import Buckets
from edge.records import csv_import, import_drafts
from edge.records.csv_import import NewRecord
from edge.records.tags import NewTag
from edge.tracking import deletion
from tests.conftest import Cast

ROWS = [NewRecord(n, f"K-{n}", {"name": f"Box {n}"}, [NewTag("rfid", f"AA{n:02}")]) for n in range(2, 50)]


class Killed(BaseException):
    pass


@pytest.fixture
def ed(cast: Cast) -> Actor:
    person = people.add_person(shell(cast.acme), "Ed", Role.EDITOR)
    return actors.person(cast.acme, person.id, person.name)


def count(table: str) -> int:
    number: int = execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return number


def test_a_kill_between_any_two_slices_writes_each_row_exactly_once(ed: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(imports, "TOGETHER", 20)
    job_id = imports.start(ed, "asset", ROWS, len(ROWS))
    write, written = csv_import.write_records, []

    def write_and_die(*args: object) -> None:
        write(*args)  # type: ignore[arg-type]
        raise Killed

    while bulk_jobs.running_job(ed.organization_id):
        before = count("asset")
        monkeypatch.setattr(csv_import, "write_records", write_and_die)
        with pytest.raises(Killed):
            slices.run_jobs(lambda _: False)
        assert count("asset") == before
        monkeypatch.setattr(csv_import, "write_records", write)
        slices.run_jobs(lambda _: True)  # ends after one slice
        written.append(count("asset") - before)
    assert written == [20, 20, 8]
    job = bulk_jobs.find_job(ed.organization_id, job_id)
    assert job
    assert (job.end_reason, imports.counts(job)["created"], count("tag")) == (None, 48, 48)


def test_a_kill_while_rows_are_stored_changes_nothing_and_says_so(ed: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliced_writing, "ROWS_OF_STEP", 10)
    stored = imports._to_json
    monkeypatch.setattr(imports, "_to_json", lambda record: stored(record) if record.line < 30 else die())

    def die() -> str:
        raise Killed

    with pytest.raises(Killed):
        imports.start(ed, "asset", ROWS, len(ROWS))
    slices.run_jobs(lambda _: False)
    [job_id] = execute("SELECT id FROM bulk_job").fetchone()
    job = bulk_jobs.find_job(ed.organization_id, job_id)
    assert job
    assert job.end_reason == "the service stopped before the import began: nothing was imported"
    assert count("asset") == 0


def test_an_import_over_its_quota_continues_as_the_quota_refills(ed: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: each refused slice used up what had been refilled, so the import never went on."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(imports, "TOGETHER", 20)
    monkeypatch.setattr(quotas, "_of_caller", Buckets(150_000, 20_000))
    metadata = json.dumps({"note": "x" * 1000})
    rows = [NewRecord(n, None, {"name": f"Box {n}", "metadata": metadata}) for n in range(100)]
    imports.start(ed, "asset", rows, len(rows))
    slices.run_jobs(lambda _: False)
    assert 0 < count("asset") < 100
    for _ in range(20):
        quotas.restore_usage(quotas.usage(), 1)  # a second later
        slices.run_jobs(lambda _: False)
    assert count("asset") == 100


def test_a_row_that_fails_is_left_out_and_others_are_written(ed: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    attach = import_drafts.write

    def fail(act: object, kind: object, drafts: list[import_drafts.Draft]) -> None:
        if any(draft.after.external_key == "K-7" for draft in drafts):
            raise RuntimeError("broken")
        attach(act, kind, drafts)  # type: ignore[arg-type]

    monkeypatch.setattr(import_drafts, "write", fail)
    job_id = imports.start(ed, "asset", ROWS, len(ROWS))
    slices.run_jobs(lambda _: False)
    job = bulk_jobs.find_job(ed.organization_id, job_id)
    assert job
    assert imports.counts(job) == {"created": 47, "faulty": 1}
    assert [(row.external_key, row.reason) for row in imports.rows(job, is_faulty=True)] == [
        ("K-7", "internal error; see the log")
    ]


def test_a_stopped_import_names_the_rows_that_are_left(ed: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(imports, "TOGETHER", 20)
    job_id = imports.start(ed, "asset", ROWS, len(ROWS))
    with pytest.raises(Conflict, match="Another change or import"):
        imports.start(ed, "asset", ROWS, len(ROWS))
    slices.run_jobs(lambda _: True)
    bulk_jobs.stop(ed, job_id)
    job = bulk_jobs.find_job(ed.organization_id, job_id)
    assert job
    left = list(imports.rows(job, is_faulty=True))
    assert (bulk_jobs.progress(job).failed, len(left), left[0].reason) == (28, 28, imports.STOPPED)


def test_imports_are_bounded_and_expire(ed: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "KEPT", 2)
    for _ in range(4):
        imports.start(ed, "asset", ROWS, 0)
        slices.run_jobs(lambda _: False)
    assert (count("bulk_job"), count("bulk_job_row")) == (2, 96)
    while deletion.drop_expired(2**62, 50):
        pass
    assert (count("bulk_job"), count("bulk_job_row")) == (0, 0)


def test_rows_with_many_tags_are_written_in_small_slices(ed: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    """50 rows with 500 tags each kept all other writers waiting for a minute."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    numbers = iter(range(10_000))
    many = [imports.WRITTEN_TOGETHER - 2, 1, 1, imports.WRITTEN_TOGETHER * 2, 0, 0]
    rows = [
        NewRecord(line, f"K-{line}", {"name": "Box"}, [NewTag("rfid", f"{next(numbers):06}") for _ in range(number)])
        for line, number in enumerate(many, 2)
    ]
    job = bulk_jobs.find_job(ed.organization_id, imports.start(ed, "asset", rows, len(rows)))
    assert job
    assert len(imports.next_codes(job, 200)) == 200, "no more than fit into the cache"
    written = []
    while bulk_jobs.running_job(ed.organization_id):
        before = count("asset")
        slices.run_jobs(lambda _: True)
        written.append(count("asset") - before)
    assert written == [1, 2, 1, 2]
