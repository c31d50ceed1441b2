"""Secrets of an installation; constant while it runs."""

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
_KEY_LENGTH = 32  # minimum number of characters

BADGE_KEY_NAME = "badges.key"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_badge_keys: dict[str, bytes] = {}  # by database file
_signing_keys: dict[tuple[Path | None, str], bytes] = {}  # by key file and database file
_key_file: Path | None = None


def badge_key() -> bytes:
    """Return the key for badge hashes.

    It has its own file and is in no backup: badge numbers are short, so key and hashes together would allow guessing.
    """
    path = database.database
    if path not in _badge_keys:
        file = data_dir_file(BADGE_KEY_NAME)
        make_key(file, secrets.token_hex(32))
        try:
            _badge_keys[path] = bytes.fromhex(file.read_text("ascii"))
        except (OSError, ValueError) as error:
            raise SetupError(f"{file} is not a valid key file ({error}). Restore or delete it") from error
    return _badge_keys[path]


def move_badge_key_out(data_dir: Path) -> None:
    """Write the badge key of databases of schema 4 and older to its file, before a migration removes it."""
    row = execute("SELECT badge_key FROM instance").fetchone()
    if row and any(row[0]):
        replace_key(data_dir / BADGE_KEY_NAME, row[0].hex())


def use_signing_key(file: Path | None) -> None:
    """Set the key file; None for the default in the data directory. Raises SetupError if it is not usable."""
    global _key_file
    _key_file = file
    signing_key()


def signing_key() -> bytes:
    """Return the key that signs access and session tokens.

    It has its own file and is never in the database, since a backup would then allow forging tokens. A backup restored
    on another machine uses that machine's key, which rejects old tokens.
    """
    files = (_key_file, database.database)
    if files not in _signing_keys:  # cached, since every request needs it
        _signing_keys[files] = _read_or_make_key()
    return _signing_keys[files]


def _read_or_make_key() -> bytes:
    if _key_file:
        return _read_key(_key_file)
    file = data_dir_file(KEY_NAME)
    make_key(file, secrets.token_urlsafe(48))
    return _read_key(file)


def _read_key(file: Path) -> bytes:
    try:
        key = file.read_bytes().strip()
    except OSError as error:
        raise SetupError(
            f"signing_key_file: {file}, which signs tokens, cannot be read ({error}): sudo edge doctor"
        ) from error
    if len(key) < _KEY_LENGTH:
        raise SetupError(f"{file} holds no key of {_KEY_LENGTH} characters or more. Delete it and create a new one.")
    return key


def data_dir_file(name: str) -> Path:
    """Return the path of a file in the data directory that is in no backup."""
    return Path(database.database).with_name(name)


def make_key(file: Path, key: str) -> None:
    """Create the file unless it exists. It is complete and on disk or absent, even with concurrent processes."""
    if file.exists():
        return
    unfinished = _written_aside(file, key)
    try:
        with suppress(FileExistsError):  # another process created it first; use its key
            file.hardlink_to(unfinished)
        sync_folder(file.parent)
    finally:
        unfinished.unlink()


def replace_key(file: Path, key: str) -> None:
    """Create or replace the file atomically and durably."""
    _written_aside(file, key).replace(file)
    sync_folder(file.parent)


def _written_aside(file: Path, key: str) -> Path:
    """Write a temporary file that only its owner can read."""
    with NamedTemporaryFile("w", encoding="ascii", prefix=f"{file.name}.", dir=file.parent, delete=False) as target:
        target.write(key)
        target.flush()
        os.fsync(target.fileno())
    return Path(target.name)


def sync_folder(folder: Path) -> None:
    """Flush a directory to disk. Some network file systems do not support this."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def running_box() -> str:
    """Return an id of this running installation. A copy of its folder or disk elsewhere has another id."""
    folder = Path(database.database).absolute().parent.stat()
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
    except OSError:  # not Linux: detects copies on one machine, but not copies of the machine
        boot = ""
    return blake2b(f"{boot} {folder.st_dev} {folder.st_ino}".encode(), digest_size=8).hexdigest()


def fingerprint() -> str:
    """Return an id of this installation, the same after a restore and in copies; reveals nothing else."""
    key: bytes = execute("SELECT id_key FROM instance").fetchone()[0]
    return blake2b(key, digest_size=8, person=b"edge-instance").hexdigest()
