"""Stops the program on SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import socket
import threading


def stop_on_signal() -> threading.Event:
    """Return an event that is set on SIGTERM or SIGINT.

    The event is set by a thread that the interpreter's wakeup file descriptor wakes. A Python signal handler runs
    in the main thread, possibly while it holds the event's lock, and can miss a signal that arrives just before the
    wait.
    """
    stop = threading.Event()
    wake, woken = socket.socketpair()
    wake.setblocking(False)

    def wait() -> None:
        woken.recv(1)
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    signal.set_wakeup_fd(wake.detach(), warn_on_full_buffer=False)  # detach() keeps it open
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return stop
