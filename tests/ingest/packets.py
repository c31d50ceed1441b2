"""Build MQTT packets, and a scripted broker for tests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from edge.ingest.mqtt_framing import Delivery

CONNECT, PUBLISH, PUBACK, SUBSCRIBE, PINGREQ = 1, 3, 4, 8, 12
GRANTED, REFUSED = 1, 0x80


def packet(head: int, body: bytes) -> bytes:
    length, encoded = len(body), b""
    while length > 127:
        encoded += bytes([length % 128 | 128])
        length //= 128
    return bytes([head]) + encoded + bytes([length]) + body


def publish(delivery: Delivery) -> bytes:
    head = 0x30 | delivery.is_redelivered << 3 | delivery.qos << 1 | delivery.is_retained
    mid = delivery.mid.to_bytes(2, "big") if delivery.qos else b""
    return packet(head, len(delivery.topic).to_bytes(2, "big") + delivery.topic + mid + delivery.payload)


class FakeBroker:
    """Broker that accepts one connection at a time. `granted`: reply to each subscription, `code`: reply to CONNECT."""

    def __init__(self, granted: int = GRANTED, code: int = 0) -> None:
        self._granted, self._code = granted, code
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"mqtt://127.0.0.1:{self._listener.getsockname()[1]}"
        self._connection: socket.socket | None = None
        self.connections = 0
        self.protocols: list[bytes] = []  # protocol of each connection attempt
        self.acknowledged: list[int] = []
        self.published = 0  # number of messages published by the client
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> FakeBroker:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        self._thread.join(60)

    def send(self, *deliveries: Delivery) -> None:
        assert self._connection
        self._connection.sendall(b"".join(publish(delivery) for delivery in deliveries))

    def hang_up(self) -> None:
        if self._connection:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        while True:
            try:
                self._connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with self._connection, self._connection.makefile("rb") as stream:
                try:
                    while head := stream.read(1):
                        self._answer(head[0] >> 4, stream.read(_length(stream.read)))
                except (OSError, ValueError):
                    continue

    def _answer(self, kind: int, body: bytes) -> None:
        assert self._connection
        if kind == CONNECT:
            self.protocols.append(body[2 : 3 + body[1]])
            self._connection.sendall(bytes([0x20, 2, 0, self._code]))
        elif kind == SUBSCRIBE:
            topics, at = 0, 2
            while at < len(body):
                at += 3 + int.from_bytes(body[at : at + 2], "big")
                topics += 1
            self._connection.sendall(packet(0x90, body[:2] + bytes([self._granted]) * topics))
        elif kind == PINGREQ:
            self._connection.sendall(b"\xd0\x00")
        elif kind == PUBLISH:
            self.published += 1
        elif kind == PUBACK:
            self.acknowledged.append(int.from_bytes(body, "big"))


def _length(read: Callable[[int], bytes]) -> int:
    length = shift = 0
    while True:
        byte = read(1)[0]
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return length
