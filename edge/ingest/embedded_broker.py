"""Embedded MQTT broker for demos and tests. A production site runs mosquitto."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

from amqtt.adapters import StreamReaderAdapter, StreamWriterAdapter
from amqtt.broker import Broker
from amqtt.errors import BrokerError

from edge import clock
from edge.errors import SetupError
from edge.readers.sign_ins import SIGN_INS

START_SECONDS = 10.0
STOP_SECONDS = 2.0
_MQTT_3_1, _MQTT_3_1_1 = b"\x00\x06MQIsdp\x03", b"\x00\x04MQTT\x04"  # name and level
_LENGTH_BYTES = 2
_LOG = logging.getLogger(__name__)


class EmbeddedBroker:
    """amqtt on an event loop in its own thread. It requires no password and loses all data at a restart."""

    def __init__(self, listen: str) -> None:
        self._listen = listen
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
        # amqtt logs harmless events, such as early acknowledgements, as errors with a traceback.
        for name in ("amqtt", "transitions"):
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def start(self) -> None:
        """Start the broker and wait until it listens. Raises SetupError if the port cannot be used."""
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_SECONDS)
        except BrokerError as error:
            raise SetupError(
                f"The embedded broker cannot listen on {self._listen}: {error.__cause__ or error}. "
                "Give mqtt.listen a free port, or set mqtt.broker to the address of the running broker."
            ) from error

    def stop(self) -> None:
        try:
            asyncio.run_coroutine_threadsafe(self._broker.shutdown(), self._loop).result(STOP_SECONDS)
        except TimeoutError:
            _LOG.warning("The embedded broker did not close within %s seconds", STOP_SECONDS)
        with contextlib.suppress(TimeoutError):  # a task ignores that it is canceled
            asyncio.run_coroutine_threadsafe(_cancel_tasks(), self._loop).result(STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _start(self) -> None:
        self._broker = _Broker(
            {
                "listeners": {"default": {"type": "tcp", "bind": self._listen}},
                "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
            },
            loop=self._loop,
        )
        await self._broker.start()


class _Broker(Broker):  # type: ignore[misc, unused-ignore]
    async def stream_connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener_name: str
    ) -> None:
        address = str((writer.get_extra_info("peername") or ("?",))[0])
        await self._client_connected(listener_name, _Reader(reader, address), StreamWriterAdapter(writer))


class _Reader(StreamReaderAdapter):  # type: ignore[misc, unused-ignore]
    """Bytes of a client. MQTT 3.1 becomes 3.1.1, which differs in name and level only; amqtt refuses other versions."""

    _is_known = False
    _rest = b""

    def __init__(self, reader: asyncio.StreamReader, address: str) -> None:
        super().__init__(reader)
        self._address = address

    async def read(self, n: int = -1) -> bytes:
        if self._rest:
            data, self._rest = self._rest[:n], self._rest[n:]
            return data
        data = await super().read(n)
        if not self._is_known and len(data) == _LENGTH_BYTES:  # of the name, the first text in CONNECT
            self._is_known = True
            protocol = data + await super().read(int.from_bytes(data) + 1)
            if protocol not in (_MQTT_3_1, _MQTT_3_1_1):
                _LOG.warning("A client was refused: set MQTT 3.1.1 on the device, not version %s", protocol[-1])
                SIGN_INS.refuse(self._address, clock.now())
            protocol = _MQTT_3_1_1 if protocol == _MQTT_3_1 else protocol
            data, self._rest = protocol[:_LENGTH_BYTES], protocol[_LENGTH_BYTES:]
        return data


async def _cancel_tasks() -> None:
    """Cancel all other tasks of this loop and wait for their end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
