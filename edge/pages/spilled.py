"""Values that wait for a person, in temporary files: memory has no room for a large table of each person."""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from tempfile import TemporaryFile
from typing import BinaryIO, TypeVar

from edge.errors import Unavailable
from edge.texts import N_

TOGETHER = 500  # values that are read at a time
_LEVEL = 1  # of compression

T = TypeVar("T")


class Spilled(Collection[T]):
    """Values in a file without a name, which ends with the object. Several threads may read them."""

    def __init__(self, values: Iterable[T]) -> None:
        """Write the values. Raises Unavailable if the disk is full."""
        self._places: list[tuple[int, int]] = []  # offset and size of each part
        self._number = 0
        self._file: BinaryIO | None = None
        try:
            self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as this object
            self._write(self._file, iter(values))
        except OSError as error:
            raise Unavailable(N_("The disk is full; free disk space and try again")) from error

    def __del__(self) -> None:
        if self._file:
            self._file.close()

    def __len__(self) -> int:
        return self._number

    def __contains__(self, value: object) -> bool:
        return any(one == value for one in self)

    def __iter__(self) -> Iterator[T]:
        for offset, size in self._places:
            part = os.pread(self._file.fileno(), size, offset) if self._file else b""
            yield from pickle.loads(zlib.decompress(part))  # noqa: S301 - written by this process, to a file of its own

    def _write(self, file: BinaryIO, values: Iterator[T]) -> None:
        offset = 0
        while some := list(islice(values, TOGETHER)):
            part = zlib.compress(pickle.dumps(some), _LEVEL)
            rest = memoryview(part)
            while rest:
                rest = rest[file.write(rest) :]
            self._places.append((offset, len(part)))
            offset += len(part)
            self._number += len(some)
