"""State of mosquitto: the counters that it publishes, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MOSQUITTO = Path("/etc/mosquitto")
DROPPED = "$SYS/broker/publish/messages/dropped"
RETAINED = "$SYS/broker/retained messages/count"
HEAP = "$SYS/broker/heap/current"
SUBSCRIPTIONS = "$SYS/broker/subscriptions/count"
MEMORY = (RETAINED, SUBSCRIPTIONS, HEAP)
OWN_RETAINED = 60  # retained messages of the broker itself
OWN_SUBSCRIPTIONS = 500  # of edge's sessions
FULL = 0.7  # of its memory; edge's queues can use 0.4


def settings(folder: Path) -> dict[str, str]:
    """Read mosquitto's settings. The last value wins; files of conf.d come after the main file.

    Files that only root may read, such as those of bridges with their passwords, are left out.
    """
    values: dict[str, str] = {}
    for file in (folder / "mosquitto.conf", *sorted((folder / "conf.d").glob("*.conf"))):
        with suppress(FileNotFoundError, PermissionError):
            for line in file.read_text("utf-8", "replace").splitlines():
                name, _, value = line.strip().partition(" ")
                values[name] = value.strip()
    return values


def is_filled_by_readers(values: Mapping[str, str], configured: Mapping[str, str]) -> bool:
    """Return True if the broker is close to its memory limit and holds retained messages or subscriptions of readers.

    At the limit it disconnects new subscribers, edge included. Readers may read nothing, but mosquitto accepts their
    subscriptions. `values`: counters, missing ones count as 0.
    """

    def number(texts: Mapping[str, str], name: str) -> int:
        text = texts.get(name, "")
        return int(text) if text.isdecimal() else 0

    limit = number(configured, "memory_limit")
    has_more = number(values, RETAINED) > OWN_RETAINED or number(values, SUBSCRIPTIONS) > OWN_SUBSCRIPTIONS
    return limit > 0 and number(values, HEAP) > limit * FULL and has_more
