"""Released migrations never change, since upgraded databases would differ from new ones.

`released_migrations.txt` has their checksums. A new migration is added with its release: `python -m
tests.database.test_known_databases`.
"""

from __future__ import annotations

import re
import sqlite3
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from edge import __version__
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute
from edge.errors import SetupError

ROOT = Path(__file__).parents[2]
MIGRATIONS = ROOT / "edge/database/migrations"
LIST = Path(__file__).with_name("released_migrations.txt")
EARLY = Path(__file__).with_name("schema_of_d91edd1.sql")


def listed() -> dict[str, str]:
    return {name: digest for digest, name in (line.split() for line in LIST.read_text().splitlines())}


def present() -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(MIGRATIONS.glob("[0-9]*.sql"))}


def test_released_migrations_never_change() -> None:
    digests = present()
    changed = [name for name, digest in listed().items() if digests.get(name) != digest]
    assert changed == [], "undo the change, and write another migration that makes it"


def test_new_migrations_come_after_the_released_ones() -> None:
    assert list(present())[: len(listed())] == list(listed())


def test_versions_increase() -> None:
    """apt and `edge upgrade` compare them."""
    headings = re.findall(r"^## ([0-9.]+)", (ROOT / "edge/CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    numbers = [tuple(map(int, heading.split("."))) for heading in headings]
    assert headings[0] == __version__
    assert numbers == sorted(set(numbers), reverse=True)


def refused(folder: Path) -> str:
    """Return the error message, and check that the file is unchanged."""
    before = (folder / FILE_NAME).read_bytes()
    with pytest.raises(SetupError) as caught:
        migrate.migrate(folder)
    close_database()
    assert (folder / FILE_NAME).read_bytes() == before
    return str(caught.value)


def make(file: Path, script: str) -> None:
    connection = sqlite3.connect(file)
    connection.executescript(script)
    connection.close()


def test_a_database_of_an_early_commit_is_refused_with_advice(tmp_path: Path) -> None:
    """An early first migration had the same name but other tables, and once failed with an SQL error."""
    step = "CREATE TABLE schema_step (number INTEGER PRIMARY KEY, name TEXT, applied_at INTEGER);"
    done = "INSERT INTO schema_step VALUES (1, '0001_first', 0); PRAGMA user_version = 1;"
    make(tmp_path / FILE_NAME, f"PRAGMA journal_mode = wal; {EARLY.read_text('utf-8')} {step} {done}")
    said = refused(tmp_path)
    assert "a version of edge that was never released" in said
    assert "through its API" in said


@pytest.mark.parametrize("number", [0, 3])
def test_a_database_of_another_program_is_refused(tmp_path: Path, number: int) -> None:
    make(tmp_path / FILE_NAME, f"PRAGMA journal_mode = wal; CREATE TABLE song (title); PRAGMA user_version = {number};")
    assert "the database of another program" in refused(tmp_path)


def test_a_database_with_another_list_of_migrations_is_refused(store: Path) -> None:
    execute("UPDATE schema_step SET name = '0002_other' WHERE number = 2")
    close_database()
    assert "never released" in refused(store)


def test_a_newer_database_is_refused_with_both_remedies(store: Path) -> None:
    execute("PRAGMA user_version = 999")
    close_database()
    said = refused(store)
    assert "restore a backup made before the upgrade" in said
    assert "edge export with the newer version, then edge import" in said


def test_databases_of_every_schema_are_upgraded(tmp_path: Path) -> None:
    for number in range(1, migrate.newest_schema()):
        folder = tmp_path / str(number)
        folder.mkdir()
        connection = sqlite3.connect(folder / FILE_NAME)
        connection.execute("PRAGMA journal_mode = wal")
        migrate.create_schema(connection, number)
        connection.execute(
            "INSERT INTO instance (one, id_key, id_count, badge_key, created_at) VALUES (1, x'00', 0, zeroblob(32), 0)"
        )
        connection.commit()
        connection.close()
        assert len(migrate.migrate(folder)) == migrate.newest_schema() - number
        close_database()


def main() -> None:
    LIST.write_text("".join(f"{digest}  {name}\n" for name, digest in present().items()))


if __name__ == "__main__":
    sys.exit(main())
