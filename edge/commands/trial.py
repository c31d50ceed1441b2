"""`edge trial`: tries this release on a copy of the site; systemd/edge-upgrade runs it before it switches."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from edge import clock
from edge.auth.secrets import hash_secret, new_client_secret, new_token
from edge.ingest import broker_probe
from edge.ingest.subscriber import Broker
from edge.ops import archives, trial
from edge.store import actors, assets, keys, locations, migrate, organizations, people, readers, sessions
from edge.store.database import FILE_NAME, close_database, open_database
from edge.store.people import Role
from edge.store.tags import NewTag

TOPICS, TAG = "edge-trial", "E2801160600002054CC2096F"
TOPIC = f"{TOPICS}/reads"


@click.command("trial", hidden=True)
@click.argument("backup", type=click.Path(path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def try_release(context: click.Context, backup: Path, folder: Path) -> None:
    """Unpack BACKUP into FOLDER, run this release on it beside the site, and follow a read through it."""
    with _scratch(folder):
        archives.unpack(backup, folder / FILE_NAME)
        before, seconds = _migrate(folder)
        made = _make_synthetic()
        after = migrate.present_schema()
        close_database()
        with trial.broker(folder) as port:
            started = _follow_read(context, folder, made, port)
    told = {"schema_before": before, "schema_after": after, "migration_seconds": seconds, "start_seconds": started,
            "start_limit": trial.start_limit(started, seconds)}  # fmt: skip
    click.echo(json.dumps(told))


@contextmanager
def _scratch(folder: Path) -> Iterator[None]:
    """An empty folder, removed afterwards; what an interrupted trial left in it is removed first."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield
    finally:
        shutil.rmtree(folder)


def _migrate(folder: Path) -> tuple[int, float]:
    """The schema it had, and the seconds it took to bring it to this release's."""
    open_database(folder / FILE_NAME)
    before, began = migrate.present_schema(), time.monotonic()
    migrate.migrate(folder, keeps_copy=False)
    return before, round(time.monotonic() - began, 1)


def _make_synthetic() -> trial.Synthetic:
    """In an organization of its own, so that nothing of the site interferes."""
    name = f"Trial {secrets.token_hex(4)}"
    organization_id = organizations.add_organization(actors.service(), name, TOPICS).id
    actor = actors.service(organization_id)
    location = locations.create(actor, name="Trial", external_key="EDGE-TRIAL")
    asset = assets.create(actor, name="Trial", external_key="EDGE-TRIAL", tags=[NewTag("rfid", TAG)])
    readers.add_reader(actor, name="Trial", topic=TOPIC, format="edge", location_id=location.id)
    secret, cookie = new_client_secret(), new_token()
    key = keys.add_key(actor, "Trial", keys.SCOPES, hash_secret(secret))
    person = people.add_person(actor, "Trial", Role.ADMINISTRATOR)
    somebody = actors.person(organization_id, person.id, person.name)
    sessions.add_session(somebody, hash_secret(cookie), clock.now() + clock.HOUR)
    return trial.Synthetic(asset.external_key, location.external_key, key.id, secret, cookie)


def _follow_read(context: click.Context, folder: Path, made: trial.Synthetic, broker_port: int) -> float:
    """The seconds until the service answered."""
    listen = f"127.0.0.1:{trial.free_port()}"
    broker = Broker(f"mqtt://127.0.0.1:{broker_port}", "")
    payload = json.dumps({"reads": [{"tag": TAG}]}).encode()
    base = f"http://{listen}"
    with trial.service(_command(context, folder, listen, broker.url), folder, base) as started:
        trial.follow_read(base, made, lambda: broker_probe.publish(broker, TOPIC, payload))
        trial.open_pages(base, made)
    return round(started, 1)


def _command(context: click.Context, folder: Path, listen: str, broker_url: str) -> list[str]:
    """The settings of the site, except for those that would affect the site itself."""
    changed = {
        "data_dir": folder,
        "http.listen": listen,
        "mqtt.broker": broker_url,
        "mqtt.topics": f"{TOPICS}/#",
        "mqtt.password_file": "",
        "mqtt.ca_file": "",
        "mqtt.accounts_dir": "",
        "backup.dir": "",
        "backup.second_dir": "",
        "backup.continuous_dir": "",
        "retention.low_disk_mb": 0,
    }
    file = context.parent.params["file"] if context.parent else None
    config = [f"--config={file}"] if file else []
    return [
        sys.executable,
        "-m",
        "edge",
        *config,
        *(f"--set={name}={value}" for name, value in changed.items()),
        "serve",
    ]
