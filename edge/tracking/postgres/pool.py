"""Connections to PostgreSQL: TLS, time limits, and the report while it cannot be reached."""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from edge.errors import HistoryTaken, HistoryUnavailable, SetupError
from edge.texts import N_
from edge.tracking.hub_marks import ThisHub
from edge.tracking.postgres import bounded, schema, writers
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
LOGGED_SECONDS = 3600.0  # between two lines with the same fault, which may come and go
MOST_FAULTS = 100
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
REPLACED = N_(
    "The history is in PostgreSQL, and another machine writes there as this hub. On the right machine, run: edge hub "
    "take-over. Positions are current"
)
UNUSABLE = N_("The history is in PostgreSQL, which cannot be used now: see edge doctor. Positions are current")
FULL = N_("The history is in PostgreSQL, which has no disk space, memory or connections left. Positions are current")

_lock = threading.Lock()
_pools: dict[str, ConnectionPool[Connection]] = {}
_commits = threading.BoundedSemaphore(MOST_COMMITS)
_waiting_since: dict[int, float] = {}  # beginnings of commits in progress, by thread
_url = ""
_hub_id = ""  # of the hub whose database it has to be; empty: of any
_next_attempt = 0.0  # while it is away
_reason = ""
_answer = ""  # to requests while it is away
_is_admitted = False  # whether tables, rights and the writing machine are checked
_was_admitted = False
_cause: Exception | None = None  # of the last failed connection
_faults: dict[str, float] = {}  # when each one was logged
_is_fault_logged = False


class _Reasons(logging.Handler):
    """Keeps why the pool cannot connect, instead of a line in the log for each attempt."""

    def emit(self, record: logging.LogRecord) -> None:
        global _cause
        if isinstance(record.args, tuple) and record.args and isinstance(record.args[-1], Exception):
            _cause = record.args[-1]


_pool_log = logging.getLogger("psycopg.pool")
_pool_log.addHandler(_Reasons(logging.WARNING))
_pool_log.propagate = False


def use(url: str, this: ThisHub | None = None) -> None:
    """Use this database from now on. It is connected with the first statement. Raises SetupError for a bad URL."""
    global _url, _hub_id, _next_attempt, _reason, _answer, _is_admitted, _was_admitted, _cause, _is_fault_logged
    parameters(url)
    _url, _hub_id, _next_attempt, _reason, _answer = url, this.id if this else "", 0.0, "", ""
    _is_admitted = _was_admitted = _is_fault_logged = False
    _cause = None
    _faults.clear()
    writers.use(this)


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
                if not _was_admitted:  # while it runs, missing tables are a fault
                    schema.create(connection)
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


class _Unusable(SetupError):
    """The tables are not those of this release and hub."""


_UNUSABLE = (
    _Unusable,
    *(errors.UndefinedTable, errors.UndefinedColumn, errors.InsufficientPrivilege, errors.InvalidSchemaName),
    errors.CheckViolation,  # there is no partition for a row
)


@contextmanager
def connected(admit: Callable[[Connection], None] = writers.admit) -> Iterator[Connection]:
    """Yield a connection in autocommit mode. `admit` checks with the first one that this machine may write.

    Raises HistoryUnavailable while PostgreSQL cannot be reached or used, or is too slow.
    """
    _check_turn()
    connection = None
    try:
        with _pool().connection() as connection:
            _admit(connection, admit)
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
    except (psycopg.OperationalError, writers.Replaced, *_UNUSABLE) as error:
        if isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith("53"):
            raise HistoryUnavailable(FULL) from error
        raise _unavailable(_note_away(error)) from error


def _admit(connection: Connection, admit: Callable[[Connection], None]) -> None:
    """Check tables, rights and the writing machine once, and again after each fault."""
    global _is_admitted, _was_admitted
    if _is_admitted:
        return
    try:
        schema.check_usable(connection)
        schema.check_owner(connection, _hub_id)
    except SetupError as error:
        raise _Unusable(str(error)) from error
    admit(connection)
    _is_admitted = _was_admitted = True


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
    """Return why PostgreSQL cannot be reached or used, an empty text while it can. It may contain a host's name."""
    return _reason


def _check_turn() -> None:
    """Raise HistoryUnavailable while PostgreSQL is away, except once in a while for one thread, which tries again."""
    global _next_attempt
    with _lock:
        now = time.monotonic()
        if now < _next_attempt:
            raise _unavailable(_answer)
        if _next_attempt:
            _next_attempt = now + WAIT_SECONDS + AWAY_SECONDS


def _note_reached() -> None:
    global _next_attempt, _reason, _answer, _is_fault_logged, _cause
    with _lock:
        was_logged, _next_attempt, _is_fault_logged, _cause = _is_fault_logged, 0.0, False, None
        _reason = _answer = ""
    if was_logged:
        log.info("PostgreSQL can be used again: the history is shown, and sites send")


def _note_away(error: Exception) -> str:
    """Refuse requests for a while. Returns the answer to them.

    The log has a line if PostgreSQL was used until now, or for another reason. A fault that comes and goes with some
    statements has a line an hour.
    """
    global _next_attempt, _reason, _answer, _is_admitted, _is_fault_logged
    is_connection = isinstance(error, PoolTimeout)
    error = (_cause or error) if is_connection else _explained(error)
    reason, answer = str(error).partition("\n")[0], _answer_to(error)
    with _lock:
        is_new, now = not _next_attempt, time.monotonic()
        is_other = answer != _answer or (answer != AWAY and reason != _reason)
        _next_attempt, _is_admitted, _answer, _reason = now + AWAY_SECONDS, False, answer, reason
        is_logged = (is_new or is_other) and (is_connection or now >= _faults.get(reason, now))
        if is_logged:
            _faults[reason], _is_fault_logged = now + LOGGED_SECONDS, True
            while len(_faults) > MOST_FAULTS:
                del _faults[next(iter(_faults))]
        pool = _pools.get(_url)
    if is_new and pool is not None:
        pool.drain()  # its other connections are to the same server
    if is_logged:
        verb = "reached" if answer == AWAY else "used"
        log.warning("PostgreSQL cannot be %s, so history is not shown and sites wait: %s", verb, reason)
    return answer


def _unavailable(answer: str) -> HistoryUnavailable:
    return HistoryTaken(answer) if answer == REPLACED else HistoryUnavailable(answer)


def _answer_to(error: Exception) -> str:
    if isinstance(error, writers.Replaced):
        return REPLACED
    return UNUSABLE if isinstance(error, (SetupError, *_UNUSABLE)) else AWAY


def _explained(error: Exception) -> Exception:
    """Return which tables or rights are missing after an error in a statement, or else the error itself."""
    if not isinstance(error, psycopg.Error) or not isinstance(error, _UNUSABLE):
        return error
    with suppress(psycopg.Error), _pool().connection() as connection:
        try:
            schema.check_usable(connection)
        except SetupError as found:
            return found
    return error


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
