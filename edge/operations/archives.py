"""Backup archives: gzip, optionally encrypted with age to the owner's public key for disks that leave the building."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import file_digest
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import pyrage

from edge.errors import Corrupt, SetupError, Unavailable

_CHUNK = 1024 * 1024
_GZIP = b"\x1f\x8b"
_AGE = b"age-encryption.org/"
_MOST_RATIO = 200  # at most, size of a database relative to its backup; five to ten is usual
_SPARE = 64 * 1024 * 1024  # bytes that must stay free on the disk


def pack(raw: Path, packed: Path) -> None:
    """Compress `raw` into `packed` and verify the result. Raises Corrupt if it does not unpack to the same bytes."""
    with raw.open("rb") as source, packed.open("xb") as target:
        os.fchmod(target.fileno(), 0o600)
        with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=6, filename="") as stream:
            shutil.copyfileobj(source, stream, _CHUNK)
        target.flush()
        os.fsync(target.fileno())
    with raw.open("rb") as source, gzip.open(packed, "rb") as again:
        if file_digest(source, "sha256").digest() != file_digest(again, "sha256").digest():
            raise Corrupt(f"{packed} cannot be read back correctly; check the disk")


def unpack(file: Path, target: Path, identity: Path | None = None) -> None:
    """Unpack a backup into `target`, which must not exist.

    The size in the database header is enforced: a few kilobytes could otherwise unpack to gigabytes.
    Raises Corrupt, Unavailable if the disk is too full, SetupError if the file or the key cannot be read.
    """
    try:
        with _decrypted(file, target, identity) as archive, target.open("xb") as unpacked:
            target.chmod(0o600)
            _copy(_chunks(archive), unpacked, file, archive.stat().st_size)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Corrupt(f"{file.name} is damaged ({error})") from error
    except PermissionError as error:  # file or key: the command runs as the service's user, also under sudo
        raise SetupError(
            f"{error.filename} cannot be read by the user edge ({error.strerror}); "
            f"put it into {target.parent} and make edge its owner"
        ) from error
    except OSError as error:
        raise SetupError(f"{file} cannot be unpacked: {error}") from error


def _copy(chunks: Iterator[bytes], unpacked: BinaryIO, file: Path, packed_size: int) -> None:
    first = next(chunks, b"")
    size = _database_size(first)
    if size is None or size > packed_size * _MOST_RATIO:
        raise Corrupt(f"{file.name} is not a backup: it contains no database")
    free = shutil.disk_usage(Path(unpacked.name).parent).free
    if free < size + _SPARE:
        raise Unavailable(
            f"{file.name} needs {(size + _SPARE) >> 20} MB and {Path(unpacked.name).parent} has {free >> 20} MB free; "
            "free disk space first"
        )
    for chunk in chain([first], chunks):
        if unpacked.tell() + len(chunk) > size:
            break
        unpacked.write(chunk)
    else:
        if unpacked.tell() == size:
            return
    raise Corrupt(f"{file.name} is damaged: its size differs from the {size} bytes recorded in it")


def _database_size(header: bytes) -> int | None:
    """Return the size in bytes from the header of an SQLite database (sqlite.org/fileformat.html, 1.3)."""
    if not header.startswith(b"SQLite format 3\0") or len(header) < 100:
        return None
    page_size = int.from_bytes(header[16:18], "big")
    return (65536 if page_size == 1 else page_size) * int.from_bytes(header[28:32], "big")


def encrypt(file: Path, target: Path, recipient: str) -> None:
    """Encrypt `file` to the public key `recipient` (age1…). This box cannot decrypt the result. Raises SetupError."""
    key = _recipient(recipient)
    with file.open("rb") as source, target.open("wb") as encrypted:
        pyrage.encrypt_io(source, encrypted, [key])


def _recipient(text: str) -> pyrage.x25519.Recipient:
    """Parse a public key. Raises SetupError."""
    try:
        return pyrage.x25519.Recipient.from_str(text)
    except pyrage.RecipientError as error:
        raise SetupError(
            f"backup.second_recipient is not an age public key ({error}). Create one: edge backup-key"
        ) from error


@contextmanager
def encrypting(file: BinaryIO, recipient: str) -> Iterator[BinaryIO]:
    """Yield a stream whose content is written to `file` encrypted, never to disk in the clear. Raises SetupError."""
    key = _recipient(recipient)
    with _piped(lambda end: pyrage.encrypt_io(end, file, [key]), is_writing=True) as stream:
        yield stream


@contextmanager
def decrypting(file: Path, identity: Path) -> Iterator[BinaryIO]:
    """Yield the decrypted content of `file` as a stream. Raises SetupError."""
    try:
        keys = _identities(identity)
        with (
            file.open("rb") as source,
            _piped(lambda end: pyrage.decrypt_io(source, end, keys), is_writing=False) as stream,
        ):
            yield stream
    except pyrage.DecryptError as error:
        raise SetupError(f"{file.name} cannot be decrypted with {identity} ({error})") from error
    except OSError as error:
        raise SetupError(f"{error.filename or file} cannot be read: {error.strerror}") from error


@contextmanager
def _piped(work: Callable[[BinaryIO], object], *, is_writing: bool) -> Iterator[BinaryIO]:
    """Yield one end of a pipe while a thread runs `work` on the other end. Errors of the thread are raised here."""
    read, write = os.pipe()
    ours, theirs = (
        (os.fdopen(write, "wb"), os.fdopen(read, "rb"))
        if is_writing
        else (os.fdopen(read, "rb"), os.fdopen(write, "wb"))
    )
    errors: list[Exception] = []

    def run() -> None:
        try:
            with theirs:
                work(theirs)
        except Exception as error:  # noqa: BLE001  raised again in the calling thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield ours
    except (OSError, tarfile.TarError, EOFError):
        ours.close()
        thread.join()
        if errors:
            raise errors[0] from None
        raise
    finally:
        if not ours.closed:
            ours.close()
        thread.join()
    if errors:
        raise errors[0]


def new_key() -> tuple[str, str]:
    """Return a new private key and its public key, in age's text format."""
    identity = pyrage.x25519.Identity.generate()
    return str(identity), str(identity.to_public())


@contextmanager
def _decrypted(file: Path, target: Path, identity: Path | None) -> Iterator[Path]:
    if not _has_magic(file, _AGE):
        yield file
        return
    if identity is None:
        raise SetupError(f"{file.name} is encrypted; give the owner's private key: --identity FILE")
    decrypted = target.with_name(f"{target.name}.decrypted")
    try:
        with file.open("rb") as source, decrypted.open("xb") as plain:
            decrypted.chmod(0o600)
            pyrage.decrypt_io(source, plain, _identities(identity))
        yield decrypted
    except pyrage.DecryptError as error:
        raise SetupError(f"{file.name} cannot be decrypted with {identity} ({error})") from error
    finally:
        decrypted.unlink(missing_ok=True)


def _identities(file: Path) -> list[pyrage.x25519.Identity]:
    """Read the private keys in `file`. Other lines are ignored, so the output of `edge backup-key` works as it is."""
    lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
    keys = [line for line in lines if line.startswith("AGE-SECRET-KEY-")]
    if not keys:
        raise SetupError(f"{file} contains no age private key: AGE-SECRET-KEY-1…")
    try:
        return [pyrage.x25519.Identity.from_str(key) for key in keys]
    except pyrage.IdentityError as error:
        raise SetupError(f"{file} contains no age private key ({error}): AGE-SECRET-KEY-1…") from error


def _has_magic(file: Path, magic: bytes) -> bool:
    with file.open("rb") as source:
        return source.read(len(magic)) == magic


def _chunks(file: Path) -> Iterator[bytes]:
    """Yield the content of an archive, or of an uncompressed database, in chunks."""
    is_packed = _has_magic(file, _GZIP)
    with gzip.open(file, "rb") if is_packed else file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            yield chunk
