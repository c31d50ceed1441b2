"""`edge trial`: try this release on a copy of the site. systemd/edge-upgrade runs it before it switches."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import click

from edge import clock, listeners
from edge.audit import actors
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute, open_database
from edge.errors import SetupError
from edge.ingest import broker_probe
from edge.ingest.sessions import Broker
from edge.operations import archives
from edge.operations.upgrade import trial
from edge.operations.upgrade.trial import Outcome
from edge.people import api_keys, organizations, people, sessions
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_client_secret, new_token
from edge.readers import readers
from edge.readers.reader_messages import ReaderMessage, all_messages
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import copies, history_engine
from edge.validation.topics import below, overlap

TOPICS, TAG = "edge-trial", "E2801160600002054CC2096F"
TOPIC = f"{TOPICS}/reads"


@click.command("trial", hidden=True)
@click.argument("backup", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--before", type=click.Path(path_type=Path), help="Folder of the running release, for comparison.")
@click.pass_context
def try_release(context: click.Context, backup: Path, folder: Path, before: Path | None) -> None:
    """Unpack BACKUP into FOLDER, run this release on it, and follow reads through it while the site keeps running."""
    _check_libraries(context.obj.config.hub_history)
    with _scratch(folder):
        _unpack(context, backup, folder)
        schema, seconds = _migrate(folder)
        synthetic = _make_synthetic()
        messages = all_messages()
        after = migrate.present_schema()
        close_database()
        expected = _outcome_before(context, backup, folder / "before", before, messages) if before else None
        with trial.broker(folder) as port:
            started = _follow_read(context, folder, synthetic, port, messages, expected)
    report = {
        "messages_replayed": len(messages) if expected else 0,
        "schema_before": schema,
        "schema_after": after,
        "migration_seconds": seconds,
        "start_seconds": started,
        "start_limit": trial.start_limit(started, seconds),
    }
    click.echo(json.dumps(report))


@contextmanager
def _scratch(folder: Path) -> Iterator[None]:
    """Create an empty folder and remove it afterwards. Leftovers of an interrupted trial are removed first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(folder)


def _check_libraries(hub_history: str) -> None:
    """Raise SetupError if this release lacks the libraries for PostgreSQL and the hub needs them."""
    history_engine.use(hub_history)
    history_engine.use("")


def _unpack(context: click.Context, backup: Path, folder: Path) -> None:
    """Unpack the database. The copy of a hub's keeps its own history, so the trial never touches PostgreSQL."""
    archives.unpack(backup, folder / FILE_NAME)
    if context.obj.config.hub_history:
        open_database(folder / FILE_NAME)
        copies.forget_remote_stays()
        close_database()


def _migrate(folder: Path) -> tuple[int, float]:
    """Migrate the copy. Returns its previous schema and the seconds it took."""
    open_database(folder / FILE_NAME)
    before, began = migrate.present_schema(), time.monotonic()
    migrate.migrate(folder, keeps_copy=False)
    return before, round(time.monotonic() - began, 1)


def _make_synthetic() -> trial.Synthetic:
    """Create records for the trial in a separate organization, isolated from those of the site."""
    listeners.connect()
    _remove_overlapping_readers()
    name = f"Trial {secrets.token_hex(4)}"
    organization_id = organizations.add_organization(actors.service(), name, TOPICS).id
    actor = actors.service(organization_id)
    location = locations.create(actor, name="Trial", external_key="EDGE-TRIAL")
    asset = assets.create(actor, name="Trial", external_key="EDGE-TRIAL", tags=[NewTag("rfid", TAG)])
    readers.add_reader(actor, name="Trial", topic=TOPIC, format="edge", location_id=location.id)
    secret, cookie = new_client_secret(), new_token()
    key = api_keys.add_key(actor, "Trial", api_keys.SCOPES, hash_secret(secret))
    person = people.add_person(actor, "Trial", Role.ADMINISTRATOR)
    somebody = actors.person(organization_id, person.id, person.name)
    sessions.add_session(somebody, hash_secret(cookie), clock.now() + clock.HOUR)
    return trial.Synthetic(asset.external_key, location.external_key, key.id, secret, cookie)


def _remove_overlapping_readers() -> None:
    """Remove readers like `#` or `+/reads` from the copy. No other organization could use the trial's topics.

    Their messages are not replayed.
    """
    for reader_id, *topics in execute("SELECT id, topic, status_topic FROM reader WHERE deleted_at IS NULL").fetchall():
        if any(overlap(topic, below(TOPICS)) for topic in topics if topic):
            execute("UPDATE reader SET deleted_at = ? WHERE id = ?", (clock.now(), reader_id))


def _outcome_before(
    context: click.Context, backup: Path, folder: Path, program: Path, messages: list[ReaderMessage]
) -> Outcome | None:
    """Replay the messages to the running release on its own copy. Returns its outcome, or None without messages."""
    if not messages:
        return None
    folder.mkdir(mode=0o700)
    _unpack(context, backup, folder)
    with trial.broker(folder) as port:
        listen = f"127.0.0.1:{trial.free_port()}"
        broker = Broker(f"mqtt://127.0.0.1:{port}", "")
        command = _command(context, folder, listen, broker.url, str(program / "bin" / "python"))
        with trial.service(command, folder, f"http://{listen}"):
            trial.wait_until_ready(f"http://{listen}")
            return trial.replay(folder / FILE_NAME, messages, partial(broker_probe.publish, broker), None)[0]


def _follow_read(
    context: click.Context,
    folder: Path,
    synthetic: trial.Synthetic,
    broker_port: int,
    messages: list[ReaderMessage],
    expected: Outcome | None,
) -> float:
    """Run the service and follow a read through it. Returns the seconds until the service answered."""
    listen = f"127.0.0.1:{trial.free_port()}"
    broker = Broker(f"mqtt://127.0.0.1:{broker_port}", "")
    payload = json.dumps({"reads": [{"tag": TAG}]}).encode()
    base = f"http://{listen}"
    with trial.service(_command(context, folder, listen, broker.url), folder, base) as started:
        trial.follow_read(base, synthetic, lambda: broker_probe.publish(broker, TOPIC, payload))
        trial.open_pages(base, synthetic)
        if expected:
            _, fault = trial.replay(folder / FILE_NAME, messages, partial(broker_probe.publish, broker), expected)
            if fault:
                raise SetupError(fault)
    return round(started, 1)


def _command(
    context: click.Context, folder: Path, listen: str, broker_url: str, python: str = sys.executable
) -> list[str]:
    """Return the command line of a service with the site's settings, except those that would affect the site."""
    changed = {
        "data_dir": folder,
        "http.listen": listen,
        "mqtt.broker": broker_url,
        "mqtt.topics": ",".join(_topics(context.obj.config.mqtt_topics)),
        "mqtt.password_file": "",
        "mqtt.ca_file": "",
        "mqtt.accounts_dir": "",
        "backup.dir": "",
        "backup.second_dir": "",
        "backup.continuous_dir": "",
        "retention.low_disk_mb": 0,
    }
    if context.obj.config.hub_history:  # earlier releases do not have this setting
        changed["hub.history"] = ""
    file = context.parent.params["file"] if context.parent else None
    config = [f"--config={file}"] if file else []
    return [
        python,
        "-m",
        "edge",
        *config,
        *(f"--set={name}={value}" for name, value in changed.items()),
        "serve",
    ]


def _topics(of_site: tuple[str, ...]) -> tuple[str, ...]:
    """Return the site's topic filters and that of the trial, without overlap: it would duplicate deliveries."""
    return of_site if "#" in of_site else (*of_site, f"{TOPICS}/#")
