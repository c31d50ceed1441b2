"""Pages of an SQLite database file, read without SQLite, which rejects files with a damaged header or schema.

See sqlite.org/fileformat.html. A committed page in the WAL replaces the one in the file. All input is untrusted: a page
or cell that violates the format is reported as unreadable.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

Value = None | int | float | str | bytes

INDEX_INTERIOR, TABLE_INTERIOR, INDEX_LEAF, TABLE_LEAF = 2, 5, 10, 13
INTERIOR = (INDEX_INTERIOR, TABLE_INTERIOR)
OF_TABLES = (TABLE_INTERIOR, TABLE_LEAF)

_MAGIC = b"SQLite format 3\0"
_DEFAULT_SIZE = 4096  # page size of databases created by this program
_HEADER = 100
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_WAL_HEADER, _FRAME_HEADER = 32, 24
_PENDING_BYTE = 0x40000000
_LARGEST_ROW = 1_000_000_000  # SQLite's own limit


class Unreadable(Exception):
    """A page or cell violates the file format."""


class Cell(NamedTuple):
    """An entry of a page. `rowid` is None in an index; `payload` is empty in an interior table page."""

    child: int
    rowid: int | None
    payload: bytes


class Parent(NamedTuple):
    """A page's entry in the pointer map."""

    kind: int
    page: int


ROOT, FREE, OVERFLOW_FIRST, OVERFLOW, CHILD = 1, 2, 3, 4, 5


class PageFile:
    """A database file; use as a context manager. A damaged file raises no error but has fewer readable pages."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._wal = path.with_name(f"{path.name}-wal")
        self._bytes: mmap.mmap | bytes = b""
        with suppress(ValueError):  # the file is empty
            self._bytes = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        header = self._bytes[:_HEADER]
        self.size = _page_size(header) or _wal_page_size(self._wal) or _DEFAULT_SIZE
        self._frames, count = _committed_frames(self._wal, self.size)
        self._wal_file = self._wal.open("rb") if self._frames else None
        self.count = count or -(-len(self._bytes) // self.size)
        first = self.page(1)
        has_header = first.startswith(_MAGIC)
        self.schema = struct.unpack_from(">I", first, 60)[0] if has_header else None
        self._is_mapped = not has_header or first[52:56] != bytes(4)  # our databases always have a pointer map
        self._first_free = struct.unpack_from(">I", first, 32)[0] if has_header else 0

    def __enter__(self) -> PageFile:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._bytes, mmap.mmap):
            self._bytes.close()
        if self._wal_file:
            self._wal_file.close()
        self._file.close()

    def page(self, number: int) -> bytes:
        """Return the bytes of a page (from 1), padded with zeros past the end of the file."""
        if self._wal_file and number in self._frames:
            self._wal_file.seek(self._frames[number])
            return self._wal_file.read(self.size)
        start = (number - 1) * self.size
        return self._bytes[start : start + self.size].ljust(self.size, b"\0")

    def kind(self, number: int) -> int:
        """Return the kind of a B-tree page, or 0 for other and for damaged pages."""
        try:
            return self._header(number, self.page(number))[0]
        except Unreadable:
            return 0

    def cells(self, number: int) -> Iterator[Cell | None]:
        """Yield a B-tree page's entries in order, None for unreadable ones. Raises Unreadable for a damaged page."""
        data = self.page(number)
        kind, count, start, pointers = self._header(number, data)
        for (at,) in struct.iter_unpack(">H", data[pointers : pointers + 2 * count]):
            try:
                yield self._cell(number, data, kind, at) if start <= at <= self.size - 4 else None
            except (Unreadable, IndexError, struct.error):
                yield None

    def last_child(self, number: int) -> int:
        """Return the rightmost child of an interior page."""
        child: int = struct.unpack_from(">I", self.page(number), (_HEADER if number == 1 else 0) + 8)[0]
        return child

    def is_map(self, number: int) -> bool:
        """Return True for a pointer map page, and for the page that SQLite reserves for locks."""
        return number == _PENDING_BYTE // self.size + 1 or (self._is_mapped and number == self._map_of(number))

    def parent(self, number: int) -> Parent | None:
        """Return a page's entry in the pointer map, or None if it is damaged or absent."""
        place = self._map_of(number)
        if not self._is_mapped or number in (1, place):
            return None
        kind, page = struct.unpack_from(">BI", self.page(place), 5 * (number - place - 1))
        is_valid = ROOT <= kind <= CHILD and page <= self.count and (page == 0) == (kind in (ROOT, FREE))
        return Parent(kind, page) if is_valid else None

    def free_pages(self) -> set[int]:
        """Return unused pages, which still hold deleted data, by the freelist and by the pointer map."""
        free: set[int] = set()
        trunk = self._first_free
        while 1 < trunk <= self.count and trunk not in free:
            data = self.page(trunk)
            following, count = struct.unpack_from(">II", data)
            leaves = struct.unpack_from(f">{min(count, self.size // 4 - 2)}I", data, 8)
            if following > self.count or any(not 1 < leaf <= self.count for leaf in leaves):
                break
            free |= {trunk, *leaves}
            trunk = following
        by_map = (number for number in range(2, self.count + 1) if not self.is_map(number))
        return free | {number for number in by_map if (mapped := self.parent(number)) and mapped.kind == FREE}

    def _map_of(self, number: int) -> int:
        """Return the pointer map page with the entry of a page."""
        span = self.size // 5 + 1
        place = (number - 2) // span * span + 2
        return place + 1 if place == _PENDING_BYTE // self.size + 1 else place

    def _header(self, number: int, data: bytes) -> tuple[int, int, int, int]:
        """Return kind, number of cells, start of the cell area and offset of the cell pointers."""
        base = _HEADER if number == 1 else 0
        kind, free_block, count, start, fragments = struct.unpack_from(">BHHHB", data, base)
        pointers = base + (12 if kind in INTERIOR else 8)
        start = start or 65536
        is_valid = (
            kind in (*INTERIOR, INDEX_LEAF, TABLE_LEAF)
            and pointers + 2 * count <= start <= self.size
            and (free_block == 0 or start <= free_block < self.size)
            and fragments <= 60
            and (count or kind not in INTERIOR)
        )
        if not is_valid:
            raise Unreadable
        return kind, count, start, pointers

    def _cell(self, number: int, data: bytes, kind: int, at: int) -> Cell:
        child, rowid = 0, None
        if kind in INTERIOR:
            child, at = struct.unpack_from(">I", data, at)[0], at + 4
        if kind == TABLE_INTERIOR:
            return Cell(child, _signed(_varint(data, at)[0]), b"")
        length, at = _varint(data, at)
        if kind == TABLE_LEAF:
            key, at = _varint(data, at)
            rowid = _signed(key)
        return Cell(child, rowid, self._payload(number, data, at, length, is_index=rowid is None))

    def _payload(self, number: int, data: bytes, at: int, length: int, *, is_index: bool) -> bytes:
        """Return the payload in the page and its chain of overflow pages."""
        most = (self.size - 12) * 64 // 255 - 23 if is_index else self.size - 35
        if length <= most:
            if at + length > self.size:
                raise Unreadable
            return data[at : at + length]
        least = (self.size - 12) * 32 // 255 - 23
        local = least + (length - least) % (self.size - 4)
        local = local if local <= most else least
        if at + local + 4 > self.size or length > min(_LARGEST_ROW, self.count * self.size):
            raise Unreadable
        chunks, missing = [data[at : at + local]], length - local
        following, before = struct.unpack_from(">I", data, at + local)[0], Parent(OVERFLOW_FIRST, number)
        while missing > 0:
            page = self._overflow(following, before)
            chunks.append(page[4 : 4 + missing])
            missing -= self.size - 4
            before = Parent(OVERFLOW, following)
            following = struct.unpack_from(">I", page)[0]
        if following:
            raise Unreadable
        return b"".join(chunks)

    def _overflow(self, number: int, before: Parent) -> bytes:
        """Return an overflow page; if the pointer map is readable, it must confirm the page."""
        if not 1 < number <= self.count or self.parent(number) not in (None, before):
            raise Unreadable
        page = self.page(number)
        if not any(page):
            raise Unreadable
        return page


def values(payload: bytes) -> list[Value]:
    """Return the values of a record. Raises Unreadable."""
    try:
        header, at = _varint(payload, 0)
        kinds = []
        while at < header:
            kind, at = _varint(payload, at)
            kinds.append(kind)
        items = []
        for kind in kinds:
            length = _length(kind)
            items.append(_value(kind, payload[at : at + length]))
            at += length
    except (IndexError, struct.error, UnicodeDecodeError, ValueError) as error:
        raise Unreadable from error
    if at != len(payload):
        raise Unreadable
    return items


_FIXED = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes by serial type
_FIRST_BLOB, _FIRST_TEXT, _REAL = 12, 13, 7


def _length(kind: int) -> int:
    if kind < len(_FIXED):
        return _FIXED[kind]
    if kind < _FIRST_BLOB:
        raise ValueError(kind)
    return (kind - _FIRST_BLOB) // 2


def _value(kind: int, data: bytes) -> Value:
    if kind >= _FIRST_BLOB:
        return data.decode("utf-8") if kind % 2 else data
    if kind == 0:
        return None
    if kind >= 8:
        return kind - 8
    if kind == _REAL:
        real: float = struct.unpack(">d", data)[0]
        return real
    return int.from_bytes(data, "big", signed=True)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of one to nine bytes, and its end offset."""
    number = 0
    for place in range(at, at + 8):
        byte = data[place]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, place + 1
    return number << 8 | data[at + 8], at + 9


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _page_size(header: bytes) -> int | None:
    if len(header) < _HEADER or not header.startswith(_MAGIC):
        return None
    size: int = struct.unpack_from(">H", header, 16)[0]
    return _valid_size(65536 if size == 1 else size)


def _valid_size(size: int) -> int | None:
    return size if 512 <= size <= 65536 and size & (size - 1) == 0 else None


def _wal_page_size(wal: Path) -> int | None:
    with suppress(OSError, struct.error):
        with wal.open("rb") as file:
            magic, _, size = struct.unpack(">III", file.read(12))
        return _valid_size(size) if magic in _WAL_MAGIC else None
    return None


def _committed_frames(wal: Path, size: int) -> tuple[dict[int, int], int]:
    """Return the WAL offset of each page's newest committed version, and the database size in pages (0: unknown).

    Stops at the first frame with a wrong checksum, as SQLite does.
    """
    frames: dict[int, int] = {}
    count = 0
    try:
        file = wal.open("rb")
    except FileNotFoundError:
        return frames, count
    with file:
        header = file.read(_WAL_HEADER)
        if len(header) < _WAL_HEADER or _wal_page_size(wal) != size:
            return frames, count
        order = ">" if header[3] & 1 else "<"
        checksum = _checksum(header[:24], (0, 0), order)
        if checksum != struct.unpack_from(">II", header, 24):
            return frames, count
        pending: dict[int, int] = {}
        while len(frame := file.read(_FRAME_HEADER + size)) == _FRAME_HEADER + size:
            checksum = _checksum(frame[_FRAME_HEADER:], _checksum(frame[:8], checksum, order), order)
            if frame[8:16] != header[16:24] or checksum != struct.unpack_from(">II", frame, 16):
                break
            number, pages = struct.unpack_from(">II", frame)
            pending[number] = file.tell() - size
            if pages:
                frames |= pending
                pending, count = {}, pages
    return frames, count


def _checksum(data: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = before
    for low, high in struct.iter_unpack(f"{order}II", data):
        first = (first + low + second) & 0xFFFFFFFF
        second = (second + high + first) & 0xFFFFFFFF
    return first, second
