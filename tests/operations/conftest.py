from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge.audit.actors import shell
from edge.database.connection import close_database
from edge.people.organizations import add_organization
from tests.databases import make_database


@contextmanager
def fresh_site(folder: Path) -> Iterator[Path]:
    """Yield a data directory with an open, empty database."""
    folder.mkdir(parents=True, exist_ok=True)
    make_database(folder)
    try:
        yield folder
    finally:
        close_database()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    with fresh_site(tmp_path / "data") as folder:
        add_organization(shell(), "Acme")
        yield folder
