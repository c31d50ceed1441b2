"""The secrets of an installation; they never change while it runs."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from tempfile import NamedTemporaryFile

from edge.database.connection import database, execute
from edge.errors import SetupError

KEY_NAME = "signing.key"
_KEY_LENGTH = 32  # characters at least

BADGE_KEY_NAME = "badges.key"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_badge_keys: dict[str, bytes] = {}  # by the database's file
_signing_keys: dict[tuple[Path | None, str], bytes] = {}  # by the key's file and the database's
_key_file: Path | None = None


def badge_key() -> bytes:
    """Return the key for the hashes of badges.

    It is in a file of its own and in no backup: badge numbers are short, so whoever has key and hashes can guess them.
    """
    path = database.database
    if path not in _badge_keys:
        file = beside_database(BADGE_KEY_NAME)
        make_key(file, secrets.token_hex(32))
        try:
            _badge_keys[path] = bytes.fromhex(file.read_text("ascii"))
        except (OSError, ValueError) as error:
            raise SetupError(f"{file} cannot be read as a key ({error}). Restore it, or remove it") from error
    return _badge_keys[path]


def move_badge_key_out(data_dir: Path) -> None:
    """Write the key that databases of schema 4 and older hold to its file, before a migration removes it there."""
    row = execute("SELECT badge_key FROM instance").fetchone()
    if row and any(row[0]):
        replace_key(data_dir / BADGE_KEY_NAME, row[0].hex())


def use_signing_key(file: Path | None) -> None:
    """Where the key is; None for the default, beside the database. Raises SetupError when it is not usable."""
    global _key_file
    _key_file = file
    signing_key()


def signing_key() -> bytes:
    """Signs access and session tokens.

    It is in a file of its own, never in the database: otherwise whoever has a backup could make tokens. A backup that
    is restored on another box finds another key there, which does not accept the tokens of the old box.
    """
    files = (_key_file, database.database)
    if files not in _signing_keys:  # cached, since every request asks
        _signing_keys[files] = _read_or_make_key()
    return _signing_keys[files]


def _read_or_make_key() -> bytes:
    if _key_file:
        return _read_key(_key_file)
    file = beside_database(KEY_NAME)
    make_key(file, secrets.token_urlsafe(48))
    return _read_key(file)


def _read_key(file: Path) -> bytes:
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        raise SetupError(
            f"signing_key_file: {file}, which signs tokens, cannot be read ({error}). systemd/install.sh makes one."
        ) from error
    if len(key) < _KEY_LENGTH:
        raise SetupError(f"{file} holds no key of {_KEY_LENGTH} characters or more. Remove it, and make a new one.")
    return key


def beside_database(name: str) -> Path:
    """A file of the data directory, which no backup takes along."""
    return Path(database.database).with_name(name)


def make_key(file: Path, key: str) -> None:
    """Create the file unless it exists: whole and on disk, or not at all, however many threads and processes start."""
    if file.exists():
        return
    unfinished = _written_aside(file, key)
    try:
        with suppress(FileExistsError):  # another one was first; its key counts
            file.hardlink_to(unfinished)
        sync_folder(file.parent)
    finally:
        unfinished.unlink()


def replace_key(file: Path, key: str) -> None:
    """Create or replace the file: whole and on disk, or not at all."""
    _written_aside(file, key).replace(file)
    sync_folder(file.parent)


def _written_aside(file: Path, key: str) -> Path:
    """Write a file with a name of its own, which only its owner can read."""
    with NamedTemporaryFile("w", encoding="ascii", prefix=f"{file.name}.", dir=file.parent, delete=False) as target:
        target.write(key)
        target.flush()
        os.fsync(target.fileno())
    return Path(target.name)


def sync_folder(folder: Path) -> None:
    """Bring the names of new files in a folder to the disk. Some network file systems cannot be asked to."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def running_box() -> str:
    """Identifies this box as it runs now: a copy of its folder or of its disk that runs elsewhere is another one."""
    folder = Path(database.database).absolute().parent.stat()
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
    except OSError:  # not Linux: copies on one machine are told apart, copies of the machine are not
        boot = ""
    return blake2b(f"{boot} {folder.st_dev} {folder.st_ino}".encode(), digest_size=8).hexdigest()


def fingerprint() -> str:
    """Identifies this installation, also after a restore and in copies, and reveals nothing else."""
    key: bytes = execute("SELECT id_key FROM instance").fetchone()[0]
    return blake2b(key, digest_size=8, person=b"edge-instance").hexdigest()
