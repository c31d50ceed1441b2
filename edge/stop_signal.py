"""SIGTERM and SIGINT end the program in order."""

from __future__ import annotations

import queue
import signal
import threading


def stop_on_signal() -> threading.Event:
    """Set by SIGTERM or SIGINT, from now on.

    By a thread of its own: a handler interrupts the main thread anywhere, also where that holds the event's own lock
    as it begins to wait, and setting it there would wait for ever.
    """
    stop = threading.Event()
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()  # may be filled by a handler at any moment

    def wait() -> None:
        signals.get()
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: signals.put(received))
    return stop
