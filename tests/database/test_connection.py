"""Transactions: durable, exclusive among writers, atomic."""

from __future__ import annotations

import resource
import sqlite3
import threading
from pathlib import Path

import peewee
import pytest

from edge.audit.actors import shell
from edge.database import connection
from edge.database.connection import FILE_NAME, close_database, execute, reading, writing
from edge.errors import Damaged, Unavailable
from edge.people.organizations import add_organization, list_organizations
from tests.conftest import SYNCHRONOUS


def test_a_commit_is_durable_before_it_is_confirmed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.PRAGMAS, "synchronous", SYNCHRONOUS)
    connection.open_database(store / FILE_NAME)
    settings = {
        name: execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_a_large_sort_does_not_stay_in_memory(store: Path) -> None:
    """Clients choose what is sorted, and the unit may have 512 MB."""
    rows = "SELECT 1 AS n UNION ALL SELECT n + 1 FROM rows WHERE n < 60000"
    before = _megabytes()
    sorted_rows = execute(
        f"WITH RECURSIVE rows AS ({rows}) SELECT n || hex(zeroblob(500)) AS text FROM rows ORDER BY 1"
    )
    assert sorted_rows.fetchone()
    assert _megabytes() < before + 24


def _megabytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20


def test_a_failed_transaction_leaves_nothing(store: Path) -> None:
    def fail() -> None:
        with writing():
            add_organization(shell(), "Acme")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list_organizations() == []


def test_a_failure_in_a_nested_transaction_rolls_back_the_outer_one(store: Path) -> None:
    def fail() -> None:
        with writing():
            add_organization(shell(), "Acme")
            with writing():
                add_organization(shell(), "Beta")
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list_organizations() == []


def test_threads_that_read_then_write_never_see_a_locked_database(store: Path) -> None:
    faults: list[BaseException] = []

    def add(number: int) -> None:
        try:
            for turn in range(5):
                with writing():
                    list_organizations()
                    add_organization(shell(), f"org {number} {turn}")
        except BaseException as error:  # noqa: BLE001  handed to the test
            faults.append(error)
        close_database()

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert len(list_organizations()) == 40


def test_a_snapshot_does_not_change_while_others_write(store: Path) -> None:
    with reading():
        before = list_organizations()
        writer = threading.Thread(target=lambda: (add_organization(shell(), "Acme"), close_database()))
        writer.start()
        writer.join()
        assert list_organizations() == before
    assert [row.name for row in list_organizations()] == ["Acme"]


def test_a_database_locked_by_another_process_is_unavailable(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(store / FILE_NAME, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="Another process has locked the database"):
        add_organization(shell(), "Acme")
    other.execute("ROLLBACK")
    other.close()
    add_organization(shell(), "Acme")


def test_a_full_disk_is_reported_and_changes_nothing(store: Path) -> None:
    execute(f"PRAGMA max_page_count = {execute('PRAGMA page_count').fetchone()[0]}")

    def fill() -> None:
        with writing():
            for number in range(10_000):
                add_organization(shell(), f"org {number}")

    with pytest.raises(Unavailable, match="The disk is full"):
        fill()
    execute("PRAGMA max_page_count = 1000000")
    assert list_organizations() == []
    assert connection.database.is_closed() is False


def test_a_read_only_database_is_reported(store: Path) -> None:
    execute("PRAGMA query_only = 1")  # like a disk that was remounted read-only
    with pytest.raises(Unavailable, match="read-only"):
        add_organization(shell(), "Acme")
    execute("PRAGMA query_only = 0")
    add_organization(shell(), "Acme")


def test_errors_are_classified_by_code_only(store: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="fullness"):
        execute("SELECT fullness, locked, busy FROM organization")
    with pytest.raises(peewee.OperationalError, match="fullness"):
        connection.database.execute_sql("SELECT fullness FROM organization")


def test_a_file_with_another_header_is_damaged(store: Path) -> None:
    add_organization(shell(), "Acme")
    close_database()
    file = store / FILE_NAME
    file.write_bytes(b"\x5a" * 100 + file.read_bytes()[100:])
    with pytest.raises(Damaged, match=r"damaged.*edge repair"):
        list_organizations()
    with pytest.raises(Damaged):
        add_organization(shell(), "Beta")


def test_an_overwritten_page_is_damaged(store: Path) -> None:
    add_organization(shell(), "Acme")
    root = execute("SELECT rootpage FROM sqlite_schema WHERE name = 'organization'").fetchone()[0]
    size = execute("PRAGMA page_size").fetchone()[0]
    close_database()
    with (store / FILE_NAME).open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    with pytest.raises(Damaged):
        execute("SELECT * FROM organization").fetchall()


def test_opening_a_connection_does_not_wait_for_the_writer(store: Path) -> None:
    modes: list[tuple[int, str]] = []

    def look() -> None:
        vacuum, journal = (execute(f"PRAGMA {name}").fetchone()[0] for name in ("auto_vacuum", "journal_mode"))
        modes.append((vacuum, journal))

    reader = threading.Thread(target=look)
    with writing():
        execute("UPDATE version SET tags = tags + 1")
        reader.start()
        reader.join(60)
        assert modes == [(2, "wal")]


def test_the_connection_of_a_thread_is_closed_when_the_thread_ends(store: Path) -> None:
    """From Python 3.13 on, a connection that only the garbage collector closes is a ResourceWarning."""
    kept = []
    thread = threading.Thread(target=lambda: kept.append(connection.database.connection()))
    thread.start()
    thread.join()
    add_organization(shell(), "Acme")
    close_database()
    assert not (store / f"{FILE_NAME}-wal").exists(), "the last connection to close removes it"
