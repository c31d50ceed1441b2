"""Changes of many assets: all are checked first, each is changed exactly once, and others can write meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from edge import clock
from edge.audit import actors, quotas, trail
from edge.audit.actors import Actor, shell
from edge.audit.trail import AuditFilter
from edge.bulk import asset_changes, bulk_jobs, slices
from edge.bulk.asset_changes import Action, BulkChange
from edge.bulk.bulk_jobs import MAX_ASSETS, BulkJob, Refused
from edge.database import sliced_writing
from edge.database.connection import execute, writing
from edge.errors import Conflict, Invalid, OverQuota, Unavailable
from edge.people import people
from edge.people.people import Role
from edge.records import assets, locations
from edge.records.assets import AssetRow
from edge.records.locations import LocationRow
from edge.records.tags import NewTag
from edge.tracking import deletion, report
from edge.validation.values import MAX_METADATA_BYTES
from tests.conftest import Cast
from tests.observed import scans_by_people

RETIRE, RESTORE = BulkChange(Action.RETIRE), BulkChange(Action.RESTORE)


@pytest.fixture
def ed(cast: Cast) -> Actor:
    person = people.add_person(shell(cast.acme), "Ed", Role.EDITOR)
    return actors.person(cast.acme, person.id, person.name)


@pytest.fixture
def dock(cast: Cast) -> LocationRow:
    return locations.create(shell(cast.acme), name="Dock", external_key="DOCK")


@pytest.fixture
def pallets(cast: Cast) -> list[AssetRow]:
    return [assets.create(shell(cast.acme), name=f"Pallet {number}", metadata='{"a":1.50}') for number in range(6)]


def ids_of(rows: Sequence[AssetRow]) -> list[int]:
    return [row.id for row in rows]


def run(actor: Actor, change: BulkChange, asset_ids: Sequence[int]) -> BulkJob:
    job_id = bulk_jobs.start(actor, change, asset_ids)
    slices.run_jobs(lambda _: False)
    return job_of(actor, job_id)


def job_of(actor: Actor, job_id: str) -> BulkJob:
    job = bulk_jobs.find_job(actor.organization_id, job_id)
    assert job is not None
    return job


def refusals(actor: Actor, change: BulkChange, asset_ids: Sequence[int]) -> list[tuple[str, str]]:
    with pytest.raises(Refused) as refused:
        bulk_jobs.start(actor, change, asset_ids)
    assert bulk_jobs.running_job(actor.organization_id) is None
    return [(fault.name, fault.reason) for fault in refused.value.faults]


def keep_elsewhere(asset_id: int) -> None:
    with writing():
        execute("INSERT INTO mirror (record_id, peer, home) VALUES (?, 1, 'Hamburg')", (asset_id,))


def entries(actor: Actor, action: str) -> list[trail.AuditRow]:
    rows = trail.list_page(actor.organization_id, AuditFilter(), limit=100).rows
    return [row for row in rows if row.action == action]


def test_a_move_is_a_scan_by_the_person(ed: Actor, dock: LocationRow, pallets: list[AssetRow]) -> None:
    job = run(ed, BulkChange(Action.MOVE, dock.id), ids_of(pallets))
    assert bulk_jobs.progress(job) == (6, 0, 0)
    assert job.finished_at is not None
    assert job.end_reason is None
    for row in pallets:
        position = report.current_position(row.id)
        assert position is not None
        assert (position.location_id, position.last_seen_at) == (dock.id, job.created_at)
    scans = execute("SELECT DISTINCT person_id, outcome, location_id FROM handheld_scan").fetchall()
    assert scans == [(ed.person_id, "recorded", dock.id)]


def test_fields_change_by_the_function_for_one_asset(ed: Actor, pallets: list[AssetRow]) -> None:
    until = clock.now() + clock.DAY
    for field, value in (("description", "wet"), ("is_active", False), ("valid_to", until)):
        run(ed, BulkChange(Action.CHANGE, None, field, value), ids_of(pallets))
    run(ed, BulkChange(Action.CHANGE, None, "color", "red", is_property=True), ids_of(pallets))
    row = assets.get(ed.organization_id, pallets[0].id)
    assert (row.description, bool(row.is_active), row.valid_to) == ("wet", False, until)
    assert row.metadata == '{"a":1.50,"color":"red"}'  # other properties as they were written
    run(ed, BulkChange(Action.CHANGE, None, "a", None, is_property=True), ids_of(pallets))
    run(ed, BulkChange(Action.CHANGE, None, "description", None), ids_of(pallets))
    row = assets.get(ed.organization_id, pallets[0].id)
    assert (row.description, row.metadata) == (None, '{"color":"red"}')
    changes = [entry for entry in entries(ed, "asset.changed") if entry.subject_id == str(row.id)]
    assert len(changes) == 6
    assert {entry.actor_name for entry in changes} == {"Ed"}


def test_assets_are_retired_and_restored(ed: Actor, pallets: list[AssetRow]) -> None:
    run(ed, RETIRE, ids_of(pallets))
    assert all(assets.get_any(ed.organization_id, row.id).deleted_at for row in pallets)
    run(ed, RESTORE, ids_of(pallets))
    assert not any(assets.get_any(ed.organization_id, row.id).deleted_at for row in pallets)
    started, ended = entries(ed, "bulk_change.started"), entries(ed, "bulk_change.ended")
    assert [entry.detail["action"] for entry in started] == ["restore", "retire"]
    assert [(entry.detail["changed"], entry.detail["not_changed"]) for entry in ended] == [(6, 0), (6, 0)]


def test_all_assets_are_checked_before_the_first_is_changed(
    ed: Actor, cast: Cast, dock: LocationRow, pallets: list[AssetRow]
) -> None:
    elsewhere, retired = pallets[1], pallets[4]
    keep_elsewhere(elsewhere.id)
    assets.delete(ed, retired.id)
    stranger = assets.create(shell(cast.rival), name="Stranger")
    kept = (elsewhere.name, "this record is kept at Hamburg; change it there")
    gone, unknown = (retired.name, asset_changes.RETIRED), ("", "asset not found")
    ids = [*ids_of(pallets), stranger.id]
    assert refusals(ed, RETIRE, ids) == [kept, gone, unknown]
    assert refusals(ed, BulkChange(Action.CHANGE, None, "is_active", False), ids) == [kept, gone, unknown]
    assert refusals(ed, BulkChange(Action.MOVE, dock.id), ids) == [gone, unknown]  # can be scanned anywhere
    assert refusals(ed, RESTORE, [pallets[0].id, retired.id]) == [(pallets[0].name, asset_changes.NOT_RETIRED)]
    assert assets.get(ed.organization_id, pallets[0].id).is_active
    assert scans_by_people() == 0


def test_values_that_only_some_assets_refuse_are_found_before(ed: Actor, cast: Cast, pallets: list[AssetRow]) -> None:
    now = clock.now()
    later = assets.create(shell(cast.acme), name="Later", valid_from=now + clock.DAY)
    full = assets.create(shell(cast.acme), name="Full", metadata=f'{{"a":"{"x" * 65_000}"}}')
    ids = [*ids_of(pallets), later.id, full.id]
    reason = "valid_to must be later than valid_from"
    assert refusals(ed, BulkChange(Action.CHANGE, None, "valid_to", now + clock.HOUR), ids) == [("Later", reason)]
    [(name, reason)] = refusals(ed, BulkChange(Action.CHANGE, None, "b", "y" * 1000, is_property=True), ids)
    assert name == "Full"
    assert "65536 bytes" in reason


def test_few_assets_are_read_at_once(ed: Actor, pallets: list[AssetRow], monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata of 10,000 assets can have 640 MB, more than the box gives the service."""
    lengths: list[int] = []
    monkeypatch.setattr(asset_changes, "TOGETHER", 4)
    read = asset_changes._rows

    def counted(organization_id: int, change: BulkChange, asset_ids: Sequence[int]) -> dict[int, asset_changes._Row]:
        lengths.append(len(asset_ids))
        return read(organization_id, change, asset_ids)

    monkeypatch.setattr(asset_changes, "_rows", counted)
    run(ed, BulkChange(Action.CHANGE, None, "color", "red", is_property=True), ids_of(pallets))
    assert lengths == [4, 2]
    assert {assets.get(ed.organization_id, one.id).metadata for one in pallets} == {'{"a":1.50,"color":"red"}'}


def test_a_property_that_fits_no_asset_is_refused_at_once(ed: Actor, pallets: list[AssetRow]) -> None:
    """Trying a megabyte for each of 10,000 assets would take minutes."""
    for name, value in (("x" * MAX_METADATA_BYTES, "1"), ("x", "1" * MAX_METADATA_BYTES)):
        with pytest.raises(Invalid):
            bulk_jobs.start(ed, BulkChange(Action.CHANGE, None, name, value, is_property=True), ids_of(pallets))


def test_a_taken_key_or_tag_is_found_before_a_restoration(ed: Actor) -> None:
    def retired(key: str, *values: str) -> AssetRow:
        row = assets.create(ed, name=key, external_key=key, tags=[NewTag("barcode", value) for value in values])
        assets.delete(ed, row.id)
        return row

    old, twin, tagged = retired("K-1"), retired("K-1"), retired("K-2", "T-1")
    assert refusals(ed, RESTORE, [old.id, twin.id]) == [("K-1", "Another of the chosen assets has the same key or tag")]
    assets.create(ed, name="New", external_key="K-1", tags=[NewTag("barcode", "T-1")])
    assert refusals(ed, RESTORE, [old.id, tagged.id]) == [
        ("K-1", "Another asset now has the key K-1"),
        ("K-2", "The tag barcode:T-1 now belongs to another record"),
    ]


def test_a_kill_between_any_two_slices_changes_each_asset_exactly_once(
    ed: Actor, dock: LocationRow, pallets: list[AssetRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice is killed once before its commit and once after it."""
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)  # one asset in a slice
    job_id = bulk_jobs.start(ed, BulkChange(Action.MOVE, dock.id), ids_of(pallets))
    apply, kills = asset_changes.apply, 0

    class Killed(BaseException):
        pass

    def apply_and_die(*args: object) -> None:
        apply(*args)  # type: ignore[arg-type]
        raise Killed

    while (job := job_of(ed, job_id)).finished_at is None:
        before = bulk_jobs.progress(job)
        monkeypatch.setattr(asset_changes, "apply", apply_and_die)
        with pytest.raises(Killed):
            slices.run_jobs(lambda _: False)
        assert bulk_jobs.progress(job) == before
        monkeypatch.setattr(asset_changes, "apply", apply)
        slices.run_jobs(lambda _: True)  # ends after one slice
        assert bulk_jobs.progress(job).changed == before.changed + 1
        kills += 1
    assert kills == len(pallets)
    rows = "SELECT asset_id, count(*) FROM handheld_scan GROUP BY asset_id"
    assert dict(execute(rows).fetchall()) == {row.id: 1 for row in pallets}
    stays = "SELECT count(*) FROM history"
    assert execute(stays).fetchone() == (len(pallets),)


def test_a_change_interrupted_between_slices_has_one_entry_for_each_asset(
    ed: Actor, pallets: list[AssetRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    bulk_jobs.start(ed, RETIRE, ids_of(pallets))
    while bulk_jobs.running_job(ed.organization_id):
        slices.run_jobs(lambda _: True)
    assert sorted(entry.subject_id or "" for entry in entries(ed, "asset.deleted")) == sorted(
        str(row.id) for row in pallets
    )


def test_a_slice_ends_in_time(
    ed: Actor, dock: LocationRow, pallets: list[AssetRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = bulk_jobs.start(ed, BulkChange(Action.MOVE, dock.id), ids_of(pallets))
    apply, passed = asset_changes.apply, [0.0]

    def slowly(*args: object) -> None:
        passed[0] += 0.03
        apply(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(asset_changes, "apply", slowly)
    monkeypatch.setattr(slices, "time", SimpleNamespace(monotonic=lambda: passed[0]))
    slices.write_slice(job_of(ed, job_id))
    assert bulk_jobs.progress(job_of(ed, job_id)).tried == 2


def test_slices_get_shorter_while_the_disk_is_slow() -> None:
    assert sliced_writing.next_length(0.05, 0.15) == 0.05
    assert sliced_writing.next_length(0.05, 0.25) == 0.025
    assert sliced_writing.next_length(0.025, 0.1) == pytest.approx(0.0275)
    assert sliced_writing.next_length(0.01, 9.0) == sliced_writing.SHORTEST_SECONDS


def test_an_asset_that_changed_since_the_check_is_left_with_its_reason(ed: Actor, pallets: list[AssetRow]) -> None:
    job_id = bulk_jobs.start(ed, RETIRE, ids_of(pallets))
    assets.delete(ed, pallets[2].id)
    slices.run_jobs(lambda _: False)
    job = job_of(ed, job_id)
    assert bulk_jobs.progress(job) == (6, 1, 0)
    [fault] = bulk_jobs.failures(job, 10)
    assert (fault.asset_id, fault.reason) == (pallets[2].id, "asset not found")


def test_a_location_retired_since_the_check_moves_nothing(
    ed: Actor, dock: LocationRow, pallets: list[AssetRow]
) -> None:
    job_id = bulk_jobs.start(ed, BulkChange(Action.MOVE, dock.id), ids_of(pallets))
    locations.delete(shell(ed.organization_id), dock.id)
    slices.run_jobs(lambda _: False)
    assert {fault.reason for fault in bulk_jobs.failures(job_of(ed, job_id), 10)} == {"the location is retired"}
    assert report.current_position(pallets[0].id) is None


def test_an_unexpected_error_in_one_asset_does_not_stop_the_others(
    ed: Actor, pallets: list[AssetRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, poison = asset_changes.apply, pallets[3].id

    def fail(*args: object) -> None:
        apply(*args)  # type: ignore[arg-type]
        if args[-1] == poison:
            raise ZeroDivisionError

    monkeypatch.setattr(asset_changes, "apply", fail)
    job = run(ed, RETIRE, ids_of(pallets))
    assert [(fault.asset_id, fault.reason) for fault in bulk_jobs.failures(job, 10)] == [
        (poison, bulk_jobs.INTERNAL_ERROR)
    ]
    assert assets.get(ed.organization_id, poison).deleted_at is None


@pytest.mark.parametrize("error", [OverQuota(5), Unavailable("full")])
def test_a_job_waits_for_quota_and_disk(
    ed: Actor, pallets: list[AssetRow], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    job_id = bulk_jobs.start(ed, RETIRE, ids_of(pallets))
    apply = asset_changes.apply

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(asset_changes, "apply", refuse)
    if isinstance(error, OverQuota):
        slices.run_jobs(lambda _: False)
    else:
        with pytest.raises(Unavailable):
            slices.run_jobs(lambda _: False)
    assert bulk_jobs.progress(job_of(ed, job_id)).remaining == 6
    monkeypatch.setattr(asset_changes, "apply", apply)
    slices.run_jobs(lambda _: False)
    assert bulk_jobs.progress(job_of(ed, job_id)).changed == 6


def test_a_stopped_job_changes_nothing_more(
    ed: Actor, pallets: list[AssetRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    job_id = bulk_jobs.start(ed, RETIRE, ids_of(pallets))
    slices.run_jobs(lambda _: True)
    stale = job_of(ed, job_id)
    bulk_jobs.stop(ed, job_id)
    slices.write_slice(stale)
    job = job_of(ed, job_id)
    assert (job.end_reason, bulk_jobs.progress(job).changed) == ("stopped by Ed", 1)
    assert {fault.reason for fault in bulk_jobs.failures(job, 10)} == {bulk_jobs.STOPPED}


def test_a_job_ends_when_its_person_may_no_longer_change_assets(ed: Actor, pallets: list[AssetRow]) -> None:
    job_id = bulk_jobs.start(ed, RETIRE, ids_of(pallets))
    people.update_person(shell(ed.organization_id), ed.person_id or 0, role=Role.OPERATOR)
    slices.run_jobs(lambda _: False)
    job = job_of(ed, job_id)
    assert job.end_reason == "Ed may no longer change assets"
    assert bulk_jobs.progress(job).changed == 0


def test_one_job_runs_in_an_organization(ed: Actor, cast: Cast, pallets: list[AssetRow]) -> None:
    job_id = bulk_jobs.start(ed, RETIRE, ids_of(pallets))
    with pytest.raises(Conflict, match="Another change or import is running"):
        bulk_jobs.start(ed, RETIRE, ids_of(pallets))
    rival = people.add_person(shell(cast.rival), "Rita", Role.EDITOR)
    rita = actors.person(cast.rival, rival.id, rival.name)
    own = assets.create(rita, name="Cage")
    own_job = bulk_jobs.start(rita, RETIRE, [own.id])
    assert bulk_jobs.find_job(cast.rival, job_id) is None
    bulk_jobs.stop(rita, job_id)
    slices.run_jobs(lambda _: False)
    assert bulk_jobs.progress(job_of(ed, job_id)).changed == 6
    assert bulk_jobs.progress(job_of(rita, own_job)).changed == 1


def test_jobs_are_bounded(ed: Actor, pallets: list[AssetRow], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Invalid, match="1 to 10,000"):
        bulk_jobs.start(ed, RETIRE, range(1, MAX_ASSETS + 2))
    with pytest.raises(Invalid, match="1 to 10,000"):
        bulk_jobs.start(ed, RETIRE, [])
    with pytest.raises(Invalid, match="Only people"):
        bulk_jobs.start(shell(ed.organization_id), RETIRE, ids_of(pallets))
    with pytest.raises(Invalid, match="Choose a location"):
        bulk_jobs.start(ed, BulkChange(Action.MOVE, 1), ids_of(pallets))
    with pytest.raises(Invalid, match="cannot be changed for many"):
        bulk_jobs.start(ed, BulkChange(Action.CHANGE, None, "name", "X"), ids_of(pallets))
    monkeypatch.setattr(bulk_jobs, "KEPT", 3)
    for _ in range(3):
        run(ed, RETIRE, ids_of(pallets[:1]))
        run(ed, RESTORE, ids_of(pallets[:1]))
    assert execute("SELECT count(*) FROM bulk_job").fetchone() == (3,)


def test_a_restoration_must_fit_the_limit_of_assets(
    ed: Actor, pallets: list[AssetRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(ed, RETIRE, ids_of(pallets))
    monkeypatch.setitem(quotas.CAPS, "asset", quotas.CAPS["asset"]._replace(limit=5))
    quotas.forget()
    with pytest.raises(Conflict, match="At most 5 are allowed"):
        bulk_jobs.start(ed, RESTORE, ids_of(pallets))


def test_the_rows_of_an_expired_job_are_deleted_in_steps(ed: Actor, pallets: list[AssetRow]) -> None:
    job_id = bulk_jobs.start(ed, RETIRE, ids_of(pallets))
    bulk_jobs.stop(ed, job_id)
    for left in range(len(pallets) - 1, 0, -1):
        assert deletion.drop_expired(clock.now() + 8 * clock.DAY, limit=1) == 1
        assert execute("SELECT count(*) FROM bulk_job_asset").fetchone() == (left,)
        assert bulk_jobs.find_job(ed.organization_id, job_id)
    assert deletion.drop_expired(clock.now() + 8 * clock.DAY, limit=1) == 2
    assert bulk_jobs.find_job(ed.organization_id, job_id) is None


def test_finished_jobs_expire_with_their_rows(ed: Actor, pallets: list[AssetRow]) -> None:
    job_id = bulk_jobs.start(ed, RETIRE, ids_of(pallets))
    deletion.drop_expired(clock.now() + 30 * clock.DAY)
    assert bulk_jobs.find_job(ed.organization_id, job_id), "a running job stays"
    bulk_jobs.stop(ed, job_id)
    deletion.drop_expired(clock.now() + 6 * clock.DAY)
    assert bulk_jobs.find_job(ed.organization_id, job_id)
    deletion.drop_expired(clock.now() + 8 * clock.DAY)
    assert bulk_jobs.find_job(ed.organization_id, job_id) is None
    assert execute("SELECT count(*) FROM bulk_job_asset").fetchone() == (0,)
