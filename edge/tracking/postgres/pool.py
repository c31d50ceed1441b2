"""Connections to PostgreSQL: TLS, time limits, and what is reported while it cannot be reached."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from edge.errors import SetupError, Unavailable
from edge.tracking.postgres import schema

Connection = psycopg.Connection[tuple[Any, ...]]

MOST_CONNECTIONS = 12  # threads for requests, housekeeping and sync
WAIT_SECONDS = 3.0  # for a connection
AWAY_SECONDS = 2.0  # after a failure, in which nobody waits for a connection
STATEMENT_SECONDS = 30
IDLE_SECONDS = 120  # within a transaction: between its statements the hub writes to its own database
AWAY = "The history is in PostgreSQL, which cannot be reached now. Positions are current. Try again"
TOO_SLOW = "The history is in PostgreSQL, which took too long. Choose a shorter period"

_lock = threading.Lock()
_pools: dict[str, ConnectionPool[Connection]] = {}
_url = ""
_away_until = 0.0


def use(url: str) -> None:
    """Use this database from now on. It is connected with the first statement. Raises SetupError for a bad URL."""
    global _url, _away_until
    parameters(url)
    _url, _away_until = url, 0.0


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
        "connect_timeout": 3,
        "keepalives_idle": 10,
        "tcp_user_timeout": 10_000,
        "target_session_attrs": "read-write",
        "options": f"-c statement_timeout={STATEMENT_SECONDS}s -c lock_timeout=10s "
        f"-c idle_in_transaction_session_timeout={IDLE_SECONDS}s",
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
            _pools[_url] = ConnectionPool(
                kwargs={**parameters(_url), "autocommit": True},
                min_size=0,
                max_size=MOST_CONNECTIONS,
                timeout=WAIT_SECONDS,
                max_idle=600,
                num_workers=1,
                check=ConnectionPool.check_connection,
                configure=schema.prepare,
                open=True,
            )
        return _pools[_url]


@contextmanager
def connected() -> Iterator[Connection]:
    """Yield a connection in autocommit mode. Raises Unavailable while PostgreSQL cannot be reached or is too slow."""
    global _away_until
    if time.monotonic() < _away_until:
        raise Unavailable(AWAY)
    try:
        with _pool().connection() as connection:
            yield connection
    except errors.QueryCanceled as error:
        raise Unavailable(TOO_SLOW) from error
    except (psycopg.OperationalError, errors.ReadOnlySqlTransaction) as error:
        _away_until = time.monotonic() + AWAY_SECONDS
        raise Unavailable(AWAY) from error


def fetch(sql: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Run one query and return its rows."""
    with connected() as connection:
        return connection.execute(sql.encode(), values).fetchall()
