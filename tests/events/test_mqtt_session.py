"""Which version of MQTT is used for a broker that closes connections."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from edge.events.delivery import Result
from edge.events.mqtt_session import Address, Publisher

PUBREC = 0x50  # first byte of the answer to a message of QoS 2
LEVEL = 8  # byte of CONNECT with the version: 4 is 3.1.1, 5 is 5


def test_a_broker_that_closes_a_connection_is_asked_again_for_version_5() -> None:
    """Regression: 3.1.1, which reports no refused message, was kept after a restart of the broker."""
    levels: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_all() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    levels.append(connection.recv(1024)[LEVEL])

        thread = threading.Thread(target=close_all, daemon=True)
        thread.start()
        publisher = Publisher(Address(f"mqtt://127.0.0.1:{server.getsockname()[1]}", "test"), 10)
        for _ in range(2):
            assert "closed the connection without an answer" in publisher.publish("a", b"b").detail
        server.shutdown(socket.SHUT_RDWR)
    thread.join(60)
    assert levels == [5, 4, 5, 4]


def test_a_broker_cannot_leave_messages_in_memory() -> None:
    """Regression: paho keeps each message of QoS 2 until the broker releases it, 65,535 of a megabyte each."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send_messages() -> None:
            connection, _ = server.accept()
            with connection, suppress(ConnectionResetError):
                connection.recv(1024)
                connection.sendall(b"\x20\x03\x00\x00\x00")  # CONNACK of version 5
                connection.sendall(b"\x34\x07\x00\x01a\x00\x01\x00b" * 3)  # PUBLISH with QoS 2
                while data := connection.recv(1024):
                    received.append(data)

        thread = threading.Thread(target=send_messages, daemon=True)
        thread.start()
        publisher = Publisher(Address(f"mqtt://127.0.0.1:{server.getsockname()[1]}", "test"), 10)
        assert publisher.publish("a", b"b").result is Result.FAILED
        publisher.close()
        thread.join(60)
    assert PUBREC not in {data[0] for data in received}
