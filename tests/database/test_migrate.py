"""Migrations run step by step, each completely or not at all."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from edge.database import migrate, triggers
from edge.database.connection import FILE_NAME, close_database, execute
from edge.errors import SetupError


def schema_of(file: Path) -> int:
    with sqlite3.connect(file) as connection:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return version


def add_step(monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    steps = migrate._steps()
    monkeypatch.setattr(migrate, "_steps", lambda: [*steps, ("9999_extra", sql)])


def test_a_new_database_gets_every_step_once(store: Path) -> None:
    assert migrate.migrate(store) == []
    names = [row[0] for row in execute("SELECT name FROM schema_step ORDER BY number")]
    assert names == [name for name, _ in migrate._steps()]


def test_steps_are_numbered_without_gaps_and_doubles() -> None:
    """A second step of one number would move the numbers of all later ones in databases that exist."""
    assert [int(name[:4]) for name, _ in migrate._steps()] == list(range(1, migrate.newest_schema() + 1))


def test_a_step_is_applied_after_copying_the_file(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = schema_of(store / FILE_NAME)
    add_step(monkeypatch, "CREATE TABLE extra (a);\nINSERT INTO extra VALUES (1);")
    assert migrate.migrate(store) == ["9999_extra"]
    assert execute("SELECT a FROM extra").fetchone() == (1,)
    assert schema_of(store / f"{FILE_NAME}.schema-{before}") == before


def test_no_copy_is_made_if_the_caller_has_one(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """During an upgrade the service is down, and a copy may take longer than all other steps."""
    add_step(monkeypatch, "CREATE TABLE extra (a);")
    assert migrate.migrate(store, keeps_copy=False) == ["9999_extra"]
    assert not list(store.glob(f"{FILE_NAME}.schema-*"))


def test_a_failed_step_leaves_the_schema_unchanged(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = schema_of(store / FILE_NAME)
    add_step(monkeypatch, "CREATE TABLE extra (a);\nINSERT INTO nonsense VALUES (1);")
    with pytest.raises(sqlite3.OperationalError):
        migrate.migrate(store)
    close_database()
    assert schema_of(store / FILE_NAME) == before
    assert execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").fetchone() == (0,)


def test_a_newer_schema_is_refused_with_advice(store: Path) -> None:
    execute("PRAGMA user_version = 999")
    with pytest.raises(SetupError, match="written by a newer version of edge"):
        migrate.migrate(store)


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    migrate.migrate(tmp_path)
    close_database()
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o077 == 0


def test_every_table_is_strict(store: Path) -> None:
    loose = execute(
        "SELECT name FROM pragma_table_list WHERE type = 'table' AND NOT strict AND name NOT LIKE 'sqlite_%'"
    )
    assert {row[0] for row in loose} <= {"schema_step"}


def test_a_backup_with_any_optional_trigger_is_accepted() -> None:
    """That of a box with readers of the open feed was refused, since an alias of a table was taken for its name."""
    _, allowed = migrate.known_schema(len(migrate._steps()))
    statements = triggers.optional(migrate.newest_schema())
    named = {statement.split()[5].removeprefix("main.") for statement in statements}
    assert "change_people_setting" in named
    assert named <= {item.name for item in allowed if item.kind == "trigger"}


def test_triggers_are_never_added_to_rows_that_postgresql_lends(store: Path) -> None:
    """Those rows are in a temporary table. Lending them would have recorded changes and moves."""
    execute("CREATE TEMP TABLE history (position_no, observed_at, seq, seen_for, source_no)")
    for statement in triggers.optional(migrate.newest_schema()):
        execute(statement)
    assert execute("SELECT name FROM temp.sqlite_schema WHERE type = 'trigger'").fetchall() == []
    close_database()


def test_an_unfinished_copy_is_replaced(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = schema_of(store / FILE_NAME)
    for name in (f"{FILE_NAME}.schema-{before}", f"{FILE_NAME}.schema-{before}.part"):
        (store / name).write_bytes(b"SQLite for")
    add_step(monkeypatch, "CREATE TABLE extra (a);")
    migrate.migrate(store)
    assert schema_of(store / f"{FILE_NAME}.schema-{before}") == before
    assert not (store / f"{FILE_NAME}.schema-{before}.part").exists()
