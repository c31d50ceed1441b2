"""The secrets of an installation; they never change while it runs."""

from __future__ import annotations

import os
import secrets
from hashlib import blake2b
from pathlib import Path

from edge.errors import SetupError
from edge.store.database import database, execute

KEY_NAME = "signing.key"
_KEY_LENGTH = 32  # characters at least

_badge_keys: dict[str, bytes] = {}
_signing_keys: dict[tuple[Path | None, str], bytes] = {}  # by the key's file and the database's
_key_file: Path | None = None


def badge_key() -> bytes:
    """The key for the hashes of badges; it is in every backup, as they are."""
    path = database.database
    if path not in _badge_keys:
        _badge_keys[path] = execute("SELECT badge_key FROM instance").fetchone()[0]
    return _badge_keys[path]


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
    """Create the file unless it exists; whole or not at all, even when two processes start at once."""
    if file.exists():
        return
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    unfinished.touch(mode=0o600)
    unfinished.write_text(key, "ascii")
    try:
        os.link(unfinished, file)
    except FileExistsError:
        pass  # the other process was first; its key counts
    finally:
        unfinished.unlink()


def fingerprint() -> str:
    """Identifies this box, also after a restore, and reveals nothing else."""
    key: bytes = execute("SELECT id_key FROM instance").fetchone()[0]
    return blake2b(key, digest_size=8, person=b"edge-instance").hexdigest()
