"""Health report of a site: what its hub shows of the box itself, besides the state of sync.

A site sends it with its other messages. A hub or site of an earlier release ignores it or does not send it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from edge import clock
from edge.database.connection import execute, writing
from edge.validation import times

MAX_VERSION = 32  # characters
MAX_CHECK = 32  # characters of the name of a check
MAX_FINDINGS = 60
MAX_NUMBER = 2**53 - 1
OK, WARNING, PROBLEM = 0, 1, 2

# The hub judges ages itself, because a silent site no longer does. The limits are those of the doctor.
CERTIFICATE_LATE, CERTIFICATE_SOON = 25 * 86400, 7 * 86400  # seconds
BACKUP_LATE, BACKUP_LOST = 36 * 3600, 7 * 86400
EXAMINED_LATE = 3 * 3600


class SiteHealth(NamedTuple):
    """State of a box. Times are UTC seconds; None means unknown.

    `findings`: levels of the doctor's findings by check; 1 warning, 2 problem.
    """

    version: str
    findings: Mapping[str, int]
    examined_at: int | None = None  # last run of the doctor
    certificate_ends_at: int | None = None
    backup_at: int | None = None
    disk_free_mb: int | None = None
    reads_per_minute: int | None = None

    def checks(self, level: int) -> list[str]:
        """Return the names of the checks with findings of a level."""
        return sorted(check for check, rated in self.findings.items() if rated == level)

    def certificate_level(self) -> int:
        left = None if self.certificate_ends_at is None else self.certificate_ends_at - _now()
        return OK if left is None else _level(-left, -CERTIFICATE_LATE, -CERTIFICATE_SOON)

    def backup_level(self) -> int:
        return OK if self.backup_at is None else _level(_now() - self.backup_at, BACKUP_LATE, BACKUP_LOST)

    def is_examined(self) -> bool:
        """Return True if the doctor ran recently."""
        return self.examined_at is not None and _now() - self.examined_at <= EXAMINED_LATE

    def level(self) -> int:
        """Return the worst level of the report."""
        own = WARNING if self.examined_at is not None and not self.is_examined() else OK
        return max(own, self.certificate_level(), self.backup_level(), *self.findings.values(), OK)


def _level(value: int, warning_above: int, problem_above: int) -> int:
    return PROBLEM if value > problem_above else WARNING if value > warning_above else OK


def _now() -> int:
    return clock.now() // clock.SECOND


class ReceivedHealth(NamedTuple):
    health: SiteHealth
    received_at: int


def checked(content: Any) -> SiteHealth | None:
    """Return the report of another machine within bounds, or None if it is not one.

    Invalid values become unknown: a report must never stop sync.
    """
    if not isinstance(content, dict):
        return None
    findings = content.get("findings")
    rows = list(findings.items())[:MAX_FINDINGS] if isinstance(findings, dict) else []
    return SiteHealth(
        _line(content.get("version"), MAX_VERSION),
        {_line(check, MAX_CHECK): level for check, level in rows if type(level) is int and WARNING <= level <= PROBLEM},
        *(_moment(content.get(name)) for name in ("examined_at", "certificate_ends_at", "backup_at")),
        *(_number(content.get(name)) for name in ("disk_free_mb", "reads_per_minute")),
    )


def _line(value: Any, most: int) -> str:
    text = value[:most] if isinstance(value, str) else ""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def _moment(value: Any) -> int | None:
    number = _number(value)
    return number if number is not None and times.is_representable(number * clock.SECOND) else None


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_NUMBER else None


def keep(site_no: int, health: SiteHealth | None) -> None:
    """Store the newest report of a site, if there is one."""
    if health is None:
        return
    with writing():
        execute(
            "INSERT INTO site_health VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET received_at = excluded.received_at, content = excluded.content",
            (site_no, clock.now(), json.dumps(health._asdict(), ensure_ascii=False)),
        )


def find(site_no: int) -> ReceivedHealth | None:
    """Return the newest report of a site, or None if it has not sent one."""
    row = execute("SELECT content, received_at FROM site_health WHERE site_no = ?", (site_no,)).fetchone()
    health = checked(json.loads(row[0])) if row else None
    return ReceivedHealth(health, row[1]) if health else None


def forget(site_no: int) -> None:
    """Delete the report of a removed site, in the caller's transaction."""
    execute("DELETE FROM site_health WHERE site_no = ?", (site_no,))


EVERY = 300 * clock.SECOND
EVERY_METERED = 1800 * clock.SECOND  # with a daily limit


class HealthLane:
    """Decides when the report is due. Kept over sessions, so that a bad line does not repeat it."""

    def __init__(self, read: Callable[[int], SiteHealth], every: int = EVERY) -> None:
        self._read = read
        self._every = every
        self._sent: SiteHealth | None = None  # None: send it even if unchanged
        self._done_at: int | None = None

    def begin_session(self) -> None:
        """Repeat the report in a new session, because the hub may have been updated or restored meanwhile."""
        self._sent = None

    def due(self, organization_id: int) -> SiteHealth | None:
        """Return the report of this box if it should be sent now; the reads are those of one organization."""
        now = clock.now()
        if self._done_at is not None and 0 <= now - self._done_at < self._every:
            return None
        health = self._read(organization_id)
        if health == self._sent:
            self._done_at = now
            return None
        return health

    def delivered(self, health: SiteHealth | None) -> None:
        """Note that the hub has received the report."""
        if health is not None:
            self._sent, self._done_at = health, clock.now()


def content(health: SiteHealth | None) -> dict[str, Any]:
    """Return the report as part of a message."""
    if health is None:
        return {}
    return {"health": {name: value for name, value in health._asdict().items() if value is not None}}
