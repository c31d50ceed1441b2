"""A window of the messages that did not count, or not wholly: what came before a tag or a reader was set up.

Bounded at insert, in bytes for each reader and for the box, and in age. When the box is full, the oldest goes of who
has most: readers that send little lose nothing to those that send much. Messages whose reads were all recorded are not
in it, so that it holds much time on a site that is well set up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from edge.database.connection import execute, execute_many

HASH_BYTES = 4
ROW_BYTES = 100  # what a row costs beside its data
SHARE = 4  # one source has at most this part of the window
MOST_TO_LOOK_AT = 500
RECOUNT_EVERY = 1_000


# A reader; or reader 0, the topics of an organization that no reader claims, or of no organization (None).
Source = tuple[int | None, int]


class Pack(NamedTuple):
    """Messages of one reader (0: of none) that came in one batch.

    `waits_for` holds the hash of each tag in it that belonged to no asset, `data` is what ingest makes of it.
    """

    organization_id: int | None
    reader_id: int
    received_at: int
    waits_for: bytes
    data: bytes

    @property
    def source(self) -> Source:
        return self.organization_id, self.reader_id


class Window:
    """What the window holds of each source, in bytes. For one thread, within its transactions."""

    def __init__(self, limit_bytes: int, keep_for: int) -> None:
        """`keep_for` in microseconds."""
        self._limit = limit_bytes
        self._keep_for = keep_for
        self._bytes = _bytes_by_source()
        self._kept = 0

    def keep(self, packs: Iterable[Pack]) -> None:
        for pack in packs:
            size = len(pack.data) + len(pack.waits_for) + ROW_BYTES
            if size > self._limit // SHARE:
                continue
            self._kept += 1
            if self._kept % RECOUNT_EVERY == 0:  # a transaction may have been rolled back since
                self._bytes = _bytes_by_source()
            execute(
                "INSERT INTO raw_message (organization_id, reader_id, received_at, waits_for, data, size) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (*pack, size),
            )
            self._bytes[pack.source] = self._bytes.get(pack.source, 0) + size
            self._make_room(pack)

    def _make_room(self, pack: Pack) -> None:
        while self._bytes[pack.source] > self._limit // SHARE and self._drop(_OLDEST_OF_SOURCE, pack.source):
            pass
        while sum(self._bytes.values()) > self._limit and self._drop(_OLDEST_OF_SOURCE, self._largest()):
            pass
        while self._drop(_OUTDATED, (pack.received_at - self._keep_for,)):
            pass

    def _largest(self) -> Source:
        return max(self._bytes, key=self._bytes.__getitem__)

    def _drop(self, choice: str, parameters: tuple[int | None, ...]) -> bool:
        """One row; whether there was one."""
        row = execute(
            f"DELETE FROM raw_message WHERE no = ({choice}) RETURNING organization_id, reader_id, size",
            parameters,
        ).fetchone()
        if row is None:
            return False
        source = row[:2]
        self._bytes[source] = max(0, self._bytes.get(source, 0) - row[2])
        return True

    def remove(self, no: int, pack: Pack) -> None:
        """It was replayed, and what still waits is kept anew."""
        execute("DELETE FROM raw_message WHERE no = ?", (no,))
        size = len(pack.data) + len(pack.waits_for) + ROW_BYTES
        self._bytes[pack.source] = max(0, self._bytes.get(pack.source, 0) - size)


_OLDEST_OF_SOURCE = "SELECT min(no) FROM raw_message WHERE organization_id IS ? AND reader_id = ?"
_OUTDATED = (  # by the index: with min(no) SQLite looks at every row to find that there is none
    "SELECT no FROM raw_message INDEXED BY raw_message_age WHERE received_at < ? ORDER BY received_at LIMIT 1"
)


def _bytes_by_source() -> dict[Source, int]:
    sql = "SELECT organization_id, reader_id, sum(size) FROM raw_message GROUP BY organization_id, reader_id"
    return {(organization_id, reader_id): size for organization_id, reader_id, size in execute(sql)}


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
    if newest():
        execute_many(
            "INSERT INTO replay (organization_id, tag_hash) VALUES (?, ?)",
            ((organization_id, hash_of(organization_id, *key)) for key in keys),
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
    return Pack(*execute(f"SELECT {columns} FROM raw_message WHERE no = ?", (no,)).fetchone())


def hash_of(organization_id: int, tag_type: str, match_key: str) -> bytes:
    return blake2b(f"{organization_id} {tag_type} {match_key}".encode(), digest_size=HASH_BYTES).digest()


def hashes(waits_for: bytes) -> Iterator[bytes]:
    return (waits_for[at : at + HASH_BYTES] for at in range(0, len(waits_for), HASH_BYTES))
