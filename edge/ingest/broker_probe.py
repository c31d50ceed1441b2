"""Short connections to the broker, separate from the permanent subscriber."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.reasoncodes import ReasonCode

from edge.errors import Unavailable
from edge.events.mqtt_session import Address, Client, make_client
from edge.ingest.sessions import Broker

SECONDS = 5.0
SESSIONS_SECONDS = 15.0  # for all sessions; a start of mosquitto waits for it
CLEARING_SECONDS = 20.0
QUIET_SECONDS = 0.5  # without a message: all have arrived


def ask(broker: Broker, topics: Sequence[str]) -> dict[str, str]:
    """Return the retained values of some topics; topics without a value are left out.

    Raises Unavailable if the broker cannot be reached.
    """
    client = make_client(Client, broker.address._replace(client_id=""))
    values: dict[str, str] = {}

    def on_message(_client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        values[message.topic] = message.payload.decode("utf-8", "replace")

    client.on_message = on_message
    _visit(client, broker.address.host, broker.address.port, topics, 0, lambda: len(values) == len(topics))
    return values


def leave_sessions(broker: Broker, topics: Sequence[str], socket: str, count: int) -> None:
    """Subscribe like the service and disconnect, which makes the broker queue messages for the service.

    `socket`: path of the Unix socket of the broker. Raises Unavailable if the broker refuses or is too slow.
    """
    deadline = time.monotonic() + SESSIONS_SECONDS
    for number in range(count):
        _leave_session(broker.of_session(number), topics, socket, deadline)


def _leave_session(broker: Broker, topics: Sequence[str], socket: str, deadline: float) -> None:
    client = _client_at(socket, broker.client_id, urlsplit(broker.url).username, is_clean=False)
    granted: list[ReasonCode] = []

    def on_subscribe(_client: Any, _data: Any, _mid: int, codes: list[ReasonCode], _properties: Any) -> None:
        granted.extend(codes)

    client.on_subscribe = on_subscribe
    _visit(client, socket, 1883, topics, 1, lambda: bool(granted), deadline - time.monotonic())
    if not granted or any(code.is_failure for code in granted):
        raise Unavailable(f"The broker on {socket} rejected the subscription")


def clear_retained(name: str, socket: str, kept: Collection[str]) -> int:
    """Delete retained messages, except on the topics `kept`. Returns their number.

    `name`: account without a session, because the broker disconnects the older of two clients with one account.
    `socket`: path of the Unix socket of the broker. Raises Unavailable if some are left in the end.
    """
    count, deadline = 0, time.monotonic() + CLEARING_SECONDS
    while topics := _retained_topics(name, socket) - set(kept):  # the broker sends a part of them at a time
        if time.monotonic() > deadline:
            raise Unavailable(f"The broker on {socket} still has retained messages on {len(topics)} topics or more")
        _clear(name, socket, topics)
        count += len(topics)
    return count


def clear_sessions(names: Iterable[str], socket: str) -> None:
    """Delete the sessions of accounts with their subscriptions, as many as CLEARING_SECONDS allow.

    Raises Unavailable without a broker.
    """
    deadline = time.monotonic() + CLEARING_SECONDS
    for name in names:
        _clear_session(name, socket)
        if time.monotonic() > deadline:
            break


def _clear_session(name: str, socket: str) -> None:
    client = _client_at(socket, name, name, is_clean=True)  # the broker deletes the session of a clean client
    _visit(client, socket, 1883, (), 0, client.is_connected)


def _retained_topics(name: str, socket: str) -> set[str]:
    client = _client_at(socket, "", name, is_clean=True)
    topics: set[str] = set()
    newest = float("inf")  # time of the newest message

    def on_message(_client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        nonlocal newest
        newest = time.monotonic()
        if message.retain:
            topics.add(message.topic)

    def on_subscribe(*_: object) -> None:
        nonlocal newest
        newest = time.monotonic()

    client.on_message, client.on_subscribe = on_message, on_subscribe
    _visit(client, socket, 1883, ["#"], 0, lambda: time.monotonic() > newest + QUIET_SECONDS)
    return topics


def _clear(name: str, socket: str, topics: Collection[str]) -> None:
    client = _client_at(socket, "", name, is_clean=True)
    acknowledged: list[int] = []
    client.on_publish = lambda *arguments: acknowledged.append(arguments[2])
    for topic in topics:
        client.publish(topic, b"", qos=1, retain=True)
    _visit(client, socket, 1883, (), 1, lambda: len(acknowledged) == len(topics))


def publish(broker: Broker, topic: str, payload: bytes, *, retain: bool = False) -> None:
    """Publish one message at QoS 1 and wait for the acknowledgement. Raises Unavailable without one."""
    client = make_client(Client, broker.address._replace(client_id=""))
    acknowledged: list[int] = []
    client.on_publish = lambda *arguments: acknowledged.append(arguments[2])
    # paho queues a message that is published before the connection exists.
    client.publish(topic, payload, qos=1, retain=retain)
    _visit(client, broker.address.host, broker.address.port, (), 1, lambda: bool(acknowledged))
    if not acknowledged:
        raise Unavailable(f"The broker {broker.address.host} did not acknowledge a message")


def _client_at(socket: str, client_id: str, name: str | None, *, is_clean: bool) -> mqtt.Client:
    """Return a client of the broker on a Unix socket. Its session is kept unless it is clean."""
    if not Path(socket).is_socket():
        raise Unavailable(f"No broker listens on {socket}")
    client = make_client(Client, Address("", client_id), clean_session=is_clean, transport="unix")
    client.username_pw_set(name)
    return client


def _visit(
    client: mqtt.Client,
    host: str,
    port: int,
    topics: Sequence[str],
    qos: int,
    is_done: Callable[[], bool],
    seconds: float = SECONDS,
) -> None:
    refused: list[str] = []

    # Without `client` in this function no cycle is made, and paho closes its sockets as soon as the caller returns.
    def on_connect(visitor: mqtt.Client, _data: Any, _flags: Any, reason: ReasonCode, _properties: Any) -> None:
        if reason.is_failure:
            refused.append(str(reason))
        elif topics:
            visitor.subscribe([(topic, qos) for topic in topics])

    client.on_connect = on_connect
    deadline = time.monotonic() + min(seconds, SECONDS)
    try:
        client.connect(host, port)
        while not refused and not is_done() and time.monotonic() < deadline:
            client.loop(0.2)
        client.disconnect()
    except OSError as error:
        raise Unavailable(f"The broker {host} cannot be reached: {error}") from error
    if refused:
        raise Unavailable(f"The broker {host} refused the connection: {refused[0]}")
