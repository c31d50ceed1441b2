"""A simulated slow line between a site and its hub, with TLS in front of the hub, on one machine.

Data arrives in order, with a varying delay and limited bandwidth. A lost segment delays all data behind it until it is
resent, as with TCP: after one round trip if enough segments follow, otherwise after a timeout. Connections are cut
occasionally.

This is a program, since network namespaces with `tc netem` need root and a kernel module that is often missing.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from contextlib import suppress
from typing import NamedTuple

from tests.sync.tls import Certificate

SEGMENT = 1448
FOLLOWERS = 3  # segments behind a lost one that trigger a fast retransmit
TIMER = 0.2  # seconds, plus a round trip
WINDOW = 64  # chunks in transit


class Way(NamedTuple):
    """Properties of the line: delay (s), bandwidth (bytes/s), loss (share of segments), mean lifetime (s)."""

    delay: float = 0.04
    jitter: float = 0.01
    bandwidth: float = 2_500_000
    loss: float = 0.01
    lifetime: float = 20.0


def line(port: int, to: int, certificate: Certificate, way: Way, seed: int) -> None:
    """Forward from `port` until the process is killed. Plain HTTP goes to the port `to`."""
    asyncio.run(_serve(port, to, certificate, way, random.Random(f"{seed} {os.getpid()}")))


async def _serve(port: int, to: int, certificate: Certificate, way: Way, chance: random.Random) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.file, certificate.key)

    async def before_hub(client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        await _join(client, answer, to, None, chance)

    tls_end = await asyncio.start_server(before_hub, "127.0.0.1", 0, ssl=context)
    tls_port = tls_end.sockets[0].getsockname()[1]

    async def far_away(client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2 * way.delay)  # connection setup
        with suppress(TimeoutError):
            await asyncio.wait_for(_join(client, answer, tls_port, way, chance), chance.expovariate(1 / way.lifetime))

    await (await asyncio.start_server(far_away, "127.0.0.1", port)).serve_forever()


async def _join(
    client: asyncio.StreamReader, answer: asyncio.StreamWriter, to: int, way: Way | None, chance: random.Random
) -> None:
    """Forward in both directions until one side closes or the connection is cut."""
    writers = [answer]
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", to)
        writers.append(writer)
        both = (_carry(client, writer, way, chance), _carry(reader, answer, way, chance))
        tasks = [asyncio.ensure_future(one) for one in both]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
    except OSError:
        pass
    finally:
        for one in writers:
            one.close()


async def _carry(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Way | None, chance: random.Random
) -> None:
    with suppress(OSError):
        if way is None:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
            return
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WINDOW)
        arriving = asyncio.ensure_future(_arrive(pieces, sink))
        try:
            await _depart(source, pieces, way, chance)
            await arriving
        finally:
            arriving.cancel()


async def _depart(
    source: asyncio.StreamReader, pieces: asyncio.Queue[tuple[float, bytes]], way: Way, chance: random.Random
) -> None:
    now = asyncio.get_running_loop().time
    free_at = due = now()
    while data := await source.read(10 * SEGMENT):
        free_at = max(free_at, now()) + len(data) / way.bandwidth
        due = max(due, free_at + way.delay + chance.uniform(0, way.jitter)) + _stalls(len(data), way, chance)
        await pieces.put((due, data))
    await pieces.put((due, b""))


def _stalls(length: int, way: Way, chance: random.Random) -> float:
    """Return the delay in seconds caused by lost segments."""
    segments = -(-length // SEGMENT)
    lost = [segment for segment in range(segments) if chance.random() < way.loss]
    timers = sum(segments - segment <= FOLLOWERS for segment in lost)
    return len(lost) * 2 * way.delay + timers * TIMER


async def _arrive(pieces: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter) -> None:
    now = asyncio.get_running_loop().time
    while True:
        due, data = await pieces.get()
        await asyncio.sleep(max(0.0, due - now()))
        if not data:
            return
        sink.write(data)
        await sink.drain()
