"""Which messages were committed lately: a broker that saw no acknowledgement sends them again, and readers do, too."""

from __future__ import annotations

from hashlib import blake2b

from edge.store import receipts

DIGEST_BYTES = 16
MID_BYTES = 2


class Receipts:
    """The digest of the message last committed under each packet id. `keep` within a transaction, `add` after it."""

    def __init__(self) -> None:
        self._by_mid: dict[int, bytes] = {}
        self._digests: set[bytes] = set()
        self._count = 0
        for number, entries in receipts.load():
            self.add(_unpacked(entries))
            self._count = number

    def has(self, mid: int, digest: bytes) -> bool:
        return self._by_mid.get(mid) == digest

    def has_digest(self, digest: bytes) -> bool:
        return digest in self._digests

    def keep(self, committed: list[tuple[int, bytes]]) -> None:
        if committed:
            receipts.keep(self._count + len(committed), _packed(committed))

    def add(self, receipts: list[tuple[int, bytes]]) -> None:
        self._count += len(receipts)
        for mid, digest in receipts:
            self._digests.discard(self._by_mid.get(mid, b""))
            self._by_mid[mid] = digest
            self._digests.add(digest)


def digest_of(topic: str, payload: bytes) -> bytes:
    return blake2b(topic.encode() + b"\0" + payload, digest_size=DIGEST_BYTES).digest()


def _packed(receipts: list[tuple[int, bytes]]) -> bytes:
    return b"".join([mid.to_bytes(MID_BYTES, "big") + digest for mid, digest in receipts])


def _unpacked(entries: bytes) -> list[tuple[int, bytes]]:
    size = MID_BYTES + DIGEST_BYTES
    return [
        (int.from_bytes(entries[at : at + MID_BYTES], "big"), entries[at + MID_BYTES : at + size])
        for at in range(0, len(entries), size)
    ]
