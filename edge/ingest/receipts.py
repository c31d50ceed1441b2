"""Which messages were committed lately: a broker that saw no acknowledgement sends them again, and readers do, too."""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct

from edge.store import receipts

DIGEST_BYTES = 16
PACKET_IDS = 65_536
_ENTRY = Struct(f">H?{DIGEST_BYTES}s")  # packet id, whether it was recorded, digest


# Packet id, digest, and whether all its reads are in the history: the same message again is a repeat then. One that was
# not recorded may be sent again after a tag, an antenna or a location was set up, and counts then.
Receipt = tuple[int, bytes, bool]


class Receipts:
    """The digest of the message last committed under each packet id. `keep` within a transaction, `add` after it."""

    def __init__(self) -> None:
        self._by_mid = [b""] * PACKET_IDS
        self._was_recorded = bytearray(PACKET_IDS)
        self._recorded: set[bytes] = set()
        self._count = 0
        for number, entries in receipts.load():
            self.add(_unpacked(entries))
            self._count = number

    def has(self, mid: int, digest: bytes) -> bool:
        return self._by_mid[mid] == digest

    def has_recorded(self, digest: bytes) -> bool:
        return digest in self._recorded

    def keep(self, committed: list[Receipt]) -> None:
        if committed:
            receipts.keep(self._count + len(committed), _packed(committed))

    def add(self, committed: list[Receipt]) -> None:
        self._count += len(committed)
        by_mid, was_recorded, recorded = self._by_mid, self._was_recorded, self._recorded
        for mid, digest, is_recorded in committed:
            if was_recorded[mid]:  # else the same message may have been recorded under another packet id
                recorded.discard(by_mid[mid])
            by_mid[mid], was_recorded[mid] = digest, is_recorded
            if is_recorded:
                recorded.add(digest)


def digest_of(topic: str, payload: bytes) -> bytes:
    return blake2b(topic.encode() + b"\0" + payload, digest_size=DIGEST_BYTES).digest()


def _packed(committed: list[Receipt]) -> bytes:
    return b"".join([_ENTRY.pack(mid, is_recorded, digest) for mid, digest, is_recorded in committed])


def _unpacked(entries: bytes) -> list[Receipt]:
    return [(mid, digest, is_recorded) for mid, is_recorded, digest in _ENTRY.iter_unpack(entries)]
