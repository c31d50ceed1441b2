"""Trial of a release on a copy before the switch."""

import json
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.config.settings import Config
from edge.database import migrate
from edge.database.connection import close_database, execute, writing
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.operations.backup import Rotation, make_backup
from edge.operations.upgrade.pending_upgrade import FILE_NAME
from edge.people import organizations
from edge.readers import reader_messages, readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.runtime import serve
from tests.mosquitto import free_port, mosquitto
from tests.service import ROOT, wait_for
from tests.systemd.test_service import health

pytestmark = pytest.mark.mosquitto


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Return a backup of a site with one organization."""
    site = tmp_path / "site"
    site.mkdir()
    migrate.migrate(site)
    organizations.add_organization(shell(), "Acme")
    path = make_backup(site, site / "backups", Rotation(1, 1)).backup.path
    close_database()
    return path


def try_release(
    backup: Path, broken: str = "", before: Path | None = None, more_settings: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `edge trial`, with the code `broken` executed first."""
    folder = backup.parents[1] / "trial"
    script = f"import sys; from edge import cli; {broken or 'pass'}; sys.argv[0] = 'edge'; cli.main()"
    settings = backup.parents[2] / "edge.toml"
    settings.write_text(f'[mqtt]\ntopics = ["site/#"]\n{more_settings}')
    flags = [f"--config={settings}", f"--set=data_dir={backup.parents[1]}"]
    flags += [f"--set=http.listen=127.0.0.1:{free_port()}"]
    command = [sys.executable, "-c", script, *flags, "trial", str(backup), str(folder)]
    command += ["--before", str(before)] if before else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert not folder.exists()
    return done


def test_a_release_that_works_follows_a_read_through_the_copy(backup: Path) -> None:
    before = {file: file.read_bytes() for file in backup.parents[1].rglob("*") if file.is_file()}
    done = try_release(backup)
    assert done.returncode == 0, done.stderr
    message = json.loads(done.stdout)
    assert message["schema_before"] == message["schema_after"] == migrate.newest_schema()
    assert {file: file.read_bytes() for file in backup.parents[1].rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("from edge.operations.upgrade import trial; trial._PAGES += ('/no-such-page',)", "/no-such-page answers 404"),
        ("from edge.commands import upgrade; upgrade.TAG = 'other'; from edge.operations.upgrade import trial;"
         " trial.ARRIVAL_SECONDS = 1.0", "did not update the current location"),
        ("from edge.commands import upgrade as t; t._command = lambda *_: ['false']", "stopped at startup"),
        ("from edge.commands import upgrade as t; from edge.operations.upgrade import trial;"
         " trial.START_SECONDS = 0.5; t._command = lambda *_: ['sleep', '60']", "did not respond within"),
    ],
    ids=["page", "read", "start", "slow start"],
)  # fmt: skip
def test_a_broken_release_is_reported_in_one_sentence(backup: Path, broken: str, message: str) -> None:
    done = try_release(backup, broken)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def with_reader(backup: Path) -> Path:
    """Return a backup with a reader that keeps its messages, and an asset that it read at the dock."""
    site = backup.parents[1]
    migrate.migrate(site)
    actor = shell(organizations.find_organization(None).id)
    dock = locations.create(actor, name="Dock").id
    readers.add_reader(actor, name="dock", topic="site/dock/reads", format="edge", location_id=dock)
    assets.create(actor, name="Pallet", tags=[NewTag("rfid", "3074257BF7194E4000001A85")])
    ingest = Pipeline(0, 7)
    for period in range(3):
        at = clock.now() - (3 - period) * reader_messages.EVERY
        payload = b'{"reads": [{"tag": "3074257BF7194E4000001A85"}, {"tag": "E2801160600002054CC20001"}]}'
        ingest.handle([Message("site/dock/reads", payload, at)])
    path = make_backup(site, site / "newer", Rotation(1, 1)).backup.path
    close_database()
    return path


def test_the_messages_of_each_reader_end_as_with_the_release_that_runs(backup: Path) -> None:
    done = try_release(with_reader(backup), before=Path(sys.prefix))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages_replayed"] == 3


@pytest.mark.parametrize("topic", ["#", "+/gate", "edge-trial/+"])
def test_a_reader_on_all_topics_does_not_prevent_an_upgrade(backup: Path, topic: str) -> None:
    site = backup.parents[1]
    migrate.migrate(site)
    actor = shell(organizations.find_organization(None).id)
    readers.add_reader(actor, name="gateway", topic=topic, format="edge")
    Pipeline(0, 7).handle([Message(topic.replace("+", "gate"), b'{"reads": [{"tag": "AB"}]}', clock.now())])
    path = make_backup(site, site / "newer", Rotation(1, 1)).backup.path
    close_database()
    done = try_release(path, before=Path(sys.prefix))
    assert done.returncode == 0, done.stderr


NOBODY = "postgresql://edge@127.0.0.1:1/edge"


def test_the_trial_of_a_hub_does_not_use_its_postgresql(backup: Path) -> None:
    site = backup.parents[1]
    with_reader(backup)
    migrate.migrate(site)
    with writing():
        execute("DELETE FROM history")
        execute("UPDATE track SET history_rows = 5")
    path = make_backup(site, site / "newest", Rotation(1, 1)).backup.path
    close_database()
    done = try_release(path, before=Path(sys.prefix), more_settings=f'[hub]\nhistory = "{NOBODY}"\n')
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages_replayed"] == 3


def test_a_release_without_the_libraries_of_the_hub_is_refused(backup: Path) -> None:
    done = try_release(backup, "sys.modules['psycopg'] = None", more_settings=f'[hub]\nhistory = "{NOBODY}"\n')
    assert done.returncode == 1
    assert "needs an extra" in done.stderr


DROPS = """
import sys
from edge import cli
from edge.ingest.routing import Router
find = Router.find
Router.find = lambda self, topic: None if topic.startswith("site/dock") else find(self, topic)
sys.argv[0] = "edge"
cli.main()
"""


# The running release has all the time it needs, and so has the read before; what is dropped would never arrive.
WAIT_BRIEFLY_FOR_A_DIFFERENCE = """
from edge.operations.upgrade import trial
trial.ARRIVAL_SECONDS, usual_replay = 60.0, trial.replay
def brief(file, messages, publish, expected):
    trial.ARRIVAL_SECONDS = 60.0 if expected is None else 1.0
    return usual_replay(file, messages, publish, expected)
trial.replay = brief
"""


def test_a_release_that_drops_the_topic_of_a_reader_is_refused(backup: Path) -> None:
    """The synthetic read still arrives, so only a replay of the reader's messages detects it."""
    serve_broken = (
        f"{WAIT_BRIEFLY_FOR_A_DIFFERENCE}from edge.commands import upgrade as t; usual = t._command;"
        f" t._command = lambda *a: usual(*a) if len(a) > 4 else [sys.executable, '-c', {DROPS!r}, *usual(*a)[3:]]"
    )
    done = try_release(with_reader(backup), serve_broken, before=Path(sys.prefix))
    assert done.returncode == 1
    assert "of reader dock, 0 messages are counted as recorded, in the running release 3" in done.stderr


def test_no_input_is_taken_until_an_upgrade_is_complete(backup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback restores the previous database and would lose the input."""
    site, port = backup.parents[1], free_port()
    monkeypatch.setattr(serve, "set_up_log", lambda _: None)
    (site / FILE_NAME).touch()
    with mosquitto(site) as broker:
        config = Config(data_dir=site, mqtt_broker=broker.url, http_listen=f"127.0.0.1:{port}")
        with serve.running(config):
            assert [ask(port, method) for method in ("POST", "GET")] == [503, 401]
            assert health(port) == (200, False)  # not connected to the broker
            (site / FILE_NAME).unlink()
            wait_for(lambda: health(port) == (200, True), 20)


def ask(port: int, method: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, "/api/v1/assets", headers={"User-Agent": "x/1"})
    status = connection.getresponse().status
    connection.close()
    return status
