"""Messages with reads that did not count, kept for a replay after their tag or reader is set up.

The total size, the size for each reader, and the age are limited at insert. When the store is full, the oldest messages
of the largest source are deleted, so quiet readers lose nothing to busy ones. Messages whose reads were all recorded
are not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from edge.database.connection import execute, execute_many, scalar

HASH_BYTES = 4
ROW_BYTES = 100  # overhead of a row
SHARE = 4  # one source may use at most 1/4 of the window
MOST_TO_LOOK_AT = 500
RECOUNT_EVERY = 1_000


# (organization, reader); reader 0 stands for unassigned topics of an organization or of none (None).
Source = tuple[int | None, int]


class Pack(NamedTuple):
    """Messages of one reader (0: none) from one batch.

    `waits_for`: concatenated hashes of the unmatched tags. `data`: messages as packed by ingest.
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
    """Limits for the kept messages, with their size by source. Not thread-safe; use in a transaction."""

    def __init__(self, limit_bytes: int, keep_for: int) -> None:
        """Load the current sizes. `keep_for`: maximum age in microseconds."""
        self._limit = limit_bytes
        self._keep_for = keep_for
        self._bytes = _bytes_by_source()
        self._kept = 0

    def keep(self, packs: Iterable[Pack]) -> None:
        """Store packs, and delete old ones to stay within the limits."""
        for pack in packs:
            size = len(pack.data) + len(pack.waits_for) + ROW_BYTES
            if size > self._limit // SHARE:
                continue
            self._kept += 1
            if self._kept % RECOUNT_EVERY == 0:  # a rollback makes the sizes wrong
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
        """Delete one row. Returns False if there is none."""
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
        """Delete a replayed pack."""
        execute("DELETE FROM raw_message WHERE no = ?", (no,))
        size = len(pack.data) + len(pack.waits_for) + ROW_BYTES
        self._bytes[pack.source] = max(0, self._bytes.get(pack.source, 0) - size)


_OLDEST_OF_SOURCE = "SELECT min(no) FROM raw_message WHERE organization_id IS ? AND reader_id = ?"
_OUTDATED = (  # forces the index: with min(no), SQLite scans all rows
    "SELECT no FROM raw_message INDEXED BY raw_message_age WHERE received_at < ? ORDER BY received_at LIMIT 1"
)


def _bytes_by_source() -> dict[Source, int]:
    sql = "SELECT organization_id, reader_id, sum(size) FROM raw_message GROUP BY organization_id, reader_id"
    return {(organization_id, reader_id): size for organization_id, reader_id, size in execute(sql)}


class ReplayRequest(NamedTuple):
    """Request to replay messages for a reader that was set up, or a tag that was attached (by its hash)."""

    no: int
    organization_id: int
    reader_id: int | None
    tag_hash: bytes | None


def request_for_reader(organization_id: int, reader_id: int) -> None:
    """Request a replay after a reader was set up or changed, in the caller's transaction."""
    execute("INSERT INTO replay (organization_id, reader_id) VALUES (?, ?)", (organization_id, reader_id))


def request_for_tags(organization_id: int, keys: Iterable[tuple[str, str]]) -> None:
    """Request a replay for attached tags, in the caller's transaction. `keys`: (type, match key)."""
    if newest():
        execute_many(
            "INSERT INTO replay (organization_id, tag_hash) VALUES (?, ?)",
            ((organization_id, hash_of(organization_id, *key)) for key in keys),
        )


def requests() -> list[ReplayRequest]:
    """Return the open requests, oldest first."""
    rows = execute("SELECT no, organization_id, reader_id, tag_hash FROM replay ORDER BY no")
    return [ReplayRequest(*row) for row in rows]


def close_requests(up_to: int) -> None:
    """Delete requests up to a number."""
    execute("DELETE FROM replay WHERE no <= ?", (up_to,))


def newest() -> int:
    """Return the number of the newest pack, 0 if there is none."""
    return scalar("SELECT ifnull(max(no), 0) FROM raw_message")


def outlines(after: int, up_to: int) -> list[tuple[int, int, bytes]]:
    """Return (no, reader, waits_for) of the next packs, oldest first, at most `MOST_TO_LOOK_AT`."""
    return execute(
        "SELECT no, reader_id, waits_for FROM raw_message WHERE no > ? AND no <= ? ORDER BY no LIMIT ?",
        (after, up_to, MOST_TO_LOOK_AT),
    ).fetchall()


def load(no: int) -> Pack:
    """Return an existing pack."""
    columns = "organization_id, reader_id, received_at, waits_for, data"
    return Pack(*execute(f"SELECT {columns} FROM raw_message WHERE no = ?", (no,)).fetchone())


def hash_of(organization_id: int, tag_type: str, match_key: str) -> bytes:
    return blake2b(f"{organization_id} {tag_type} {match_key}".encode(), digest_size=HASH_BYTES).digest()


def hashes(waits_for: bytes) -> Iterator[bytes]:
    return (waits_for[at : at + HASH_BYTES] for at in range(0, len(waits_for), HASH_BYTES))
