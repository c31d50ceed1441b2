"""Digests of recently committed messages, to detect repeats by the broker (after a lost PUBACK) and by readers.

They are kept in memory, and on disk for a restart.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct

from edge.database.connection import execute

DIGEST_BYTES = 16
PACKET_IDS = 65_536
# For each additional session. The broker resends messages in flight, at most 2,000.
PLACES_OF_SESSION = 8_192
_MORE_PLACES = 256
_ENTRY = Struct(f">HB{DIGEST_BYTES}s")  # packet ID; session << 1 | is_recorded; digest


# Session, packet ID, digest, is_recorded. A message is recorded if all its reads are in the history; the same message
# is then a repeat. Otherwise it may count when it is sent again, for example after its tag has been registered.
Receipt = tuple[int, int, bytes, bool]


class Receipts:
    """Digests of the last committed messages by packet ID. Call `keep` in the transaction and `add` after it."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []  # grow with the packet IDs in use: all places together take 1.6 MB
        self._was_recorded = bytearray()
        self._recorded: set[bytes] = set()
        self._count = 0
        for number, entries in execute("SELECT number, entries FROM receipt ORDER BY number").fetchall():
            self.add(_unpacked(entries))
            self._count = number

    def has(self, session: int, mid: int, digest: bytes) -> bool:
        place = _place(session, mid)
        return place < len(self._digests) and self._digests[place] == digest

    def has_recorded(self, digest: bytes) -> bool:
        return digest in self._recorded

    def keep(self, committed: list[Receipt]) -> None:
        """Store receipts in the caller's transaction, and delete those that a redelivery can no longer need."""
        number = self._count + len(committed)
        execute("INSERT INTO receipt (number, entries) VALUES (?, ?)", (number, _packed(committed)))
        execute("DELETE FROM receipt WHERE number < ?", (number - PACKET_IDS,))

    def add(self, committed: list[Receipt]) -> None:
        """Note receipts in memory after the commit."""
        self._count += len(committed)
        digests, was_recorded, recorded = self._digests, self._was_recorded, self._recorded
        for session, mid, digest, is_recorded in committed:
            place = _place(session, mid)
            if place >= len(digests):
                more = place + 1 - len(digests) + _MORE_PLACES
                digests += [b""] * more
                was_recorded += bytes(more)
            if was_recorded[place]:  # otherwise the message may have been recorded under another packet ID
                recorded.discard(digests[place])
            digests[place], was_recorded[place] = digest, is_recorded
            if is_recorded:
                recorded.add(digest)


def _place(session: int, mid: int) -> int:
    return mid if session == 0 else PACKET_IDS + (session - 1) * PLACES_OF_SESSION + mid % PLACES_OF_SESSION


def digest_of(topic: str, payload: bytes) -> bytes:
    return blake2b(topic.encode() + b"\0" + payload, digest_size=DIGEST_BYTES).digest()


def _packed(committed: list[Receipt]) -> bytes:
    return b"".join(
        [_ENTRY.pack(mid, session << 1 | is_recorded, digest) for session, mid, digest, is_recorded in committed]
    )


def _unpacked(entries: bytes) -> list[Receipt]:
    return [(flags >> 1, mid, digest, bool(flags & 1)) for mid, flags, digest in _ENTRY.iter_unpack(entries)]
