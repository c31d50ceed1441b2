"""The engine that has the stays: this database file, or PostgreSQL on a hub with `hub.history`.

It is chosen once, at start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit, urlunsplit

from edge.database.connection import execute
from edge.errors import Conflict, SetupError
from edge.tracking import hub_marks
from edge.tracking.hub_marks import ThisHub

if TYPE_CHECKING:
    from edge.tracking.postgres import batches as batches
    from edge.tracking.postgres import labels as labels
    from edge.tracking.postgres import lent_rows as lent_rows
    from edge.tracking.postgres import moving as moving
    from edge.tracking.postgres import pool as pool
    from edge.tracking.postgres import replaced as replaced

NO_OWN_READS = (
    "This hub keeps its history in PostgreSQL and takes no reads or scans of its own: let a site read them, or empty "
    "hub.history"
)
_MODULES = ("batches", "labels", "lent_rows", "moving", "pool", "replaced")
_url = ""
_P = ParamSpec("_P")
_R = TypeVar("_R")


def use(url: str, this: ThisHub | None = None) -> None:
    """Choose the engine: PostgreSQL at this URL, or with an empty one this file. Raises SetupError.

    With this hub, stays of another one are refused, and writes while another machine writes as this hub.
    """
    global _url
    if url:
        try:
            # Imported here because it is an optional extra, and a box without it should not load it.
            globals().update({name: import_module(f"edge.tracking.postgres.{name}") for name in _MODULES})
        except ImportError as error:
            raise SetupError(
                "hub.history is set, which needs an extra: pip install 'edge[postgres]'. Or empty the setting."
            ) from error
        pool.use(url, this)
    _url = url


def use_engine(url: str) -> None:
    """Use PostgreSQL at this URL for stays, or with an empty one this file, as the service.

    Raises SetupError if the other one has them.
    """
    has_rows = execute("SELECT 1 FROM history LIMIT 1").fetchone() is not None
    if url and has_rows:
        raise SetupError(
            "hub.history is set, but this box's own database has stays. Move them first: edge hub move-history --to "
            f"{shown_url(url)}; or empty hub.history"
        )
    if url and execute("SELECT 1 FROM track WHERE site_no IS NULL LIMIT 1").fetchone():
        raise SetupError("hub.history is set, but this box has recorded reads itself. Empty the setting")
    if not url and not has_rows and execute("SELECT 1 FROM track WHERE history_rows > 0 LIMIT 1").fetchone():
        raise SetupError(
            "The stays of this hub are in PostgreSQL. Set hub.history to its URL again. To move them back, run then: "
            "edge hub move-history --back"
        )
    use(url, this_hub(is_service=True))


def this_hub(*, is_service: bool = False) -> ThisHub | None:
    """Return this machine as a hub, None if it is none. Only the service is the one that writes from its start on."""
    row = execute("SELECT id FROM hub").fetchone()
    return hub_marks.this_hub(row[0] if row else "", is_service=is_service)


def are_missing_there() -> bool:
    """Return whether PostgreSQL has no stays at all though this hub has some. Raises HistoryUnavailable."""
    has_some = execute("SELECT 1 FROM track WHERE history_rows > 0 LIMIT 1").fetchone() is not None
    return has_some and lent_rows.has_none()


def is_remote() -> bool:
    """Return True if PostgreSQL has the stays."""
    return bool(_url)


def of_engine(here: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that calls the one of this name in `batches` while PostgreSQL has the stays, else `here`."""

    @wraps(here)
    def chosen(*arguments: _P.args, **named: _P.kwargs) -> _R:
        there: Callable[_P, _R] = getattr(batches, here.__name__) if _url else here
        return there(*arguments, **named)

    return chosen


@contextmanager
def lending(select: Callable[[], Iterable[tuple[Any, ...]]]) -> Iterator[None]:
    """Lend rows of PostgreSQL to the statements inside, if it has the stays; see `edge.tracking.postgres.lent_rows`."""
    if not _url:
        yield
        return
    with lent_rows.lent(select()):
        yield


def check_reachable() -> None:
    """Raise HistoryUnavailable if PostgreSQL has the stays and cannot be reached."""
    if _url:
        lent_rows.count_partitions()


def why_away() -> str:
    """Return why PostgreSQL cannot be reached, for operators."""
    return pool.reason() if _url else ""


def figures() -> dict[str, float]:
    """Return figures of the connections to PostgreSQL, none if this file has the stays."""
    return pool.figures() if _url else {}


def close() -> None:
    """Close the connections to PostgreSQL, if there are any."""
    if _url:
        pool.close()


def check_own_reads() -> None:
    """Raise Conflict if this machine may not record reads."""
    if _url:
        raise Conflict(NO_OWN_READS)


def shown_url(url: str) -> str:
    """Return a URL of PostgreSQL without user, password and parameters. Other ways to write it are not shown at all."""
    split = urlsplit(url)
    if not split.netloc:
        return "(not shown)"
    return urlunsplit((split.scheme, split.netloc.rpartition("@")[2], split.path, "", ""))
