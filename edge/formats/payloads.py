"""Decode custom payloads: JSON, lines of text (CSV), MessagePack or CBOR, each also compressed with gzip."""

from __future__ import annotations

import csv
import zlib
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

from msgspec import msgpack

from edge.formats import cbor
from edge.formats.framing import MOST_ENTRIES, as_text, bare, check_number, documents
from edge.formats.reads import Malformed

KINDS = ("json", "lines", "msgpack", "cbor")
MOST_UNZIPPED = 1_048_576  # bytes, like the largest message
_GZIP = b"\x1f\x8b"
HEADER = "header"  # instead of column names: the first line of each message has the names


class Extension(NamedTuple):
    """A value of an application's own MessagePack type, which no field can hold."""

    code: int
    content: bytes


class Room:
    """Bytes that one message may still unpack from gzip."""

    def __init__(self) -> None:
        self.left = MOST_UNZIPPED


def values(
    payload: bytes, kind: str, delimiter: str = ",", columns: tuple[str, ...] = (), room: Room | None = None
) -> list[Any]:
    """Return the values of a message. `kind`: one of KINDS; `delimiter` and `columns`: for lines. Raises Malformed."""
    payload = unzipped(payload, room or Room())
    if kind == "lines":
        return _lines(payload, delimiter, columns)
    if kind == "json":
        return _documents(payload)
    return _decoded("CBOR", cbor.decode, payload) if kind == "cbor" else _decoded("MessagePack", _unpack, payload)


def unzipped(payload: bytes, room: Room) -> bytes:
    """Return the content of a gzip file, and anything else as it is. Raises Malformed."""
    if not payload.startswith(_GZIP):
        return payload
    most = max(room.left, 1)  # 0 would be no limit
    stream = zlib.decompressobj(wbits=31)
    try:
        content = stream.decompress(payload, most)
    except zlib.error as error:
        raise Malformed(f"not gzip: {str(error)[:100]}") from None
    if not stream.eof:
        too_large = len(content) >= most
        raise Malformed(f"more than {MOST_UNZIPPED:,} bytes after gzip" if too_large else "the gzip data is incomplete")
    room.left -= len(content)
    return content


def _documents(payload: bytes) -> list[Any]:
    try:
        return documents(payload)
    except Malformed as error:
        begin = bare(payload)[:1]
        if not begin or begin in b"{[":
            raise
        other = "lines" if _is_text(payload) else "msgpack"
        raise Malformed(f'{error}. If the payload is not JSON, set "payload": "{other}"') from None


def _is_text(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lines(payload: bytes, delimiter: str, columns: tuple[str, ...]) -> list[Any]:
    """Return a value for each non-blank line: an object if the columns have names, otherwise a list."""
    try:
        lines = csv.reader(as_text(payload).splitlines(), delimiter=delimiter, skipinitialspace=True)
        rows = list(islice((row for row in lines if any(row)), MOST_ENTRIES + 2))  # with the heading
    except csv.Error as error:
        raise Malformed(f"not lines of columns: {error}") from None
    if not rows:
        raise Malformed("the message is empty")
    if columns == (HEADER,):
        columns, rows = tuple(name.strip() for name in rows[0]), rows[1:]
    check_number(len(rows))
    return [dict(zip(columns, row, strict=False)) for row in rows] if columns else [*rows]


def _decoded(name: str, decode: Callable[[bytes], Any], payload: bytes) -> list[Any]:
    try:
        value = decode(payload)
        check_number(len(value) if isinstance(value, list) else 1)
        value = _readable(value)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not {name}: {str(error)[:100] or type(error).__name__}") from None
    return value if isinstance(value, list) else [value]


def _unpack(payload: bytes) -> Any:
    return msgpack.decode(payload, ext_hook=_extension)


def _extension(code: int, content: memoryview) -> Extension:
    if code < 0:
        raise ValueError("an extension with a reserved code")
    return Extension(code, bytes(content))


def _readable(value: Any) -> Any:
    """Convert bytes to hex, as in the other formats. Names of fields must be text, as in JSON. Raises ValueError."""
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, dict):
        if not all(isinstance(name, str | bytes) for name in value):
            raise ValueError("the name of a field is not text")
        return {name: _readable(item) for name, item in value.items()}
    return [_readable(item) for item in value] if isinstance(value, list) else value
