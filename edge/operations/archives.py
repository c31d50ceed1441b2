"""Backup archives: a database in gzip, optionally encrypted (`edge/operations/encryption.py`)."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import BinaryIO

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
        with _opened(file, identity) as archive, target.open("xb") as unpacked:
            target.chmod(0o600)
            _copy(_chunks(archive), unpacked, file, file.stat().st_size)
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


@contextmanager
def _opened(file: Path, identity: Path | None) -> Iterator[BufferedReader]:
    """Open a backup. An encrypted one is decrypted on the way, and not to the disk."""
    with file.open("rb") as archive:
        if archive.peek(len(_AGE))[: len(_AGE)] != _AGE:
            yield archive
            return
    if identity is None:
        raise SetupError(f"{file.name} is encrypted; give the owner's private key: --identity FILE")
    from edge.operations import encryption  # only here: its library stays in memory

    with encryption.decrypting(file, identity) as plain:
        yield plain


def _chunks(archive: BufferedReader) -> Iterator[bytes]:
    """Yield the content of an archive, or of an uncompressed database, in chunks."""
    is_packed = archive.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
    opened = gzip.GzipFile(fileobj=archive) if is_packed else archive
    while chunk := opened.read(_CHUNK):
        yield chunk
