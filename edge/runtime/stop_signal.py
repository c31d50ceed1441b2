"""SIGTERM and SIGINT end the program in order."""

from __future__ import annotations

import signal
import socket
import threading


def stop_on_signal() -> threading.Event:
    """Set by SIGTERM or SIGINT, from now on.

    By a thread of its own, which the handler of the interpreter wakes. One in Python runs in the main thread, perhaps
    while that holds the event's lock, and not at all if the signal came in the moment when it began to wait.
    """
    stop = threading.Event()
    wake, woken = socket.socketpair()
    wake.setblocking(False)

    def wait() -> None:
        woken.recv(1)
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    signal.set_wakeup_fd(wake.detach(), warn_on_full_buffer=False)  # detached, it stays open
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    return stop
