"""The machine that writes: of several with a copy of the same hub, the one that took over last.

The row of each site has the mark of that machine. A batch reads it with the lock of its site, so a machine that was
replaced is refused within the transaction, without another statement. Taking over changes these rows, and therefore
waits for batches in progress.
"""

from __future__ import annotations

import socket

from edge import clock
from edge.clock import SECOND
from edge.errors import SetupError
from edge.tracking import hub_marks
from edge.tracking.hub_marks import ThisHub
from edge.tracking.postgres.bounded import Connection

_this: ThisHub | None = None  # None: every machine may write, as in a move to a database without a hub
_mark = ""  # with which this machine writes; empty: not known yet
_LONGEST_NAME = 100


class Replaced(SetupError):
    """Another machine writes as this hub."""


def use(this: ThisHub | None) -> None:
    """Write as this machine from now on."""
    global _this, _mark
    _this, _mark = this, ""


def forget() -> None:
    """Look again whether this machine writes, with the next connection."""
    global _mark
    _mark = ""


def admit(connection: Connection) -> None:
    """Let this machine write, unless another one does. Raises Replaced.

    The service takes a new mark once. Other commands use the present one.
    """
    global _mark
    if _this is None:
        return
    present = connection.execute("SELECT mark FROM hub_writer").fetchone()
    mark = present[0] if present else None
    marks = hub_marks.known(_this.file)
    if mark is not None and mark not in marks:
        raise _replaced(connection)
    if mark is None or _this.new_mark not in ("", mark):
        mark = _take(connection, _this, _this.new_mark or hub_marks.new_mark(), [*marks, mark])
    _mark = mark


def take_over(connection: Connection) -> None:
    """Let this machine write instead of another one, which is refused from now on. In place of `admit`."""
    global _mark
    if _this is not None:
        _mark = _take(connection, _this, hub_marks.new_mark(), None)


def _take(connection: Connection, this: ThisHub, mark: str, instead_of: list[str | None] | None) -> str:
    """Write as this machine from now on, if the present mark is one of these. Raises Replaced.

    It does not wait for a standby: a batch is confirmed only after everything before it, also this.
    """
    hub_marks.add(this.file, mark)
    with connection.transaction():
        connection.execute("SET LOCAL synchronous_commit = local")
        taken = connection.execute(
            "UPDATE hub_writer SET mark = %(mark)s, machine = %(machine)s, since = %(now)s "
            "WHERE %(any)s OR mark IS NULL OR mark = ANY(%(of)s) RETURNING 1",
            {
                "mark": mark,
                "machine": socket.gethostname()[:_LONGEST_NAME],
                "now": clock.now(),
                "any": instead_of is None,
                "of": instead_of or [],
            },
        ).fetchone()
        if taken is None:
            raise _replaced(connection)
        connection.execute("UPDATE site_cursor SET writer = %s WHERE writer IS DISTINCT FROM %s", (mark, mark))
    return mark


def check(mark: str | None) -> None:
    """Raise Replaced if this mark of a locked row is not that of this machine."""
    if _this is not None and mark != _mark:
        forget()
        raise Replaced(
            "Another machine has begun to write to PostgreSQL as this hub. If this one replaces it, turn the other one "
            "off and run here: edge hub take-over"
        )


def hold(connection: Connection) -> None:
    """Keep other machines from taking over until the end of the transaction. Raises Replaced if one has."""
    if _this is not None:
        row = connection.execute("SELECT mark FROM hub_writer FOR SHARE").fetchone()
        check(row[0] if row else None)


def _replaced(connection: Connection) -> Replaced:
    row = connection.execute("SELECT machine, since FROM hub_writer").fetchone()
    machine, since = row or ("", 0)
    return Replaced(
        f"Another machine writes to this database as this hub: {machine}, since "
        f"{clock.rfc3339(since // SECOND * SECOND)}. If this one replaces it, turn the other one off and run here: "
        "edge hub take-over. If this one is the copy, turn it off, or give it a database of its own in hub.history"
    )
