"""MQTT framing: messages are complete and in order for any split of the bytes; paho gets the other packets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.events.mqtt_session import MAX_PACKET
from edge.ingest.mqtt_framing import Delivery, Wire
from tests.ingest.packets import packet, publish


class Pipe:
    """Fake socket that returns prepared pieces, blocks after each one, and accepts `takes` bytes per call."""

    def __init__(self, pieces: Sequence[bytes] = (), takes: Sequence[int] = ()) -> None:
        self._pieces = list(pieces)
        self._is_empty = False
        self._takes = list(takes)
        self.sent = b""

    def recv(self, size: int) -> bytes:
        if self._is_empty or not self._pieces:
            self._is_empty = False
            raise BlockingIOError
        piece = self._pieces.pop(0)
        self._pieces[:0] = [piece[size:]] if piece[size:] else []
        self._is_empty = not piece[size:]
        return piece[:size]

    def send(self, data: bytes | bytearray) -> int:
        if not self._takes:
            raise BlockingIOError
        count = min(self._takes.pop(0), len(data))
        self.sent += bytes(data[:count])
        return count

    def close(self) -> None: ...

    def fileno(self) -> int:
        return -1

    def setblocking(self, flag: bool) -> None: ...

    def settimeout(self, seconds: float) -> None: ...

    def shutdown(self, how: int) -> None: ...


def drained(wire: Wire, takes: int) -> tuple[list[Delivery], bytes]:
    deliveries = [delivery for _ in range(takes) for delivery in wire.take()]
    rest = b""
    while wire.has_packets():
        rest += wire.recv(3)
    return deliveries, rest


deliveries = st.builds(
    lambda topic, payload, mid, retained, again: Delivery(topic, payload, mid, int(mid > 0), retained, again),
    st.binary(min_size=1, max_size=20),
    st.binary(max_size=20) | st.integers(100, 20_000).map(bytes),
    st.integers(0, 65_535),
    st.booleans(),
    st.booleans(),
)
others = st.builds(packet, st.sampled_from([0x20, 0x40, 0x90, 0xD0]), st.binary(max_size=200))


@given(st.lists(deliveries | others, max_size=8), st.lists(st.integers(1, 300), max_size=8))
def test_any_split_of_the_bytes_gives_the_same_packets(sent: list[Delivery | bytes], cuts: list[int]) -> None:
    stream = b"".join(publish(one) if isinstance(one, Delivery) else one for one in sent)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(stream[at : at + cut])
        at += cut
    pieces = [piece for piece in (*pieces, stream[at:]) if piece]
    messages, rest = drained(Wire(Pipe(pieces)), len(stream) // 65_536 + len(pieces) + 1)
    assert messages == [one for one in sent if isinstance(one, Delivery)]
    assert rest == b"".join(one for one in sent if isinstance(one, bytes))


def test_the_end_of_the_connection_reaches_paho() -> None:
    wire = Wire(Pipe([b"\xd0\x00", b""]))
    wire.take()
    assert wire.recv(5) == b"\xd0\x00"
    with pytest.raises(BlockingIOError):
        wire.recv(1)
    wire.take()
    assert wire.has_packets()
    assert wire.recv(1) == b""


@pytest.mark.parametrize(
    "impossible",
    [b"\x30\xff\xff\xff\xff\x01", b"\x36\x05\x00\x01a\x00\x01", b"\x32\x03\x00\x01a", b"\x30\x02\x00\x09", b"\x30\x00"],
    ids=["length of five bytes", "quality of service 3", "no packet id", "topic longer than the packet", "no topic"],
)
def test_protocol_errors_end_the_connection(impossible: bytes) -> None:
    with pytest.raises(ConnectionError):
        Wire(Pipe([impossible])).take()


@given(st.lists(st.integers(1, 65_535), min_size=1, max_size=50), st.lists(st.integers(1, 30), max_size=10))
def test_acknowledgements_and_packets_of_paho_keep_their_order(mids: list[int], takes: list[int]) -> None:
    pipe = Pipe(takes=takes)
    wire = Wire(pipe)
    wire.acknowledge(mids)
    assert wire.send(b"\xc0\x00") == 2
    pipe._takes = [1000]
    wire.flush()
    assert pipe.sent == b"".join(b"\x40\x02" + mid.to_bytes(2, "big") for mid in mids) + b"\xc0\x00"
    assert not wire.wants_write()


def test_close_waits_until_the_broker_has_read_everything() -> None:
    """Check the close: unread bytes would reset the connection, and the broker would stop reading."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        wire = Wire(socket.create_connection(listener.getsockname()))
        broker, _ = listener.accept()
    with broker:
        broker.sendall(publish(Delivery(b"a", b"unread", 1, 1, False, False)))
        wire.acknowledge([7])
        closing = threading.Thread(target=wire.close)
        closing.start()
        assert broker.recv(100) == b"\x40\x02\x00\x07"
        assert broker.recv(100) == b""
    closing.join(60)
    assert wire.fileno() == -1


@pytest.mark.parametrize("piece", [1_000, 65_536, 300_000])
def test_of_a_message_that_is_too_large_the_beginning_is_kept_and_the_next_ones_arrive(piece: int) -> None:
    """Memory for a packet of 256 MB, which a broker may announce, would end the service."""
    size = MAX_PACKET + 500_000
    large, small = (
        publish(Delivery(topic, payload, mid, 1, False, False))
        for topic, payload, mid in ((b"a/b", b"{" * size, 7), (b"a/c", b"{}", 8))
    )
    stream = large + small
    wire = Wire(Pipe([stream[at : at + piece] for at in range(0, len(stream), piece)]))  # type: ignore[arg-type]
    most, taken = 0, []
    for _ in range(len(stream) // min(piece, 65_536) + 2):
        taken += wire.take()
        most = max(most, len(wire._received))
    first, second = taken
    assert (first.topic, first.mid, len(first.payload) + first.dropped) == (b"a/b", 7, size)
    assert set(first.payload) == {ord("{")}
    assert (second.topic, second.payload, second.mid, second.dropped) == (b"a/c", b"{}", 8, 0)
    assert most < 500_000


def test_other_packets_that_are_too_large_end_the_connection() -> None:
    wire = Wire(Pipe([packet(0x20, bytes(MAX_PACKET + 1))[:200_000]]))  # type: ignore[arg-type]
    with pytest.raises(ConnectionError, match="too large"):
        wire.take()
