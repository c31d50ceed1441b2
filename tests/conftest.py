"""Fixtures everyone uses: a fresh migrated database, and the cast."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from hypothesis import settings
from werkzeug.routing import Rule

from edge.audit import quotas
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database
from edge.people import organizations

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("edge", deadline=None)
settings.load_profile("edge")


def _compile_each_route_once() -> None:
    """Compiling the routes takes 65 of the 75 ms of `create_app`, and thousands of tests make an application each.

    What is kept depends on nothing but the route: its arguments, the pattern, the converters, and the two functions
    that build its URL.
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
    """Tests that need another program than Python do not run by default, nor do those marked `slow`."""
    for item in items:
        if any(item.get_closest_marker(marker) for marker in PROGRAMS):
            item.add_marker(pytest.mark.slow)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker, programs in PROGRAMS.items():
        missing = [program for program in programs if not shutil.which(program)]
        if item.get_closest_marker(marker) and missing:
            lacks(f"{' and '.join(missing)} on PATH")


def lacks(what: str) -> NoReturn:
    """What a test needs is not there: it is skipped on a laptop and fails in CI, where nothing may be skipped."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needs {what}")


class Cast(NamedTuple):
    """`acme` is the organization most tests act for; `rival` must never see anything of it, nor the reverse."""

    acme: int
    rival: int


@pytest.fixture(scope="session")
def new_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Making it takes longer than most tests, so that each of them gets a copy."""
    folder = tmp_path_factory.mktemp("new")
    migrate.migrate(folder)
    close_database()
    return (folder / FILE_NAME).read_bytes()


@pytest.fixture
def store(tmp_path: Path, new_database: bytes) -> Iterator[Path]:
    """A new, migrated database; the value is its data directory."""
    (tmp_path / FILE_NAME).write_bytes(new_database)
    migrate.migrate(tmp_path)
    quotas.forget()
    yield tmp_path
    close_database()


@pytest.fixture
def cast(store: Path) -> Cast:
    return Cast(organizations.add_organization(shell(), "Acme").id, organizations.add_organization(shell(), "Rival").id)
