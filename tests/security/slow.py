"""Measure the waiting time of a client while slow clients hold connections: `python -m tests.security.slow`.

Slow clients come from one address or from all of 127.0.0.0/8. They send one byte a second of the head or the body, or
nothing. The measured client requests a small page on a new connection each time.
"""

from __future__ import annotations

import argparse
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from flask import Flask

from edge.server import server

HEAD = b"POST / HTTP/1.1\r\nHost: box\r\nContent-Length: 1000000\r\n"
ASK = b"GET / HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n"
KINDS = {"silent": b"", "head": HEAD, "body": HEAD + b"\r\n"}


@contextmanager
def serving() -> Iterator[int]:
    app = Flask("slow")
    app.add_url_rule("/", view_func=lambda: "done", methods=["GET", "POST"])
    listener = server.create(app, "127.0.0.1", 0, 4)
    thread = threading.Thread(target=listener.run)
    thread.start()
    try:
        yield listener.effective_port  # type: ignore[union-attr]
    finally:
        server.stop(listener, 1)
        thread.join()


def attack(port: int, kind: str, number: int, addresses: int, stopping: threading.Event) -> None:
    """Reopen every connection that is closed."""
    with ExitStack() as stack:
        slow: list[socket.socket | None] = [None] * number
        while not stopping.wait(1):
            for place in range(number):
                slow[place] = _drip(
                    slow[place], port, kind, f"127.1.{place % addresses // 250}.{place % 250 + 1}", stack
                )


def _drip(client: socket.socket | None, port: int, kind: str, address: str, stack: ExitStack) -> socket.socket | None:
    try:
        if client is None:
            client = socket.create_connection(("127.0.0.1", port), 0.2, source_address=(address, 0))
            stack.push(client)
            client.sendall(KINDS[kind])
        elif kind != "silent":
            client.send(b"x")
        if select.select([client], [], [], 0)[0] and not client.recv(1000):
            raise ConnectionResetError
    except OSError:
        if client:
            client.close()
        return None
    return client


def waits(port: int, seconds: float) -> list[float]:
    """Return the time of each request of another client."""
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            with socket.create_connection(("127.0.0.1", port), seconds) as client:
                client.sendall(ASK)
                while client.recv(4096):
                    pass
        except OSError:
            pass
        times.append(time.monotonic() - began)
        time.sleep(0.05)
    return times


def measure(kind: str, number: int, addresses: int, seconds: float) -> str:
    stopping = threading.Event()
    with serving() as port:
        attacker = threading.Thread(target=attack, args=(port, kind, number, addresses, stopping))
        attacker.start()
        time.sleep(3)
        times = sorted(waits(port, seconds))
        stopping.set()
        attacker.join()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    middle = times[len(times) // 2]
    return f"{number} {kind} from {addresses}: median {middle * 1000:.0f} ms, longest {times[-1]:.2f} s, {memory} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--number", type=int, default=500)
    arguments = parser.parse_args()
    for kind in KINDS:
        for addresses in (1, 100):
            print(measure(kind, arguments.number, addresses, arguments.seconds), flush=True)


if __name__ == "__main__":
    main()
