"""Connections to PostgreSQL: TLS, time limits, and the report while it cannot be reached."""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from edge.errors import HistoryUnavailable, SetupError
from edge.texts import N_
from edge.tracking.postgres import bounded, schema
from edge.tracking.postgres.bounded import Connection

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())  # commands report the error themselves

MOST_CONNECTIONS = 12  # threads for requests, housekeeping and sync
WAIT_SECONDS = 3.0  # for a connection
AWAY_SECONDS = 2.0  # between two attempts while it is away; all other requests are refused at once
STATEMENT_SECONDS = 30
PART = 5_000  # rows
COMMIT_SECONDS = 30.0  # until the standby has confirmed
MOST_COMMITS = 3  # at once, because each that waits for a standby occupies a thread for requests
SOON_SECONDS = 2.0  # a commit that waits longer is one without a standby: others are refused at once
CANCEL_SECONDS = 5.0
IDLE_SECONDS = 120  # within a transaction: between its statements the hub writes to its own database
# All statements find a few rows by an index. The planner counts each partition, though a row is looked up in one only,
# so it would often read the whole table.
_BY_INDEX = " ".join(
    f"-c {setting}"
    for setting in (
        *(f"enable_{plan}=off" for plan in ("seqscan", "hashjoin", "mergejoin")),
        "max_parallel_workers_per_gather=0",
        "jit=off",
    )
)
DEFAULT_PORT = "5432"
AWAY = N_("The history is in PostgreSQL, which cannot be reached now. Positions are current. Try again")
TOO_SLOW = N_("The history is in PostgreSQL, which took too long. Choose a shorter period")
BUSY = N_("The history is in PostgreSQL, which is busy. Try again")
UNCONFIRMED = N_("The history is in PostgreSQL, whose standby has not confirmed it. Try again")
FULL = N_("The history is in PostgreSQL, which has no disk space, memory or connections left. Positions are current")

_lock = threading.Lock()
_pools: dict[str, ConnectionPool[Connection]] = {}
_commits = threading.BoundedSemaphore(MOST_COMMITS)
_waiting_since: dict[int, float] = {}  # beginnings of commits in progress, by thread
_url = ""
_hub_id = ""  # of the hub whose database it has to be; empty: of any
_next_attempt = 0.0  # while it is away
_reason = ""


class _Reasons(logging.Handler):
    """Keeps why the pool cannot connect, instead of a line in the log for each attempt."""

    def emit(self, record: logging.LogRecord) -> None:
        global _reason
        if isinstance(record.args, tuple) and record.args and isinstance(record.args[-1], Exception):
            _reason = str(record.args[-1]).partition("\n")[0]


_pool_log = logging.getLogger("psycopg.pool")
_pool_log.addHandler(_Reasons(logging.WARNING))
_pool_log.propagate = False


def use(url: str, hub_id: str = "") -> None:
    """Use this database from now on. It is connected with the first statement. Raises SetupError for a bad URL."""
    global _url, _hub_id, _next_attempt, _reason
    parameters(url)
    _url, _hub_id, _next_attempt, _reason = url, hub_id, 0.0, ""


def close() -> None:
    with _lock:
        for pool in _pools.values():
            pool.close()
        _pools.clear()


def parameters(url: str) -> dict[str, Any]:
    """Return the parameters for libpq. Connections beyond this machine need verified TLS. Raises SetupError."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise SetupError("hub.history is no URL such as postgresql://edge@127.0.0.1/edge") from error
    defaults: dict[str, Any] = {
        "application_name": "edge",
        "connect_timeout": 2,  # for each host
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
        "target_session_attrs": "read-write",
        "options": f"-c statement_timeout={STATEMENT_SECONDS}s -c lock_timeout=10s "
        f"-c idle_in_transaction_session_timeout={IDLE_SECONDS}s {_BY_INDEX}",
    }
    hosts = f"{given.get('host') or ''},{given.get('hostaddr') or ''}".split(",")
    if not all(_is_local(host) for host in hosts if host):
        defaults |= {"sslmode": "verify-full", "sslrootcert": "system"}
        if given.get("sslmode", "verify-full") != "verify-full":
            raise SetupError(
                "hub.history names another machine, so it needs sslmode=verify-full, and sslrootcert=FILE if the "
                "certificate is from your own authority"
            )
    return defaults | given


def _is_local(host: str) -> bool:
    if host.startswith(("/", "@")) or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _pool() -> ConnectionPool[Connection]:
    with _lock:
        if _url not in _pools:
            given = parameters(_url)

            def prepare(connection: Connection) -> None:
                nonlocal given
                schema.prepare(connection, _hub_id)
                given = host_first(given, connection.info.host, connection.info.port)

            _pools[_url] = ConnectionPool(
                connection_class=Connection,
                kwargs=lambda: {**given, "autocommit": True},
                min_size=0,
                max_size=MOST_CONNECTIONS,
                timeout=WAIT_SECONDS,
                reconnect_timeout=WAIT_SECONDS,  # longer ones pause for minutes between attempts
                max_idle=600,
                num_workers=1,
                check=bounded.check,
                configure=prepare,
                open=True,
            )
        return _pools[_url]


def host_first(given: dict[str, Any], host: str, port: int) -> dict[str, Any]:
    """Return the parameters with this host first, since a host that is switched off takes seconds to fail."""
    columns = {name: str(given[name]).split(",") for name in ("host", "hostaddr", "port") if given.get(name)}
    number = max((len(values) for values in columns.values()), default=1)
    columns = {name: values * number if len(values) == 1 else values for name, values in columns.items()}
    hosts = columns.get("host") or columns.get("hostaddr") or [""]
    ports = [value or DEFAULT_PORT for value in columns.get("port", [DEFAULT_PORT] * number)]
    if number == 1 or (host, str(port)) not in zip(hosts, ports, strict=True):
        return given
    first = [*zip(hosts, ports, strict=True)].index((host, str(port)))
    return given | {name: ",".join(values[first:] + values[:first]) for name, values in columns.items()}


@contextmanager
def connected() -> Iterator[Connection]:
    """Yield a connection in autocommit mode.

    Raises HistoryUnavailable while PostgreSQL cannot be reached or is too slow.
    """
    _check_turn()
    connection = None
    try:
        with _pool().connection() as connection:
            _note_reached()
            yield connection
    except errors.QueryCanceled as error:
        raise HistoryUnavailable(TOO_SLOW) from error
    except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
        raise HistoryUnavailable(BUSY) from error
    except errors.ReadOnlySqlTransaction as error:  # this server was the primary until now
        if connection is not None:
            connection.close()
        raise HistoryUnavailable(AWAY) from error
    except (psycopg.OperationalError, errors.UndefinedTable, errors.InsufficientPrivilege) as error:
        if (error.sqlstate or "").startswith("53"):
            raise HistoryUnavailable(FULL) from error
        _note_away(error)
        raise HistoryUnavailable(AWAY) from error


def commit(connection: Connection) -> None:
    """Commit. Raises HistoryUnavailable if the synchronous standby does not confirm it in time.

    PostgreSQL has no time limit for that. Canceled, it commits on the primary only, and says so in a warning.
    """
    warnings: list[str] = []

    def note(diagnostic: errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            warnings.append(diagnostic.message_primary or "")

    check_confirmed()
    connection.add_notice_handler(note)
    timer = threading.Timer(COMMIT_SECONDS, _cancel, (connection,))
    with _place_for_commit():
        timer.start()
        try:
            connection.commit()
        finally:
            timer.cancel()
            connection.remove_notice_handler(note)
    if warnings:
        log.warning("PostgreSQL: %s", warnings[0])
        raise HistoryUnavailable(UNCONFIRMED)


def check_confirmed() -> None:
    """Raise HistoryUnavailable while another commit waits for a standby, before work that would wait as well."""
    with _lock:
        begun = min(_waiting_since.values(), default=time.monotonic())
    if time.monotonic() - begun > SOON_SECONDS:
        raise HistoryUnavailable(UNCONFIRMED)


@contextmanager
def _place_for_commit() -> Iterator[None]:
    if not _commits.acquire(timeout=SOON_SECONDS):
        raise HistoryUnavailable(UNCONFIRMED)
    thread = threading.get_ident()
    with _lock:
        _waiting_since[thread] = time.monotonic()
    try:
        yield
    finally:
        with _lock:
            del _waiting_since[thread]
        _commits.release()


def _cancel(connection: Connection) -> None:
    with suppress(psycopg.Error):  # the server is away
        connection.cancel_safe(timeout=CANCEL_SECONDS)


def figures() -> dict[str, float]:
    """Return whether PostgreSQL could be reached last, the number of connections, and of requests that wait for one."""
    with _lock:
        stats = _pools[_url].get_stats() if _url in _pools else {}
        is_up = not _next_attempt
    return {"up": is_up, "connections": stats.get("pool_size", 0), "waiting": stats.get("requests_waiting", 0)}


def reason() -> str:
    """Return why PostgreSQL cannot be reached, an empty text while it can. It may contain the name of the host."""
    return _reason


def _check_turn() -> None:
    """Raise HistoryUnavailable while PostgreSQL is away, except once in a while for one thread, which tries again."""
    global _next_attempt
    with _lock:
        now = time.monotonic()
        if now < _next_attempt:
            raise HistoryUnavailable(AWAY)
        if _next_attempt:
            _next_attempt = now + WAIT_SECONDS + AWAY_SECONDS


def _note_reached() -> None:
    global _next_attempt, _reason
    with _lock:
        was_away, _next_attempt, _reason = bool(_next_attempt), 0.0, ""
    if was_away:
        log.info("PostgreSQL can be reached again")


def _note_away(error: psycopg.Error) -> None:
    global _next_attempt, _reason
    with _lock:
        is_new, _next_attempt = not _next_attempt, time.monotonic() + AWAY_SECONDS
        _reason = _reason or str(error).partition("\n")[0]
        pool = _pools.get(_url)
    if is_new and pool is not None:
        pool.drain()  # its other connections are to the same server
    if is_new:
        log.warning("PostgreSQL cannot be reached, so history is not shown and sites wait: %s", _reason)


def fetch(sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Run one query and return its rows."""
    with connected() as connection:
        return connection.execute(sql.encode(), values).fetchall()


def fetch_in_parts(sql: str, values: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    """Run one query and yield its rows, with a few thousand in memory at a time."""
    with connected() as connection, connection.transaction(), connection.cursor("parts") as cursor:
        cursor.execute(sql.encode(), values)
        while part := cursor.fetchmany(PART):
            yield from part
