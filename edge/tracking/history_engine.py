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

from edge.errors import Conflict, SetupError

if TYPE_CHECKING:
    from edge.tracking.hub_marks import ThisHub
    from edge.tracking.postgres import batches as batches
    from edge.tracking.postgres import labels as labels
    from edge.tracking.postgres import lent_rows as lent_rows
    from edge.tracking.postgres import moving as moving
    from edge.tracking.postgres import replaced as replaced

NO_OWN_READS = (
    "This hub keeps its history in PostgreSQL and takes no reads or scans of its own: let a site read them, or empty "
    "hub.history"
)
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
            from edge.tracking.postgres import pool
        except ImportError as error:
            raise SetupError(
                "hub.history is set, which needs an extra: pip install 'edge[postgres]'. Or empty the setting."
            ) from error
        pool.use(url, this)
    _url = url


def is_remote() -> bool:
    """Return True if PostgreSQL has the stays."""
    return bool(_url)


def __getattr__(name: str) -> Any:
    """Return a module of PostgreSQL. It is loaded with its first use, since only some hubs need it."""
    if name in ("batches", "labels", "lent_rows", "moving", "replaced"):
        return import_module(f"edge.tracking.postgres.{name}")
    raise AttributeError(name)


def of_engine(here: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that calls the one of this name in `batches` while PostgreSQL has the stays, else `here`."""

    @wraps(here)
    def chosen(*arguments: _P.args, **named: _P.kwargs) -> _R:
        there: Callable[_P, _R] = (
            getattr(import_module("edge.tracking.postgres.batches"), here.__name__) if _url else here
        )
        return there(*arguments, **named)

    return chosen


@contextmanager
def lending(select: Callable[[], Iterable[tuple[Any, ...]]]) -> Iterator[None]:
    """Lend rows of PostgreSQL to the statements inside, if it has the stays; see `edge.tracking.postgres.lent_rows`."""
    if not _url:
        yield
        return
    with import_module("edge.tracking.postgres.lent_rows").lent(select()):
        yield


def check_reachable() -> None:
    """Raise HistoryUnavailable if PostgreSQL has the stays and cannot be reached."""
    if _url:
        import_module("edge.tracking.postgres.lent_rows").count_partitions()


def why_away() -> str:
    """Return why PostgreSQL cannot be reached, for operators."""
    reason: str = import_module("edge.tracking.postgres.pool").reason() if _url else ""
    return reason


def figures() -> dict[str, float]:
    """Return figures of the connections to PostgreSQL, none if this file has the stays."""
    values: dict[str, float] = import_module("edge.tracking.postgres.pool").figures() if _url else {}
    return values


def close() -> None:
    """Close the connections to PostgreSQL, if there are any."""
    if _url:
        import_module("edge.tracking.postgres.pool").close()


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
