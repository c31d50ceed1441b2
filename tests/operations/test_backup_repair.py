"""Detection and repair of a damaged database."""

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edge.audit.actors import service, shell
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute, open_database, writing
from edge.database.page_file import PageFile
from edge.database.page_trees import Forest, schema_rows
from edge.errors import Corrupt, Damaged
from edge.operations import integrity
from edge.operations.backup import Rotation, make_backup, repair_database
from edge.people import organizations
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.operations import damage
from tests.operations.conftest import fresh_site

pytestmark = pytest.mark.slow

ASSETS = 500


@pytest.fixture(scope="module")
def closed_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a closed database with 500 tagged assets and a backup. Making it takes seconds, so each test gets a copy."""
    folder = tmp_path_factory.mktemp("assets") / "data"
    with fresh_site(folder), writing():
        actor = service(organizations.add_organization(shell(), "Acme").id)
        locations.create(actor, name="Dock")
        for number in range(ASSETS):
            assets.create(
                actor, name=f"Asset {number}", metadata=f'{{"mark":{number}}}', tags=[NewTag("rfid", f"{number:024X}")]
            )
    open_database(folder / FILE_NAME)
    execute("PRAGMA wal_checkpoint(TRUNCATE)")
    make_backup(folder, folder / "backups", Rotation(1, 1))
    close_database()
    return folder


@pytest.fixture
def file(closed_site: Path, tmp_path: Path) -> Iterator[Path]:
    yield shutil.copytree(closed_site, tmp_path / "data") / FILE_NAME
    close_database()


@pytest.fixture(scope="module")
def large_site(tmp_path_factory: pytest.TempPathFactory) -> damage.Damaged:
    with fresh_site(tmp_path_factory.mktemp("large") / "data") as folder:
        organizations.add_organization(shell(), "Acme")
        return damage.make_site(folder)


@pytest.fixture
def whole(large_site: damage.Damaged, tmp_path: Path) -> Iterator[damage.Damaged]:
    """A copy of a closed site of about 1,100 pages, with the rows of each."""
    folder = shutil.copytree(large_site.file.parent, tmp_path / "data")
    yield large_site._replace(file=folder / large_site.file.name, backups=folder / large_site.backups.name)
    close_database()


def page_of(file: Path, asset: int) -> int:
    """Return the leaf page of an asset."""
    with closing(sqlite3.connect(file)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    return file.read_bytes().index(f'{{"mark":{asset}}}'.encode()) // int(size)


def spoil(file: Path, page: int, content: bytes = b"\0") -> None:
    """Overwrite a page, like a failing card."""
    with closing(sqlite3.connect(file)) as connection:
        size = int(connection.execute("PRAGMA page_size").fetchone()[0])
    with file.open("r+b") as damaged:
        damaged.seek(page * size)
        damaged.write((content * size)[:size])


@pytest.mark.parametrize("content", [b"\0", b"\xff\x5a"], ids=["zeroed", "other bytes"])
def test_a_damaged_page_stops_the_start_with_advice(file: Path, content: bytes) -> None:
    integrity.check_at_start(file.parent, file.parent / "backups")
    spoil(file, page_of(file, 250), content)
    with pytest.raises(Damaged, match=r"edge repair, or .*: edge restore .*backups/edge-"):
        integrity.check_at_start(file.parent, file.parent / "backups")


def test_a_file_that_is_not_a_database_stops_the_start(file: Path) -> None:
    file.write_bytes(b"not a database" * 1000)
    with pytest.raises(Damaged, match="edge repair"):
        integrity.check_at_start(file.parent, file.parent / "none")


def test_a_file_that_was_emptied_is_never_taken_for_a_new_site(site: Path) -> None:
    """A power cut can truncate the file to zero bytes."""
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
    assert (done.returncode, done.stderr) == (1, "edge: The disk is full; free disk space and try again\n")


def test_a_start_undoes_what_a_power_cut_left_half_done_outside_the_wal(file: Path) -> None:
    """A restored file has a rollback journal until its first start switches it to WAL."""
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


def test_the_background_check_reports_damage_and_the_service_keeps_running(file: Path) -> None:
    check = integrity.BackgroundCheck(file.parent, file.parent / "backups")
    check.run(lambda _: False)
    assert check.check().ok
    spoil(file, page_of(file, 250))
    check.run(lambda _: False)
    assert not check.check().ok
    assert "asset" in check.check().detail
    assert "edge repair" in check.check().detail


def test_without_a_backup_readable_rows_are_recovered_and_others_counted(file: Path) -> None:
    spoil(file, page_of(file, 250))
    before = file.read_bytes()
    repaired = repair_database(shell(), file.parent, [])
    kept = repaired.recovered.rows["asset"] - repaired.recovered.from_search["asset"]
    assert repaired.recovered.unreadable == {"asset": 1}
    assert 0.5 * ASSETS < kept < ASSETS
    assert repaired.previous_database is not None
    assert repaired.previous_database.read_bytes() == before
    integrity.check_at_start(file.parent, file.parent / "backups")
    migrate.migrate(file.parent)
    actor = service(organizations.list_organizations()[0].id)
    again = assets.create(actor, name="New", tags=[NewTag("rfid", "AA")])
    assert again.id not in {row[0] for row in execute("SELECT id FROM asset WHERE name LIKE 'Asset%'")}
    assert execute("SELECT count(*) FROM searchable").fetchone()[0] >= kept


def test_records_whose_page_is_lost_keep_their_tags(file: Path) -> None:
    """The search text holds all that is needed, except the case of letters."""
    spoil(file, page_of(file, 250))
    recovered = repair_database(shell(), file.parent, []).recovered
    assert recovered.from_search["asset"] > 1
    assert (recovered.rejected, recovered.rows["tag"]) == ({}, ASSETS)
    migrate.migrate(file.parent)
    rows = execute(
        "SELECT name, external_key FROM asset JOIN tag ON asset_id = asset.id WHERE value = ?", (f"{250:024X}",)
    )
    assert rows.fetchone() == ("asset 250", "ASSET-0251")


def test_what_is_on_damaged_pages_comes_from_the_newest_sound_backup(file: Path) -> None:
    newer = file.parent / "backups" / "edge-20990101T000000Z.db.gz"
    newer.write_bytes(b"damaged, too")
    spoil(file, page_of(file, 250))
    repaired = repair_database(shell(), file.parent, [file.parent / "backups"])
    assert repaired.recovered.rows["asset"] == ASSETS
    assert set(repaired.recovered.from_backup) == {"asset"}
    assert repaired.backup is not None
    assert "2099-01-01" not in repaired.backup
    newer.unlink()
    migrate.migrate(file.parent)
    assert execute("SELECT count(*) FROM asset WHERE name = 'Asset 250'").fetchone() == (1,)


@pytest.mark.parametrize("pages", [range(1), range(3), range(40)], ids=["header", "header and secrets", "schema"])
def test_with_a_backup_header_schema_and_secrets_may_be_damaged(file: Path, pages: range) -> None:
    with closing(sqlite3.connect(file)) as connection:
        secret = connection.execute("SELECT id_key FROM instance").fetchone()
    for page in pages:
        spoil(file, page, b"\xff\x5a")
    repaired = repair_database(shell(), file.parent, [file.parent / "backups"])
    assert repaired.recovered.rows["asset"] == repaired.recovered.rows["tag"] == ASSETS
    migrate.migrate(file.parent)
    assert execute("SELECT id_key FROM instance").fetchone() == secret
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,), "pages of deleted rows are given back"


def test_a_site_without_a_backup_gets_new_secrets(file: Path) -> None:
    for page in range(4):
        spoil(file, page)
    repaired = repair_database(shell(), file.parent, [])
    assert repaired.recovered.has_new_secrets
    assert repaired.recovered.rows["asset"] == ASSETS
    migrate.migrate(file.parent)
    assets.create(service(organizations.list_organizations()[0].id), name="New")


def test_what_was_only_in_the_wal_is_recovered(file: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("UPDATE asset SET name = 'in the WAL' WHERE name = 'Asset 7'")
        connection.execute("BEGIN")
        connection.execute("UPDATE asset SET name = 'not committed' WHERE name = 'Asset 8'")
        connection.execute("PRAGMA cache_spill = 1")
        cut = tmp_path / "cut" / FILE_NAME
        cut.parent.mkdir()
        for suffix in ("", "-wal"):
            cut.with_name(cut.name + suffix).write_bytes(file.with_name(file.name + suffix).read_bytes())
    spoil_header(cut)
    repair_database(shell(), cut.parent, [])
    with closing(sqlite3.connect(cut)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM asset")}
    assert len(names) == ASSETS
    assert {"in the WAL", "Asset 8"} < names


def test_a_sound_database_loses_nothing_by_a_repair(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE asset SET name = 'renamed' WHERE rowid % 50 = 0")
        connection.commit()
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        known = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}
    recovered = repair_database(shell(), file.parent, [file.parent / "backups"]).recovered
    assert (recovered.rejected, recovered.unreadable, recovered.from_backup) == ({}, {}, {})
    assert {table: known[table] for table in recovered.rows} == recovered.rows
    assert recovered.rows["tag"] == ASSETS


def test_what_was_deleted_since_the_backup_does_not_come_back(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM audit WHERE no > 100")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    spoil(file, page_of(file, 250))
    repair_database(shell(), file.parent, [file.parent / "backups"])
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM audit WHERE action <> 'box.repaired'").fetchone() == (100,)


def test_what_cannot_be_recovered_at_all_changes_nothing(file: Path) -> None:
    file.write_bytes(b"not a database" * 1000)
    before = sorted(path.name for path in file.parent.iterdir())
    with pytest.raises(Corrupt, match="edge restore"):
        repair_database(shell(), file.parent, [file.parent / "backups"])
    assert sorted(path.name for path in file.parent.iterdir()) == before


@pytest.mark.parametrize("seed", [0, 1])
def test_a_hundred_damaged_pages_cost_only_changes_since_the_backup(whole: damage.Damaged, seed: int) -> None:
    """`python -m tests.soak.damage` runs this with many seeds."""
    pages = damage.random_damage(whole, seed)
    damage.spoil(whole, pages)
    repair_database(shell(), whole.file.parent, [whole.backups])
    assert damage.missing(whole, pages, whole.file) == []


def test_pages_below_a_damaged_root_are_known_by_their_rows(whole: damage.Damaged) -> None:
    """The pointer map, which is on every 820th page, is not needed."""
    with PageFile(whole.file) as file:
        root = next(root for kind, name, root in schema_rows(Forest(file)) if name == "tag" and kind == "table")
    pages = [2, 822, root]
    damage.spoil(whole, pages)
    repair_database(shell(), whole.file.parent, [whole.backups])
    assert damage.missing(whole, pages, whole.file) == []


def spoil_header(file: Path) -> None:
    with file.open("r+b") as damaged:
        damaged.write(b"\xff" * 100)
