"""A window of the messages that did not count, or not wholly: what came before a tag or a reader was set up.

Bounded at insert, in bytes for each reader and for the box, and in age. Messages whose reads were all recorded are not
in it, so that it holds much time on a site that is well set up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from edge.store.database import execute

HASH_BYTES = 4
ROW_BYTES = 100  # what a row costs beside its data
SHARE = 4  # one reader has at most this part of the window
MOST_TO_LOOK_AT = 500
RECOUNT_EVERY = 1_000


class Pack(NamedTuple):
    """Messages of one reader (0: of none) that came in one batch.

    `waits_for` holds the hash of each tag in it that belonged to no asset, `data` is what ingest makes of it.
    """

    organization_id: int | None
    reader_id: int
    received_at: int
    waits_for: bytes
    data: bytes


class Window:
    """What the window holds of each reader, in bytes. For one thread, within its transactions."""

    def __init__(self, limit_bytes: int, keep_for: int) -> None:
        """`keep_for` in microseconds."""
        self._limit = limit_bytes
        self._keep_for = keep_for
        self._bytes = _bytes_by_reader()
        self._kept = 0

    def keep(self, packs: Iterable[Pack]) -> None:
        for pack in packs:
            size = len(pack.data) + len(pack.waits_for) + ROW_BYTES
            if size > self._limit // SHARE:
                continue
            self._kept += 1
            if self._kept % RECOUNT_EVERY == 0:  # a transaction may have been rolled back since
                self._bytes = _bytes_by_reader()
            execute(
                "INSERT INTO raw_message (organization_id, reader_id, received_at, waits_for, data, size) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (*pack, size),
            )
            self._bytes[pack.reader_id] = self._bytes.get(pack.reader_id, 0) + size
            self._make_room(pack)

    def _make_room(self, pack: Pack) -> None:
        while self._bytes[pack.reader_id] > self._limit // SHARE and self._drop("reader_id = ?", pack.reader_id):
            pass
        while sum(self._bytes.values()) > self._limit and self._drop("no > ?", 0):
            pass
        while self._drop("received_at < ?", pack.received_at - self._keep_for):
            pass

    def _drop(self, condition: str, value: int) -> bool:
        """The oldest row of those; whether there was one."""
        sql = f"SELECT min(no) FROM raw_message WHERE {condition}"  # noqa: S608  conditions of ours
        row = execute(
            f"DELETE FROM raw_message WHERE no = ({sql}) RETURNING reader_id, size",  # noqa: S608
            (value,),
        ).fetchone()
        if row is None:
            return False
        self._bytes[row[0]] = max(0, self._bytes.get(row[0], 0) - row[1])
        return True

    def remove(self, no: int, pack: Pack) -> None:
        """It was replayed, and what still waits is kept anew."""
        execute("DELETE FROM raw_message WHERE no = ?", (no,))
        size = len(pack.data) + len(pack.waits_for) + ROW_BYTES
        self._bytes[pack.reader_id] = max(0, self._bytes.get(pack.reader_id, 0) - size)


def _bytes_by_reader() -> dict[int, int]:
    return dict(execute("SELECT reader_id, sum(size) FROM raw_message GROUP BY reader_id").fetchall())


class Order(NamedTuple):
    """Replay what waited: for one reader that was set up, or for one tag that was attached (by its hash)."""

    no: int
    organization_id: int
    reader_id: int | None
    tag_hash: bytes | None


def order_for_reader(organization_id: int, reader_id: int) -> None:
    """Its format, its topic, or where it stands was set up. Within the caller's transaction."""
    execute("INSERT INTO replay (organization_id, reader_id) VALUES (?, ?)", (organization_id, reader_id))


def order_for_tags(organization_id: int, keys: Iterable[tuple[str, str]]) -> None:
    """(type, match key) of tags that were attached. Within the caller's transaction."""
    for tag_type, match_key in keys:
        execute(
            "INSERT INTO replay (organization_id, tag_hash) SELECT ?, ? WHERE EXISTS (SELECT 1 FROM raw_message)",
            (organization_id, hash_of(organization_id, tag_type, match_key)),
        )


def orders() -> list[Order]:
    return [Order(*row) for row in execute("SELECT no, organization_id, reader_id, tag_hash FROM replay ORDER BY no")]


def done(up_to: int) -> None:
    execute("DELETE FROM replay WHERE no <= ?", (up_to,))


def newest() -> int:
    number: int = execute("SELECT ifnull(max(no), 0) FROM raw_message").fetchone()[0]
    return number


def outlines(after: int, up_to: int) -> list[tuple[int, int, bytes]]:
    """(no, reader, waits_for) of the next few packs, the oldest first."""
    return execute(
        "SELECT no, reader_id, waits_for FROM raw_message WHERE no > ? AND no <= ? ORDER BY no LIMIT ?",
        (after, up_to, MOST_TO_LOOK_AT),
    ).fetchall()


def load(no: int) -> Pack:
    columns = "organization_id, reader_id, received_at, waits_for, data"
    return Pack(*execute(f"SELECT {columns} FROM raw_message WHERE no = ?", (no,)).fetchone())  # noqa: S608


def hash_of(organization_id: int, tag_type: str, match_key: str) -> bytes:
    return blake2b(f"{organization_id} {tag_type} {match_key}".encode(), digest_size=HASH_BYTES).digest()


def hashes(waits_for: bytes) -> Iterator[bytes]:
    return (waits_for[at : at + HASH_BYTES] for at in range(0, len(waits_for), HASH_BYTES))
