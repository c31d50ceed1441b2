"""Of several machines with a copy of the same hub, one writes to PostgreSQL: the one that took over last."""

from __future__ import annotations

import copy
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest

from edge.database.connection import close_database
from edge.errors import HistoryUnavailable
from edge.operations import backup
from edge.operations.doctor import sync as doctor
from edge.runtime.readiness import check_history
from edge.sync import worker
from edge.sync.sender import LinkError
from edge.sync.store import hub_link, state
from edge.tracking import deletion, history_engine, hub_marks
from edge.tracking.postgres import batches, labels, pool, writers
from edge.tracking.postgres.bounded import Connection
from tests.manual.documents import marked
from tests.service import ROOT
from tests.sync.http import Connected
from tests.sync.world import EPOCH, HOUR, Hub, Kill, SiteBox, assert_digests, assert_equal
from tests.tracking.postgres.conftest import move
from tests.tracking.postgres.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

ELSEWHERE = "another machine writes there as this hub"


@pytest.fixture
def hub(sites: list[SiteBox], postgres_server: Server) -> Hub:
    """A hub whose history is in PostgreSQL, and which has started with it."""
    moved, url = sites[0].hub, postgres_server.new_url()
    with moved.in_use():
        move(moved, url)
    moved.history = url
    for number, site in enumerate(sites):
        scan(site, f"P-6{number}", 40)
        site.sync()
    return moved


def check(hub: Hub) -> None:
    """Start the hub and use its history. Raises HistoryUnavailable."""
    with hub.in_use():
        history_engine.check_reachable()


def second_machine(hub: Hub, folder: Path, *, with_marks: bool = False) -> Hub:
    """Return another machine with a backup of the hub, or with a copy of its disk."""
    other = copy.copy(hub)
    other.folder = folder
    if with_marks:
        close_database()
        shutil.copytree(hub.folder, folder)
    else:
        file = hub.back_up()
        backup.restore_backup(hub.actor, file, folder)
    return other


def take_over(hub: Hub) -> None:
    settings = ["--set", f"data_dir={hub.folder}", "--set", f"hub.history={hub.history}"]
    [line] = marked("run:postgresql-take-over").lines
    command = [sys.executable, "-m", "edge", *settings, *line.split()[2:], "--yes"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "This machine writes to PostgreSQL now. Another one with the same hub is refused.\n"


def scan(site: SiteBox, name: str, hours: int) -> None:
    site.scan(site.add_asset(name), 0, EPOCH + hours * HOUR)


def test_a_backup_on_a_second_machine_does_not_write(hub: Hub, sites: list[SiteBox], tmp_path: Path) -> None:
    other = second_machine(hub, tmp_path / "second")
    for _ in range(2):  # the second time with a file of marks
        with other.in_use():
            with pytest.raises(HistoryUnavailable, match=ELSEWHERE):
                history_engine.check_reachable()
            assert "run here: edge hub take-over" in history_engine.why_away()
            assert deletion.drop_history(EPOCH + 99 * HOUR) == 0
    scan(sites[0], "P-8", 50)
    sites[0].sync()
    assert_equal(sites[0])


def test_the_replaced_machine_is_refused_in_its_next_batch_and_says_so(
    hub: Hub, sites: list[SiteBox], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site, other = sites[0], second_machine(hub, tmp_path / "second")
    with hub.in_use():
        history_engine.check_reachable()
        take_over(other)
        before = hub.rows("SELECT count(*) FROM temp.history")
        with pytest.raises(HistoryUnavailable, match=ELSEWHERE), batches.transaction(checks_writer=False):
            batches.lock_site(site.site_no)
        for _ in range(5):
            with pytest.raises(HistoryUnavailable, match=ELSEWHERE):
                history_engine.check_reachable()
        assert hub.rows("SELECT count(*) FROM temp.history") == before
        lines = [record.getMessage() for record in caplog.records if record.name == pool.__name__]
        assert len([line for line in lines if "nother machine" in line]) == len(lines) <= 2
    scan(site, "P-8", 50)
    with pytest.raises(LinkError, match=f"{ELSEWHERE}.* run: edge hub take-over"):  # the site shows this
        site.sync()
    site.hub = other
    site.settle()
    assert_equal(site)


def test_all_three_places_tell_the_command_after_the_files_were_copied_back(
    hub: Hub, sites: list[SiteBox], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site, command = sites[0], "run here: edge hub take-over"
    connected = Connected(site)
    with site.in_use():
        hub_link.renew_key(site.actor, hub_link.HubAccess("https://hub", site.name, "The hub", "key"))
    site.settle()
    close_database()
    shutil.copytree(hub.folder, tmp_path / "copy")
    check(hub)  # the service starts again, and its files are copied back afterwards
    shutil.rmtree(hub.folder)
    shutil.copytree(tmp_path / "copy", hub.folder)
    scan(site, "P-8", 50)
    report(site, connected, monkeypatch)
    lines = [record.getMessage() for record in caplog.records if record.name == pool.__name__]
    assert any(command in line for line in lines)
    with hub.in_use():
        with pytest.raises(HistoryUnavailable):
            history_engine.check_reachable()
        assert command in check_history().detail
        assert command in doctor.history_database(examined(hub)).text
    with site.in_use():
        for told in (doctor.upstream(examined(site)).text, state.site_trouble()):
            assert "run: edge hub take-over" in told
    take_over(hub)
    report(site, connected, monkeypatch)
    with site.in_use():
        assert state.site_trouble() == ""
    site.settle()
    assert_equal(site)


def examined(box: Hub | SiteBox) -> doctor.Subject:
    (box.folder / doctor.SECRET).touch()
    config = SimpleNamespace(hub_history=box.history if isinstance(box, Hub) else "")
    values = SimpleNamespace(data_dir=box.folder, config=config)
    return cast("doctor.Subject", values)


def report(site: SiteBox, connected: Connected, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the site's service report once to its hub, over the hub's API."""
    monkeypatch.setattr(worker, "HubClient", lambda *_: connected.client)
    monkeypatch.setattr(worker.files, "read", lambda _: ("", None))
    syncing = worker.SyncWorker(site.folder, worker.SyncPace(1, 0, 14), lambda: False)
    with site.in_use():
        syncing.work()


@pytest.mark.parametrize(
    "write",
    [
        lambda: labels.make_equal(labels.TRACKS, [(1, "Acme", "BER", "P", "Pallet")], 1, 1),
        lambda: batches.drop_before([1], EPOCH + 99 * HOUR, 1),
        lambda: batches.note_cursor(1, ["epoch", 1, ""]),
        lambda: batches.committed(1),
        lambda: batches.drop_newer([(1, EPOCH, 0)]),
        lambda: batches.drop_tracks([1]),
        lambda: batches.forget_dropped([1]),
        lambda: history_engine.moving.bring_back(),
    ],
)
def test_every_write_of_a_replaced_machine_is_refused(write: Callable[[], object], hub: Hub, tmp_path: Path) -> None:
    other = second_machine(hub, tmp_path / "second")
    with hub.in_use():
        history_engine.check_reachable()
        replace(hub)
        rows = contents(hub)
        with pytest.raises(HistoryUnavailable, match=ELSEWHERE):
            write()
        assert contents(hub) == rows
    assert other


def replace(hub: Hub) -> None:
    """Let another machine take over."""
    with closing(psycopg.connect(hub.history, autocommit=True)) as connection:
        connection.execute("UPDATE hub_writer SET mark = 'other', machine = 'other'")
        connection.execute("UPDATE site_cursor SET writer = 'other'")


def contents(hub: Hub) -> list[object]:
    with closing(psycopg.connect(hub.history, autocommit=True)) as connection:
        return [
            connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2".encode()).fetchall()
            for table in ("stay", "site_cursor", "track_label", "edge_history")
        ]


def test_the_first_batch_of_a_new_site_is_refused_as_well(hub: Hub) -> None:
    with hub.in_use():
        history_engine.check_reachable()
        replace(hub)
        with pytest.raises(HistoryUnavailable, match=ELSEWHERE), batches.transaction(checks_writer=False):
            batches.lock_site(99)


def test_a_takeover_waits_for_a_batch_in_progress(hub: Hub, sites: list[SiteBox]) -> None:
    sites[0].sync()
    hub.history += "?options=-c%20lock_timeout%3D300"
    with hub.in_use(), closing(psycopg.connect(hub.history)) as other:
        other.execute("SELECT 1 FROM site_cursor FOR UPDATE")
        with pytest.raises(HistoryUnavailable, match="is busy"):
            history_engine.moving.take_over()
        other.rollback()
        history_engine.moving.take_over()


def test_the_first_machine_continues_by_itself_after_it_has_taken_over_again(
    hub: Hub, sites: list[SiteBox], tmp_path: Path
) -> None:
    """Meanwhile the other one has deleted stays of assets that its backup did not have, also of the other site."""
    other = second_machine(hub, tmp_path / "second")
    for number, site in enumerate(sites):
        scan(site, f"P-8{number}", 50)
        site.settle()
    take_over(other)
    sites[0].hub = other
    scan(sites[0], "P-9", 60)
    sites[0].settle()
    assert_equal(sites[0])
    with hub.in_use(), pytest.raises(HistoryUnavailable, match=ELSEWHERE):
        history_engine.check_reachable()
    with hub.in_use():
        with pytest.raises(HistoryUnavailable):
            history_engine.check_reachable()
        take_over(hub)
        pool._next_attempt = 0.0  # instead of waiting
        history_engine.check_reachable()
        assert history_engine.why_away() == ""
    for site in sites:
        site.hub = hub
        with site.in_use():
            hub_link.update(verify_wanted=1)  # as every night
        site.settle()
    assert_digests(hub)
    for site in sites:
        assert_equal(site)


def test_after_a_takeover_all_days_are_compared_again(hub: Hub, sites: list[SiteBox]) -> None:
    """The hub compared stored digests of days that the other machine may have changed."""
    digests = "SELECT count(*) FROM history_digest"
    with sites[0].in_use():
        hub_link.update(verify_wanted=1)
    sites[0].settle()
    assert hub.rows(digests) > [(0,)]
    take_over(hub)
    assert hub.rows(digests) == [(0,)]


def test_of_two_copies_of_a_disk_the_one_that_started_last_writes(
    hub: Hub, sites: list[SiteBox], tmp_path: Path
) -> None:
    other = second_machine(hub, tmp_path / "second", with_marks=True)
    check(hub)
    with pytest.raises(HistoryUnavailable, match=ELSEWHERE):
        check(other)
    check(hub)
    other = second_machine(hub, tmp_path / "third", with_marks=True)
    check(other)
    with pytest.raises(HistoryUnavailable, match=ELSEWHERE):
        check(hub)


def test_a_restart_a_restore_and_an_older_database_need_no_command(
    hub: Hub, sites: list[SiteBox], postgres_server: Server
) -> None:
    file = hub.back_up()
    check(hub)
    pool.close()
    older = postgres_server.copy(hub.history)
    check(hub)
    hub.restore(file)
    check(hub)
    pool.close()
    hub.history = older
    check(hub)
    sites[0].settle()


def test_a_crash_while_a_machine_takes_its_mark_does_not_lock_it_out(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies after the mark is in the file, or after PostgreSQL has it, too."""
    add = hub_marks.add

    def die_before(file: Path, mark: str) -> None:
        add(file, mark)
        raise Kill

    def die_after(connection: Connection) -> None:
        writers.admit(connection)
        raise Kill

    with monkeypatch.context() as patched:
        patched.setattr(hub_marks, "add", die_before)
        with pytest.raises(Kill):
            check(hub)
    check(hub)
    with hub.in_use(), pytest.raises(Kill), pool.connected(die_after):
        pass
    check(hub)


def test_commands_use_the_mark_of_the_service(hub: Hub) -> None:
    with hub.in_use():
        history_engine.check_reachable()
        marks = hub_marks.known(hub.folder / hub_marks.FILE_NAME)
    history_engine.close()
    with hub.in_use():
        history_engine.use(hub.history, history_engine.this_hub())
        history_engine.check_reachable()
        labels.refresh(lambda _: False)
        assert hub_marks.known(hub.folder / hub_marks.FILE_NAME) == marks
        assert writers._mark == marks[-1]


def test_tables_of_an_earlier_release_get_the_writer(hub: Hub, sites: list[SiteBox]) -> None:
    pool.close()
    with closing(psycopg.connect(hub.history, autocommit=True)) as connection:
        connection.execute("DROP TABLE hub_writer")
        connection.execute("ALTER TABLE site_cursor DROP COLUMN writer")
        connection.execute("DROP INDEX stay_newest")
    scan(sites[0], "P-8", 50)
    sites[0].sync()
    assert_equal(sites[0])
    with closing(psycopg.connect(sites[0].hub.history)) as connection:
        assert connection.execute("SELECT to_regclass('stay_newest') IS NOT NULL").fetchone() == (True,)


def test_the_file_of_marks_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_marks, "KEPT", 3)
    for number in range(20):
        hub_marks.add(tmp_path / "marks", f"{number:02}")
    known = hub_marks.known(tmp_path / "marks")
    assert known[-3:] == ["17", "18", "19"]
    assert len(known) <= 6
