"""A damaged file: found, and recovered as far as SQLite can.

Tests of edge/ops/integrity.py, edge/store/integrity.py and edge/store/recovery.py.
"""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from edge.errors import Corrupt, Damaged
from edge.ops import integrity
from edge.ops.backup import Kept, make_backup, repair_database
from edge.store import assets, locations, migrate, organizations
from edge.store.actors import service, shell
from edge.store.database import FILE_NAME, close_database, execute, open_database, writing
from edge.store.tags import NewTag

ASSETS = 500


@pytest.fixture
def file(site: Path) -> Path:
    """A closed database with 500 tagged assets, and a backup of it."""
    actor = service(organizations.list_organizations()[0].id)
    with writing():
        locations.create(actor, name="Dock")
        for number in range(ASSETS):
            assets.create(
                actor, name=f"Asset {number}", metadata=f'{{"mark":{number}}}', tags=[NewTag("rfid", f"{number:024X}")]
            )
    execute("PRAGMA wal_checkpoint(TRUNCATE)")
    make_backup(site, site / "backups", Kept(1, 1))
    close_database()
    return site / FILE_NAME


def page_of(file: Path, asset: int) -> int:
    """The leaf that an asset is in."""
    with closing(sqlite3.connect(file)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    return file.read_bytes().index(f'{{"mark":{asset}}}'.encode()) // int(size)


def spoil(file: Path, page: int, content: bytes = b"\0") -> None:
    """Fill a page, as a failing card does."""
    with closing(sqlite3.connect(file)) as connection:
        size = int(connection.execute("PRAGMA page_size").fetchone()[0])
    with file.open("r+b") as damaged:
        damaged.seek(page * size)
        damaged.write((content * size)[:size])


@pytest.mark.parametrize("content", [b"\0", b"\xff\x5a"], ids=["zeroed", "other bytes"])
def test_a_damaged_page_is_found_at_the_start_with_the_way_out(file: Path, content: bytes) -> None:
    integrity.check_at_start(file.parent, file.parent / "backups")
    spoil(file, page_of(file, 250), content)
    with pytest.raises(Damaged, match=r"edge repair, or .*: edge restore .*backups/edge-"):
        integrity.check_at_start(file.parent, file.parent / "backups")


def test_a_file_that_is_no_database_is_found_at_the_start(file: Path) -> None:
    file.write_bytes(b"not a database" * 1000)
    with pytest.raises(Damaged, match="edge repair"):
        integrity.check_at_start(file.parent, file.parent / "none")


def test_a_file_that_was_emptied_is_never_taken_for_a_new_site(site: Path) -> None:
    """As a power cut can leave it."""
    close_database()
    (site / FILE_NAME).write_bytes(b"")
    with pytest.raises(Damaged, match="is damaged: it is empty"):
        integrity.check_at_start(site, site / "backups")
    open_database(site / FILE_NAME)
    with pytest.raises(Damaged, match="is empty"):
        migrate.check_schema(site)


def test_a_start_on_a_full_disk_ends_with_one_sentence(site: Path) -> None:
    close_database()
    serve = [sys.executable, "-m", "edge", f"--set=data_dir={site}", "serve"]
    done = subprocess.run(["prlimit", "--fsize=16384", *serve], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (1, "edge: The disk is full; make room and try again\n")


def test_a_start_undoes_what_a_power_cut_left_half_done_outside_the_wal(file: Path) -> None:
    """Its first start makes a restored file one with a WAL, by way of the journal that it had until then."""
    journal = file.with_name(f"{FILE_NAME}-journal")
    with closing(sqlite3.connect(file, isolation_level=None)) as cut_off:
        cut_off.execute("PRAGMA journal_mode = delete")
        cut_off.execute("PRAGMA cache_size = 1")
        cut_off.execute("BEGIN")
        cut_off.execute("UPDATE asset SET name = 'half' || name")
        on_disk = {path: path.read_bytes() for path in (file, journal)}
        cut_off.execute("ROLLBACK")
    for path, content in on_disk.items():
        path.write_bytes(content)
    integrity.check_at_start(file.parent, file.parent / "backups")
    migrate.migrate(file.parent)
    assert execute("SELECT count(*) FROM asset WHERE name LIKE 'half%'").fetchone() == (0,)


def test_damage_is_found_in_the_background_and_the_service_goes_on(file: Path) -> None:
    check = integrity.BackgroundCheck(file.parent, file.parent / "backups")
    check.run(lambda _: False)
    assert check.check().ok
    spoil(file, page_of(file, 250))
    check.run(lambda _: False)
    assert not check.check().ok
    assert "asset" in check.check().detail
    assert "edge repair" in check.check().detail


def test_what_can_be_read_is_recovered_and_the_rest_is_counted(file: Path) -> None:
    spoil(file, page_of(file, 250))
    before = file.read_bytes()
    repaired = repair_database(shell(), file.parent)
    kept = repaired.recovered.rows["asset"]
    assert repaired.recovered.unreadable == {"asset": 1}
    assert 0.5 * ASSETS < kept < ASSETS
    assert repaired.recovered.rejected["tag"] == ASSETS - kept  # they were attached to assets that are lost
    assert repaired.kept_aside is not None
    assert repaired.kept_aside.read_bytes() == before
    integrity.check_at_start(file.parent, file.parent / "backups")
    migrate.migrate(file.parent)
    actor = service(organizations.list_organizations()[0].id)
    again = assets.create(actor, name="New", tags=[NewTag("rfid", "AA")])
    assert again.id not in {row[0] for row in execute("SELECT id FROM asset WHERE name LIKE 'Asset%'")}
    assert execute("SELECT count(*) FROM searchable").fetchone()[0] >= kept


def test_a_sound_database_loses_nothing_by_a_repair(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE asset SET name = 'deleted' WHERE rowid % 50 = 0")
        connection.commit()
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        known = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    recovered = repair_database(shell(), file.parent).recovered
    assert (recovered.rejected, recovered.unreadable) == ({}, {})
    assert {table: known[table] for table in recovered.rows} == recovered.rows
    assert recovered.rows["tag"] == ASSETS


def test_what_cannot_be_recovered_at_all_changes_nothing(file: Path) -> None:
    file.write_bytes(b"not a database" * 1000)
    before = sorted(path.name for path in file.parent.iterdir())
    with pytest.raises(Corrupt, match="edge restore"):
        repair_database(shell(), file.parent)
    assert sorted(path.name for path in file.parent.iterdir()) == before
