"""Notifications to systemd from a service of Type=notify: ready, alive, stopping."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

from edge.terminal import printable


class Notifier:
    """Sends notifications to systemd; does nothing without it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_seconds = int(environment.get("WATCHDOG_USEC", "0")) / 1_000_000

    def ready(self) -> None:
        self._send("READY=1")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def status(self, text: str) -> None:
        self._send(f"STATUS={printable(text)}")  # a newline would begin another assignment

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # systemd may be busy; the next notification follows soon, and the service must not fail because of it.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel, contextlib.suppress(OSError):
            channel.sendto(message.encode(), self._address)
