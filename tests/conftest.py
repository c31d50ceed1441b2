"""Fixtures everyone uses: a fresh migrated database, and the cast."""

from __future__ import annotations

import gc
import os
import runpy
import shutil
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from hypothesis import settings
from werkzeug.routing import Rule

from edge.audit.actors import shell
from edge.database import connection, migrate
from edge.database.connection import close_database
from edge.database.instance import signing_key
from edge.people import organizations
from tests import chance
from tests.databases import Files, copy_files, files_of, make_database
from tests.of_change import pytest_addoption, pytest_cmdline_main, pytest_xdist_auto_num_workers
from tests.tracking.postgres import server

__all__ = ["pytest_addoption", "pytest_cmdline_main", "pytest_xdist_auto_num_workers"]

# The duration of an example depends more on the load of the machine than on the code.
settings.register_profile("edge", deadline=None)
settings.load_profile("edge")

if "PYTEST_XDIST_WORKER" not in os.environ:  # the process that starts the others
    catalogs = Path(__file__).resolve().parent.parent / ".ci/catalogs.py"
    runpy.run_path(str(catalogs))["make"](catalogs.parent.parent)


def _compile_each_route_once() -> None:
    """Compiling the routes takes 65 of the 75 ms of `create_app`, and thousands of tests make an application each.

    The kept attributes depend on nothing but the route: its arguments, the pattern, the converters, and the two
    functions that build its URL.
    """
    compile_rule = Rule.compile
    compiled: dict[tuple[str, str], dict[str, Any]] = {}

    def compile_once(rule: Rule) -> None:
        key = (rule.rule, repr(rule.defaults))
        if key not in compiled:
            compile_rule(rule)
            compiled[key] = {name: vars(rule)[name] for name in ("arguments", "_parts", "_trace", "_converters")} | {
                name: vars(rule)[name].__func__ for name in ("_build", "_build_unknown")
            }
        for name, value in compiled[key].items():
            setattr(rule, name, value.__get__(rule) if callable(value) else value)

    Rule.compile = compile_once  # type: ignore[method-assign]


_compile_each_route_once()


def _create_each_schema_once() -> None:
    """Creating a schema step by step takes 75 ms, copying it 3 ms. Upgrades of files are not affected."""
    create = migrate.create_schema
    made: dict[tuple[int, tuple[tuple[str, str], ...]], bytes] = {}

    def create_once(empty: sqlite3.Connection, number: int) -> None:
        (vacuum,) = empty.execute("PRAGMA auto_vacuum").fetchone()
        schema = vacuum, tuple(migrate._steps()[:number])
        with closing(sqlite3.connect(":memory:")) as template:
            if schema in made:
                template.deserialize(made[schema])
            else:
                template.execute(f"PRAGMA auto_vacuum = {vacuum}")
                create(template, number)
                template.commit()
                made[schema] = template.serialize()
            template.backup(empty)

    migrate.create_schema = create_once


_create_each_schema_once()

SYNCHRONOUS = connection.PRAGMAS["synchronous"]  # of the service


def _write_without_fsync() -> None:
    """Waiting for the disk takes longer than most tests, and their databases need not survive a power cut.

    Processes that tests start are not affected.
    """
    connection.PRAGMAS["synchronous"] = "off"
    os.fsync = lambda _: None  # type: ignore[assignment]


_write_without_fsync()


def _give_time_to_each_connection() -> None:
    connect = connection._Database._connect

    def connect_with_time(database: connection._Database) -> sqlite3.Connection:
        connected = connect(database)
        chance.give_time(connected)
        return connected

    connection._Database._connect = connect_with_time  # type: ignore[method-assign]


_give_time_to_each_connection()


def _forget_settings_of_the_shell() -> None:
    """`EDGE_…` variables of whoever runs the tests are settings of the services in them, too."""
    for name in [name for name in os.environ if name.startswith("EDGE_")]:
        del os.environ[name]


_forget_settings_of_the_shell()


@pytest.fixture(scope="session", autouse=True)
def chance_of_session(request: pytest.FixtureRequest) -> Iterator[None]:
    """What fixtures of the session or a module make is older than each test, or of the same time as slow tests."""
    is_real = any(item.get_closest_marker("slow") for item in request.session.items)
    with chance.of("session", chance.SESSION, is_real_time=is_real):
        yield


@pytest.fixture(autouse=True)
def chance_of_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """A failed test shows the seed, which repeats its random values and times."""
    is_real = any(request.node.get_closest_marker(marker) for marker in ("slow", "real_time"))
    with chance.of(request.node.nodeid, is_real_time=is_real):
        request.node.add_report_section("setup", "seed", chance.repeated())
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """What tests share has random values of its own, so that they depend on no test before it on the same worker."""
    if fixturedef.scope == "function" or fixturedef.argname == "chance_of_session":
        return (yield)
    name = f"{fixturedef.baseid}::{fixturedef.argname}[{request.param if hasattr(request, 'param') else ''}]"
    with chance.random_of(name):
        return (yield)


PROGRAMS = {
    "mosquitto": ("mosquitto",),
    "browser": ("chromium",),
    "node": ("node", "npm"),
    "curl": ("curl",),
    "shellcheck": ("shellcheck",),
    "minisign": ("minisign",),
}


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need another program than Python do not run by default, nor do those marked `slow`.

    Those marked `long` go first, so that no worker is left with one when the others have ended.
    """
    for item in items:
        if any(item.get_closest_marker(marker) for marker in (*PROGRAMS, "postgres")):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


gc.disable()  # while modules are imported and tests are collected, nearly all of which stays


def pytest_collection_finish() -> None:
    """Leave everything made so far out of later collections."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, programs in PROGRAMS.items():
        missing = [program for program in programs if not shutil.which(program)]
        if item.get_closest_marker(marker) and missing:
            lacks(f"{' and '.join(missing)} on PATH")
    if item.get_closest_marker("postgres") and server.programs() is None:
        lacks("the programs of PostgreSQL")


def lacks(what: str) -> NoReturn:
    """Skip a test without its requirement, or fail it in CI, where nothing may be skipped."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs {what}")


class Cast(NamedTuple):
    """`acme` is the organization most tests act for; `rival` must never see anything of it, nor the reverse."""

    acme: int
    rival: int


@pytest.fixture(scope="session")
def new_database(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("new")
    make_database(folder)
    return files_of(folder)


@pytest.fixture(scope="session")
def database_with_cast(tmp_path_factory: pytest.TempPathFactory, new_database: Files) -> tuple[Files, Cast]:
    folder = tmp_path_factory.mktemp("cast")
    copy_files(new_database, folder)
    acme, rival = (organizations.add_organization(shell(), name).id for name in ("Acme", "Rival"))
    signing_key()
    return files_of(folder), Cast(acme, rival)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[server.Server]:
    with server.running() as running:
        yield running


@pytest.fixture(params=["file", pytest.param("postgresql", marks=pytest.mark.postgres)])
def history(request: pytest.FixtureRequest) -> str:
    """The database of PostgreSQL that requests read the stays from, or an empty text for the file of the box."""
    return "" if request.param == "file" else str(request.getfixturevalue("history_url"))


@pytest.fixture(scope="session")
def history_url(postgres_server: server.Server) -> str:
    return postgres_server.new_url()


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A new, migrated database; the value is its data directory."""
    if "cast" in request.fixturenames:
        files, _ = request.getfixturevalue("database_with_cast")
    else:
        files = request.getfixturevalue("new_database")
    copy_files(files, tmp_path)
    yield tmp_path
    close_database()


@pytest.fixture
def cast(store: Path, database_with_cast: tuple[Files, Cast]) -> Cast:
    """Two organizations, which are in the database from the start."""
    return database_with_cast[1]
