"""A release is tried on a copy, beside the site, before it takes the site over.

Tests of edge/ops/trial.py and edge/ops/upgrade.py.
"""

import json
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from edge import runtime
from edge.config import Config
from edge.ops.backup import Kept, make_backup
from edge.ops.upgrade import FILE_NAME
from edge.store import migrate, organizations
from edge.store.actors import shell
from edge.store.database import close_database
from tests.mosquitto import free_port, mosquitto
from tests.service import ROOT, wait_for
from tests.systemd.test_service import health

pytestmark = pytest.mark.mosquitto


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Of a site with one organization."""
    site = tmp_path / "site"
    site.mkdir()
    migrate.migrate(site)
    organizations.add_organization(shell(), "Acme")
    path = make_backup(site, site / "backups", Kept(1, 1)).backup.path
    close_database()
    return path


def try_release(backup: Path, broken: str = "") -> subprocess.CompletedProcess[str]:
    """`edge trial`, with this code run first."""
    folder = backup.parents[1] / "trial"
    script = f"import sys; from edge import cli; {broken or 'pass'}; sys.argv[0] = 'edge'; cli.main()"
    settings = backup.parents[2] / "edge.toml"
    settings.write_text('[mqtt]\ntopics = ["site/#"]\n')
    flags = [f"--config={settings}", f"--set=data_dir={backup.parents[1]}"]
    flags += [f"--set=http.listen=127.0.0.1:{free_port()}"]
    command = [sys.executable, "-c", script, *flags, "trial", str(backup), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert not folder.exists()
    return done


def test_a_release_that_works_follows_a_read_through_the_copy(backup: Path) -> None:
    before = {file: file.read_bytes() for file in backup.parents[1].rglob("*") if file.is_file()}
    done = try_release(backup)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["schema_before"] == told["schema_after"] == migrate.newest_schema()
    assert {file: file.read_bytes() for file in backup.parents[1].rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("from edge.ops import trial; trial._PAGES += ('/no-such-page',)", "/no-such-page answers 404"),
        ("from edge.commands import trial; trial.TAG = 'other'", "did not become a position"),
        ("from edge.commands import trial as t; t._command = lambda *_: ['false']", "ended at its start"),
        ("from edge.commands import trial as t; from edge.ops import trial;"
         " trial.START_SECONDS = 0.5; t._command = lambda *_: ['sleep', '60']", "did not answer within"),
    ],
    ids=["page", "read", "start", "slow start"],
)  # fmt: skip
def test_a_release_that_does_not_work_is_told_in_one_sentence(backup: Path, broken: str, told: str) -> None:
    done = try_release(backup, f"from edge.ops import trial as limits; limits.ARRIVAL_SECONDS = 1.0; {broken}")
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_nothing_comes_in_until_an_upgrade_is_complete(backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database may still be put back, and then it would be lost."""
    site, port = backup.parents[1], free_port()
    monkeypatch.setattr(runtime, "set_up_log", lambda _: None)
    (site / FILE_NAME).touch()
    with mosquitto(site) as broker:
        config = Config(data_dir=site, mqtt_broker=broker.url, http_listen=f"127.0.0.1:{port}")
        with runtime.running(config):
            assert [ask(port, method) for method in ("POST", "GET")] == [503, 401]
            assert health(port) == (200, False)  # the broker is not asked for anything
            (site / FILE_NAME).unlink()
            wait_for(lambda: health(port) == (200, True), 20)


def ask(port: int, method: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, "/api/v1/assets", headers={"User-Agent": "x/1"})
    status = connection.getresponse().status
    connection.close()
    return status
