"""The programs of the manual run as they stand there, against a real server."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.people import api_keys, organizations
from edge.people.secrets import hash_secret
from edge.records import assets, locations
from edge.records.record import RecordFilter
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.bench import api as bench
from tests.manual.documents import marked

pytestmark = pytest.mark.slow


class Site(NamedTuple):
    address: str
    organization_id: int
    folder: Path

    def run(self, marker: str, *scopes: str, is_wrong: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a program of the manual with a key of these scopes."""
        key = api_keys.add_key(shell(self.organization_id), marker, scopes, hash_secret("secret"))
        program = [sys.executable, "-c", marked(marker).code, self.address, key.id, "wrong" if is_wrong else "secret"]
        return subprocess.run(program, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    box = tmp_path / "box"
    box.mkdir()
    migrate.migrate(box)
    organization_id = organizations.add_organization(shell(), "Acme").id
    pallet = assets.create(shell(organization_id), name="Pallet 71", external_key="P-71").id
    dock = locations.create(shell(organization_id), name="Dock 1", external_key="DOCK-1").id
    now = clock.now()
    record([Scan(organization_id, pallet, dock, None, None, now, now, Quality.HANDHELD)], 0)
    with bench.running("edge", box) as address:
        yield Site(address, organization_id, tmp_path)


def test_the_reader_of_the_feed_copies_the_site_and_continues(site: Site) -> None:
    for name in ("Pallet 71", "Pallet 71, new"):
        done = site.run("run:feed-reader", api_keys.FEED_SCOPE)
        assert done.returncode == 0, done.stderr
        with closing(sqlite3.connect(site.folder / "mirror.db")) as mirror:
            assert mirror.execute("SELECT external_key, name FROM asset").fetchall() == [("P-71", name)]
            assert mirror.execute("SELECT count(*) FROM stay").fetchone() == (1,)
        (row,) = assets.list_page(site.organization_id, RecordFilter(), limit=9).rows
        assets.patch(shell(site.organization_id), row.id, {"name": "Pallet 71, new"})


def test_the_client_creates_changes_and_lists(site: Site) -> None:
    scopes = ("assets:read", "assets:write", "tracking:read")
    for _ in range(2):
        done = site.run("run:api-client", *scopes)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("P-71 DOCK-1 2")
    names = {row.external_key: row.name for row in assets.list_page(site.organization_id, RecordFilter(), limit=9).rows}
    assert names == {"P-71": "Pallet 71", "P-72": "Pallet 72, repaired"}
    assert "401 Invalid client credentials" in site.run("run:api-client", *scopes, is_wrong=True).stderr
    assert "403" in site.run("run:api-client", "assets:read").stderr
