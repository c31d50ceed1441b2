"""Secrets in backups, and backups crafted by an attacker."""

import gzip
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute
from edge.database.instance import BADGE_KEY_NAME, badge_key, make_key, signing_key, use_signing_key
from edge.errors import Corrupt, SetupError, Unavailable
from edge.operations import archives, encryption
from edge.operations.backup import Rotation, SecondFolder, list_backups, make_backup, restore_backup
from edge.people.organizations import list_organizations
from edge.people.passwords import hash_badge

KEPT = Rotation(daily=7, weekly=8)


def taken(site: Path) -> Path:
    """Return a backup of the site, which is closed afterwards."""
    path = make_backup(site, site / "backups", KEPT).backup.path
    close_database()
    return path


def altered(site: Path, change: Callable[[sqlite3.Connection], object]) -> Path:
    """Return the backup unpacked, changed and packed again."""
    path = taken(site)
    raw = site.parent / "altered.db"
    raw.write_bytes(gzip.decompress(path.read_bytes()))
    with closing(sqlite3.connect(raw)) as connection:
        change(connection)
        connection.commit()
    path.write_bytes(gzip.compress(raw.read_bytes()))
    return path


def test_a_backup_does_not_hold_the_key_that_signs_tokens(site: Path) -> None:
    key = signing_key()
    assert len(key) >= 32
    assert key not in gzip.decompress(taken(site).read_bytes())


def test_on_another_box_the_key_is_another(site: Path, tmp_path: Path) -> None:
    key, path = signing_key(), taken(site)
    restore_backup(shell(), path, site)
    migrate.migrate(site)
    assert signing_key() == key
    close_database()
    restore_backup(shell(), path, tmp_path / "other")
    migrate.migrate(tmp_path / "other")
    assert signing_key() != key


@pytest.mark.parametrize("content", [None, b"", b"short"])
def test_a_key_that_is_missing_or_too_short_is_refused(site: Path, content: bytes | None) -> None:
    file = site / "own.key"
    if content is not None:
        file.write_bytes(content)
    try:
        with pytest.raises(SetupError, match=str(file)):
            use_signing_key(file)
    finally:
        use_signing_key(None)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER late AFTER INSERT ON asset BEGIN UPDATE person SET role = 'administrator'; END",
        "CREATE TRIGGER sqlite AFTER UPDATE ON instance BEGIN DELETE FROM audit; END",
        "CREATE VIEW more AS SELECT * FROM person",
        "DROP TRIGGER asset_recorded",
        "ALTER TABLE asset ADD COLUMN more TEXT DEFAULT (randomblob(10))",
        "CREATE INDEX more ON asset (name)",
    ],
)
def test_a_backup_that_brings_a_schema_of_its_own_is_refused(site: Path, sql: str) -> None:
    path = altered(site, lambda connection: connection.execute(sql))
    with pytest.raises(Corrupt, match="not a database of edge"):
        restore_backup(shell(), path, site)
    migrate.migrate(site)
    assert len(list_organizations()) == 1


def test_the_instance_cannot_be_replaced_by_a_view(site: Path) -> None:
    def replace(connection: sqlite3.Connection) -> None:
        connection.execute("ALTER TABLE instance RENAME TO hidden")
        connection.execute("CREATE VIEW instance AS SELECT * FROM hidden")

    with pytest.raises(Corrupt, match="of edge"):
        restore_backup(shell(), altered(site, replace), site)


def test_an_archive_that_would_fill_the_disk_is_not_unpacked(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = taken(site)
    raw = bytearray(gzip.decompress(path.read_bytes()))
    raw[28:32] = (300_000_000 // 4096).to_bytes(4, "big")
    path.write_bytes(gzip.compress(bytes(raw), 1) + bytes(2_000_000))
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 200_000_000}))
    before = {file.name: file.stat().st_size for file in site.iterdir()}
    with pytest.raises(Unavailable, match="free disk space"):
        restore_backup(shell(), path, site)
    assert {file.name: file.stat().st_size for file in site.iterdir()} == before


@pytest.mark.parametrize("claimed", [0, 1, 25, 2**30 // 4096, 2**32 - 1], ids=lambda pages: f"{pages} pages")
def test_an_archive_of_gigabytes_is_refused_without_unpacking_it(
    site: Path, monkeypatch: pytest.MonkeyPatch, claimed: int
) -> None:
    """A crafted archive must not fill the disk, and must not be unpacked to learn its size."""
    path = taken(site)
    raw = bytearray(gzip.decompress(path.read_bytes()))
    raw[28:32] = claimed.to_bytes(4, "big")
    path.write_bytes(gzip.compress(bytes(raw) + bytes(50_000_000), 1))
    read: list[int] = []
    chunks = archives._chunks

    def counted(file: Path) -> Iterator[bytes]:
        for chunk in chunks(file):
            read.append(len(chunk))
            yield chunk

    monkeypatch.setattr(archives, "_chunks", counted)
    with pytest.raises(Corrupt):
        restore_backup(shell(), path, site)
    assert sum(read) <= 3 * 2**20
    assert not list(site.glob("*.restore"))


def test_a_backup_lacks_the_key_of_badges_but_works_where_it_was_made(site: Path) -> None:
    code = hash_badge("4711")
    key, path = badge_key(), taken(site)
    raw = gzip.decompress(path.read_bytes())
    assert key not in raw
    assert key.hex().encode() not in raw
    restore_backup(shell(), path, site)
    migrate.migrate(site)
    assert hash_badge("4711") == code


def test_badges_of_an_older_database_still_work_after_its_key_moved_out(tmp_path: Path) -> None:
    key = bytes(range(32))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as old:
        migrate.create_schema(old, 4)
        old.execute(
            "INSERT INTO instance (one, id_key, id_count, badge_key, created_at) VALUES (1, ?, 0, ?, 0)", (b"i", key)
        )
        old.commit()
    migrate.migrate(tmp_path, keeps_copy=False)
    assert badge_key() == key
    assert execute("SELECT badge_key FROM instance").fetchone() == (bytes(32),)
    assert (tmp_path / BADGE_KEY_NAME).stat().st_mode & 0o077 == 0
    close_database()


def test_a_key_that_many_threads_make_at_once_is_one_key(tmp_path: Path) -> None:
    """Threads of one process must not share the unfinished file."""
    start = threading.Barrier(16)

    def make(number: int) -> str:
        start.wait()
        for round_ in range(20):
            make_key(tmp_path / f"{round_}.key", f"{number:064d}")
        return "".join((tmp_path / f"{round_}.key").read_text() for round_ in range(20))

    with ThreadPoolExecutor(16) as threads:
        made = set(threads.map(make, range(16)))
    assert len(made) == 1
    assert len(made.pop()) == 20 * 64
    assert len(list(tmp_path.iterdir())) == 20


def test_a_second_copy_can_be_read_by_the_owner_of_the_key_alone(site: Path, tmp_path: Path) -> None:
    private, public = encryption.new_key()
    stick, key, wrong = tmp_path / "stick", tmp_path / "key", tmp_path / "wrong"
    stick.mkdir()
    key.write_text(
        f'{private}\n    Keep this away from the box.\nsecond_recipient = "{public}"\n'
    )  # in the output format of backup-key
    wrong.write_text(encryption.new_key()[0])
    made = make_backup(site, site / "backups", KEPT, SecondFolder(stick, public))
    assert made.second_fault is None
    close_database()
    [copy] = list_backups(stick)
    assert copy.path.name == f"{made.backup.path.name}.age"
    assert b"SQLite" not in copy.path.read_bytes()
    with pytest.raises(SetupError, match="--identity"):
        restore_backup(shell(), copy.path, site)
    with pytest.raises(SetupError, match="cannot be decrypted"):
        restore_backup(shell(), copy.path, site, wrong)
    wrong.write_text(public)
    with pytest.raises(SetupError, match="contains no age private key"):
        restore_backup(shell(), copy.path, site, wrong)
    assert restore_backup(shell(), copy.path, tmp_path / "other", key).summary == made.summary
    assert sorted(file.name for file in (tmp_path / "other").iterdir()) == [FILE_NAME]


def test_a_damaged_encrypted_copy_is_refused(site: Path, tmp_path: Path) -> None:
    private, public = encryption.new_key()
    (tmp_path / "key").write_text(private)
    make_backup(site, site / "backups", KEPT, SecondFolder(tmp_path, public))
    close_database()
    path = list_backups(tmp_path)[0].path
    whole = path.read_bytes()
    changed = whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:]
    for damaged in (changed, whole[:-40], whole[: len(whole) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(Corrupt, match="is damaged or incomplete; copy it here again"):
            restore_backup(shell(), path, site, tmp_path / "key")
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    with pytest.raises(SetupError, match="contains no age private key"):
        restore_backup(shell(), path, site, tmp_path / "key")
