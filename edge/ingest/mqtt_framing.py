"""Socket wrapper for paho that reads MQTT messages in batches.

Decision record: web/manual/decisions/mqtt-framing.md
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec import Struct, structs

from edge.events.mqtt_session import MAX_PACKET

READ_BYTES = 262_144
_BEGINNING = 131_072  # bytes; the longest topic and enough of the payload
GOODBYE_SECONDS = 1.0
PUBLISH = 0x30
PUBACK = b"\x40\x02"
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Delivery(Struct, frozen=True, gc=False):
    """PUBLISH packet from the broker; `mid` is 0 at QoS 0."""

    topic: bytes
    payload: bytes
    mid: int
    qos: int
    is_retained: bool
    is_redelivered: bool
    dropped: int = 0  # bytes at the end of a payload that is larger than a packet may be


class Wire:
    """Socket for paho, with methods to read and acknowledge messages in batches. Not thread-safe."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._received = bytearray()
        self._for_paho = bytearray()
        self._unsent = bytearray()
        self._has_ended = False
        self._excess = 0  # bytes that will arrive of a packet whose beginning was delivered

    # Called by paho ----------------------------------------------------------------------------------------------

    def recv(self, size: int) -> bytes:
        if not self._for_paho:
            if self._has_ended:
                return b""
            raise BlockingIOError
        taken = bytes(self._for_paho[:size])
        del self._for_paho[:size]
        return taken

    def send(self, data: bytes | bytearray) -> int:
        """Accept all of `data`. Bytes that the socket does not take now are sent by the next `flush`."""
        self._unsent += data
        self.flush()
        return len(data)

    def close(self) -> None:
        """Close after the broker has read everything. Closing while it sends would discard our last packets."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(GOODBYE_SECONDS)
            deadline = time.monotonic() + GOODBYE_SECONDS
            while self._socket.recv(READ_BYTES) and time.monotonic() < deadline:
                pass
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def setblocking(self, flag: bool) -> None:
        self._socket.setblocking(flag)

    # Called by the subscriber ------------------------------------------------------------------------------------

    def has_packets(self) -> bool:
        """Return True if paho has packets to read."""
        return bool(self._for_paho) or self._has_ended

    def has_decrypted(self) -> bool:
        """Return True if TLS has decrypted data that `select` does not report."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def wants_write(self) -> bool:
        return bool(self._unsent)

    def take(self) -> list[Delivery]:
        """Return the messages that have arrived, from at most `READ_BYTES`. Raises OSError if the connection breaks."""
        room = READ_BYTES
        with suppress(*WOULD_BLOCK):
            while room and not self._has_ended:  # with TLS, a call returns one record, often with one message
                data = self._socket.recv(room)
                self._has_ended = not data
                self._received += data
                room -= len(data)
        return list(self._deliveries())

    def acknowledge(self, mids: Iterable[int]) -> None:
        self._unsent += b"".join([PUBACK + mid.to_bytes(2, "big") for mid in mids])
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except WOULD_BLOCK:
            return

    def _deliveries(self) -> Iterator[Delivery]:
        """Parse the complete packets. Yields messages and keeps other packets for paho."""
        excess = min(self._excess, len(self._received))
        del self._received[:excess]
        self._excess -= excess
        frame = _frame(self._received, 0)
        if not frame or frame[1] > len(self._received):
            if frame and frame[1] > MAX_PACKET and len(self._received) >= _BEGINNING:
                yield self._beginning(*frame)
            return
        buffer, start = bytes(self._received), 0  # slicing bytes takes half the time of slicing a bytearray
        while (frame := _frame(buffer, start)) and frame[1] <= len(buffer):
            body, end = frame
            if buffer[start] & 0xF0 == PUBLISH:
                yield _delivery(buffer, buffer[start], body, end)
            else:
                self._for_paho += buffer[start:end]
            start = end
        del self._received[:start]

    def _beginning(self, body: int, end: int) -> Delivery:
        """Return what has arrived of a large message, and drop its rest. Raises ConnectionError for other packets."""
        buffer = bytes(self._received)
        if buffer[0] & 0xF0 != PUBLISH:
            raise ConnectionError("the broker sent a packet that is too large")
        self._excess = end - len(buffer)
        self._received.clear()
        return structs.replace(_delivery(buffer, buffer[0], body, len(buffer)), dropped=self._excess)


def _frame(buffer: bytes | bytearray, start: int) -> tuple[int, int] | None:
    """Return the bounds of the body of the packet at `start`, or None while its length is incomplete."""
    length = shift = 0
    for at, byte in enumerate(buffer[start + 1 : start + 5], start=start + 1):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at + 1, at + 1 + length
        shift += 7
    if len(buffer) >= start + 5:
        raise ConnectionError("the broker sent a packet with an impossible length")
    return None


def _delivery(buffer: bytes, head: int, body: int, end: int) -> Delivery:
    qos = head >> 1 & 3
    topic = body + 2
    topic_end = topic + int.from_bytes(buffer[body:topic], "big")
    payload = topic_end + 2 if qos else topic_end
    if payload > end or qos > 1:
        raise ConnectionError("the broker sent a malformed message")
    mid = int.from_bytes(buffer[topic_end:payload], "big")
    return Delivery(buffer[topic:topic_end], buffer[payload:end], mid, qos, bool(head & 1), bool(head & 8))
