"""Destinations: where this box sends something, each a row of one table with its settings and the progress of delivery.

A family is what is sent: events to other programs, messages about alerts to people, or commands to devices. Each has
numbers, pages and commands of its own. Changes made by users are audited. Progress is not; see `progress`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.audit.kinds import ALL, Kind
from edge.database.connection import execute, scalar
from edge.events.progress import MOST_ATTEMPTS, TEST, Attempt
from edge.outbound import Network
from edge.validation import json_text


class Destination(NamedTuple):
    """A row of the table `destination`. `no` is its number in its family, `id` that of the row.

    `settings` depend on family and kind. `secret` is sealed (see `edge.people.secrets`). `tested_at`: when a test was
    asked for that has not been made.
    """

    id: int
    no: int
    organization_id: int
    family: str
    kind: str
    name: str
    settings: Mapping[str, Any]
    network: Network
    secret: bytes
    created_at: int
    disabled_at: int | None
    disabled_reason: str | None
    position: int
    failures: int
    failing_since: int | None
    next_try_at: int
    last_error: str | None
    last_success_at: int | None
    delivered: int
    lost: int
    tested_at: int | None
    is_on: bool

    @property
    def url(self) -> str:
        return str(self.settings.get("url", ""))

    @property
    def topic(self) -> str:
        return str(self.settings.get("topic", ""))


def _row(row: Sequence[Any]) -> Destination:
    made = Destination(*row)
    return made._replace(
        settings=json_text.decode(str(made.settings)), network=Network(made.network), is_on=bool(made.is_on)
    )


def columns(
    kind: str, name: str, settings: Mapping[str, Any], network: Network, secret: bytes | None = None
) -> dict[str, Any]:
    """Return the columns of a new or changed destination. `secret` is sealed; None keeps the present one."""
    made = {"kind": kind, "name": name, "settings": json_text.text(settings), "network": network}
    return made if secret is None else {**made, "secret": secret}


@dataclass(frozen=True)
class Family(Kind[Destination]):
    """Destinations of one family. `trouble_after`: µs of failures that are a trouble.

    `is_always_tested`: a disabled one can be tested, too.
    """

    trouble_after: int = clock.HOUR
    is_always_tested: bool = False

    def add(self, actor: Actor, columns: Mapping[str, object], **detail: Any) -> Destination:
        """Add a destination. Raises Conflict if the name is taken or there are too many."""
        with acting(actor):
            # Each number is given once, and those of earlier releases are not above the number of the row.
            number = 1 + scalar("SELECT ifnull(max(seq), 0) FROM sqlite_sequence WHERE name = 'destination'")
            return super().add(actor, {"id": number, "family": self.kind, "no": number, **columns}, **detail)

    def enable(self, actor: Actor, no: int, **columns: object) -> None:
        """Send again, beginning with what still waits. `columns` are set, too. Raises NotFound."""
        fresh = {"disabled_at": None, "disabled_reason": None, "failures": 0, "failing_since": None}
        with acting(actor):
            row = self.mark(actor, no, "enabled", {**fresh, "next_try_at": 0, "last_error": None, **columns})
            execute(
                "UPDATE destination_retry SET since = ?, next_try_at = 0 WHERE destination_id = ?",
                (clock.now(), row.id),
            )

    def disable(self, actor: Actor, no: int) -> None:
        """Stop sending until `enable`. Raises NotFound."""
        with acting(actor):
            since = self.get(actor.organization_id, no).disabled_at or clock.now()
            self.mark(actor, no, "disabled", {"disabled_at": since, "disabled_reason": None, "tested_at": None})

    def request_test(self, actor: Actor, no: int) -> None:
        """Have the service send a test ahead of all others. Raises NotFound, and Conflict if it is disabled."""
        with acting(actor):
            if not self.is_always_tested:
                self.check_enabled(actor.organization_id, no)
            self.mark(actor, no, "tested", {"tested_at": clock.now()})

    def list_attempts(self, organization_id: int, no: int, limit: int = MOST_ATTEMPTS) -> list[Attempt]:
        """Return the latest attempts, newest first. Raises NotFound."""
        return _attempts(self.get(organization_id, no), ALL, limit)

    def all(self) -> list[Destination]:
        """Return the destinations of all organizations, including disabled ones. For diagnosis only."""
        return self.where(ALL, order="organization_id, name")

    def exists(self) -> bool:
        """Return True if any organization has one."""
        return execute(f"SELECT 1 FROM destination WHERE {self.own} LIMIT 1").fetchone() is not None

    def enabled(self) -> list[Destination]:
        """Return the enabled destinations of all organizations. For the delivery service only."""
        return self.where("disabled_at IS NULL", order="no")

    def find_enabled(self, no: int) -> Destination | None:
        """Return one destination if it is enabled. For the delivery service only."""
        return next(iter(self.where("no = ? AND disabled_at IS NULL", no)), None)

    def troubles(self) -> list[str]:
        """Return one sentence for each destination that was given up, or that has failed for some time."""
        given_up = [f"{row.name} was disabled: {row.disabled_reason}" for row in self.where("disabled_reason <> ''")]
        failing = self.where("disabled_at IS NULL AND failing_since < ?", clock.now() - self.trouble_after)
        return given_up + [
            f"{row.name} has failed since {clock.rfc3339(row.failing_since or 0)}: {row.last_error}" for row in failing
        ]


def last_test(row: Destination) -> Attempt | None:
    """Return the last attempt of a test."""
    return next(iter(_attempts(row, f"event_kind = '{TEST}'", 1)), None)


def _attempts(row: Destination, condition: str, limit: int) -> list[Attempt]:
    rows = execute(
        "SELECT at, milliseconds, event_id, event_kind, is_delivered, told FROM destination_attempt "
        f"WHERE destination_id = ? AND {condition} ORDER BY no DESC LIMIT ?",
        (row.id, limit),
    )
    return [Attempt(*one)._replace(is_delivered=bool(one[4])) for one in rows]


def declare(
    name: str,
    noun: str,
    taken: str,
    detail: Callable[[Destination], Mapping[str, Any]],
    **special: Any,
) -> Family:
    """Declare a family. `name` is stored, and its name in the audit. `detail` returns the fields for the audit.

    `special`: see `Family`.
    """
    return Family(
        "destination",
        noun,
        f"SELECT {', '.join(Destination._fields)} FROM destination",
        _row,
        taken=taken,
        audited=name,
        own=f"family = '{name}'",
        detail=detail,
        **special,
    )
