"""Whether the stays of this box are where the settings say: in its own database, or in PostgreSQL."""

from __future__ import annotations

from edge.database.connection import execute, writing
from edge.errors import SetupError
from edge.tracking import history_engine, hub_marks
from edge.tracking.hub_marks import ThisHub


def use_engine(url: str) -> None:
    """Use PostgreSQL at this URL for stays, or with an empty one this file, as the service.

    Raises SetupError if the other one has them.
    """
    has_rows = execute("SELECT 1 FROM history LIMIT 1").fetchone() is not None
    if url and has_rows:
        raise SetupError(
            "hub.history is set, but this box's own database has stays. Move them first: edge hub move-history --to "
            f"{history_engine.shown_url(url)}; or empty hub.history"
        )
    if url and execute("SELECT 1 FROM track WHERE site_no IS NULL LIMIT 1").fetchone():
        raise SetupError("hub.history is set, but this box has recorded reads itself. Empty the setting")
    if not url and not has_rows and execute("SELECT 1 FROM track WHERE history_rows > 0 LIMIT 1").fetchone():
        raise SetupError(
            "The stays of this hub are in PostgreSQL. Set hub.history to its URL again. To move them back, run then: "
            "edge hub move-history --back"
        )
    history_engine.use(url, this_hub(is_service=True))


def this_hub(*, is_service: bool = False) -> ThisHub | None:
    """Return this machine as a hub, None if it is none. Only the service is the one that writes from its start on."""
    row = execute("SELECT id FROM hub").fetchone()
    return hub_marks.this_hub(row[0] if row else "", is_service=is_service)


def are_missing_there() -> bool:
    """Return whether PostgreSQL has no stays at all though this hub has some. Raises HistoryUnavailable."""
    has_some = execute("SELECT 1 FROM track WHERE history_rows > 0 LIMIT 1").fetchone() is not None
    return has_some and history_engine.lent_rows.has_none()


def forget_remote_stays() -> None:
    """Make a copy of a hub's database usable without the stays in PostgreSQL, for the trial of a release."""
    with writing():
        execute("UPDATE track SET history_rows = 0 WHERE history_rows > 0")
