"""The jobs: what a site has before, what is done, and what must be seen in the end.

`do` promises what others rely on and go on from: acknowledged messages, answers to a phone, finished backups. After a
fault it is called again with these promises, as often as it takes. `seen` returns plain values that no fault may change
in the end; times are left out, since a repetition is later.
"""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from msgspec.structs import replace
from werkzeug.test import Client, TestResponse

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.bulk import bulk_jobs, imports, slices
from edge.clock import DAY, SECOND
from edge.config.settings import Config
from edge.database import downgrade, migrate
from edge.database.connection import FILE_NAME, close_database, execute, open_database
from edge.database.instance import signing_key
from edge.events import destinations, detection
from edge.events.delivery import Message as Sent
from edge.events.delivery import Outcome, Result, Round
from edge.ingest.messages import Message
from edge.operations import backup, portable_file, retention
from edge.operations.backup import Rotation
from edge.pages import cookies
from edge.people import organizations, passwords, people, sessions
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.people.sign_in import csrf_token
from edge.records import assets
from edge.records.csv_import import NewRecord
from edge.records.tags import NewTag
from tests.application import make_app
from tests.databases import make_database
from tests.events.conftest import SILENCE, Warehouse, make_events
from tests.ingest.site import Site, csl, make_site, message, pipeline, seen
from tests.observed import counted
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_equal

Promise = Callable[[Any], None]
Seen = dict[str, Any]

PASSWORD = "correct horse battery staple"
MESSAGES = 12
BOXES = 6
KEPT = Rotation(7, 4)
_TIME = re.compile(rb'\b1[6-9]\d{14}\b|\d{4}-\d\d-\d\dT[\d:.]+Z|(?<="delay":)\d+')


class Refused(Exception):
    """The service said that it could not do it."""


class Job:
    """A job on the database of the folder `disk`."""

    def build(self, disk: Path) -> None:
        """Make what is there before. The database is closed afterwards."""
        make_database(disk)
        signing_key()  # made when the service starts
        self.fill(make_site(organizations.add_organization(shell(), "Acme").id))

    def fill(self, site: Site) -> None: ...

    def copied(self) -> None:
        """Adapt what was built to its copy."""

    def open(self, disk: Path) -> None:
        open_database(disk / FILE_NAME)

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        raise NotImplementedError

    def seen(self, disk: Path, promised: list[Any]) -> Seen:
        return exported()


def exported() -> Seen:
    """Return all records and all history, as `edge export` writes them."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "site.zip"
        portable_file.write_export(file)
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name != "manifest.json"]
            return {name: _TIME.sub(b"TIME", archive.read(name)).decode().splitlines() for name in names}


class Messages(Job):
    """Messages of a reader. The broker delivers again what was not acknowledged."""

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        began = (clock.now() - DAY) // DAY * DAY
        every = [self._message(number, began, is_redelivered=bool(promised)) for number in range(1, MESSAGES + 1)]
        waiting = [one for one in every if one.mid not in promised]
        line = pipeline(is_smoothing=False)
        for first in range(0, len(waiting), 4):
            line.handle(waiting[first : first + 4])
            for one in waiting[first : first + 4]:
                promise(one.mid)

    def _message(self, number: int, began: int, *, is_redelivered: bool) -> Message:
        """Return a message with reads of two assets and an unknown tag, or one that cannot be read."""
        at = (began + number * 400 * SECOND) // 1000
        epcs = [f"30AA{number % 3:020X}", f"30AA{(number + 1) % 3:020X}", f"30BB{number:020X}"]
        payload = csl(*(seen(epc, at, port=number % 2 + 1) for epc in epcs)) if number % 5 else b"{broken"
        return message(payload, mid=number, is_redelivered=is_redelivered)

    def seen(self, disk: Path, promised: list[Any]) -> Seen:
        numbers = {bucket: count.reads for bucket, count in counted().items()}
        return exported() | {"numbers": numbers, "acknowledged": sorted(promised)}


class Scans(Job):
    """Scans of a person. The phone sends again what was not answered."""

    def fill(self, site: Site) -> None:
        sign_in_as(Role.OPERATOR, site.organization_id)
        for number in range(BOXES):
            tags = [NewTag("barcode", f"BOX-{number}")]
            assets.create(shell(site.organization_id), name=f"Box {number}", tags=tags)

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        (dock,) = execute("SELECT id FROM location WHERE name = 'Dock'").fetchone()
        client = browser()
        for number in range(BOXES):
            if f"scan-of-box-{number}" not in promised:
                now = clock.now() // 1000
                item = {"id": f"scan-of-box-{number}", "code": f"BOX-{number}", "location": dock, "at": now}
                body = {"sent_at": now, "device": "phone-of-olga", "items": [item]}
                answer = client.post("/scan/batch", json=body, headers={"X-CSRF-Token": csrf_token("token")})
                for result in answered(answer).get_json()["results"]:
                    promise(result["id"])

    def seen(self, disk: Path, promised: list[Any]) -> Seen:
        return exported() | {"answered": sorted(promised)}


class Import(Job):
    """An import of records: stored once it has begun, then written in slices."""

    def fill(self, site: Site) -> None:
        sign_in_as(Role.EDITOR, site.organization_id)

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        (organization_id, person_id) = execute("SELECT organization_id, id FROM person").fetchone()
        if not promised:
            rows = [NewRecord(n, f"K-{n}", {"name": f"Box {n}"}, [NewTag("rfid", f"AA{n:02}")]) for n in range(2, 40)]
            actor = actors.person(organization_id, person_id, "Olga")
            if not bulk_jobs.running_job(organization_id):
                imports.start(actor, "asset", rows, len(rows))
            promise("begun")
        slices.run_jobs(lambda _: False)


class Upgrade(Job):
    """An upgrade of a database that has some of everything."""

    def fill(self, site: Site) -> None:
        pipeline().handle([Messages()._message(number, clock.now() - DAY, is_redelivered=False) for number in (1, 2)])

    def build(self, disk: Path) -> None:
        super().build(disk)
        close_database()
        downgrade.downgrade(disk, migrate.newest_schema() - 6)

    def open(self, disk: Path) -> None: ...

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        migrate.migrate(disk)
        close_database()

    def seen(self, disk: Path, promised: list[Any]) -> Seen:
        open_database(disk / FILE_NAME)
        tables = sorted(execute("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall())
        return exported() | {"tables": tables}


class Backup(Job):
    """A backup. Each one in the folder can be restored at any time, the ones made before included."""

    def build(self, disk: Path) -> None:
        super().build(disk)
        backup.make_backup(disk, disk / "backups", KEPT)

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        promise(backup.make_backup(disk, disk / "backups", Rotation(1, 1)).backup.path.name)

    def seen(self, disk: Path, promised: list[Any]) -> Seen:
        kept = backup.list_backups(disk / "backups")
        for one in kept:
            backup.check_backup(one.path, disk)
        names = [one.path.name for one in kept]
        files = sorted(path.name for path in (disk / "backups").iterdir())
        return exported() | {"promised last": promised[-1] == names[0], "others": sorted(set(files) - set(names))}


class Restore(Job):
    """A restore: the site is the one of the backup afterwards, or the present one as long as it has not ended."""

    def build(self, disk: Path) -> None:
        super().build(disk)
        backup.make_backup(disk, disk / "backups", KEPT)
        (organization_id,) = execute("SELECT id FROM organization").fetchone()
        assets.create(shell(organization_id), name="Not in the backup")

    def open(self, disk: Path) -> None: ...

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        newest = backup.newest_backup(disk / "backups")
        assert newest
        backup.restore_backup(shell(), newest.path, disk)

    def seen(self, disk: Path, promised: list[Any]) -> Seen:
        open_database(disk / FILE_NAME)
        return exported()


class Delivery(Job):
    """Events to a receiver, at least once and in order for each asset."""

    def build(self, disk: Path) -> None:
        make_database(disk)
        warehouse = Warehouse(organizations.add_organization(shell(), "Acme").id)
        detection.start(SILENCE)
        warehouse.add_webhook("http://127.0.0.1:9/")
        for number in range(4):
            asset = warehouse.add_asset(f"P-{number}")
            warehouse.record([(asset, "north", 1), (asset, "south", 400 + number)])

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        make_events()
        (organization_id, no) = execute("SELECT organization_id, no FROM destination").fetchone()
        while Round(destinations.get(organization_id, no), Receiver(promise), Event(), is_note_due=True).run():
            pass

    def seen(self, disk: Path, promised: list[Any]) -> Seen:
        (organization_id, no) = execute("SELECT organization_id, no FROM destination").fetchone()
        row = destinations.get(organization_id, no)
        first = list(dict.fromkeys(promised))
        return exported() | {"in order": first == sorted(first), "events": len(first), "delivered": row.delivered}


class Receiver:
    def __init__(self, promise: Promise) -> None:
        self._promise = promise

    def send(self, message: Sent) -> Outcome:
        self._promise(int(message.id.split("_")[1]))
        return Outcome(Result.DELIVERED, "")

    def close(self) -> None: ...


class Retention(Job):
    """A round of retention, which deletes most of what is there."""

    def fill(self, site: Site) -> None:
        began = clock.now() - 900 * DAY
        messages = [Messages()._message(number, began, is_redelivered=False) for number in range(1, MESSAGES)]
        pipeline(is_smoothing=False).handle([replace(one, received_at=began + 2 * DAY) for one in messages])

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        limits = Config(
            retention_history_days=1,
            retention_audit_days=1,
            retention_unknown_tags=2,
            retention_dead_letters=1,
            retention_low_disk_mb=0,
        )
        retention.sweep(limits, clock.now() + 3 * DAY, 10**12, lambda: False)


class SignIn(Job):
    """A sign-in with a password, then a page."""

    def fill(self, site: Site) -> None:
        people.add_person(
            shell(site.organization_id),
            "Ada",
            Role.ADMINISTRATOR,
            email="ada@acme.example",
            password_hash=passwords.hash_password(PASSWORD),
        )

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        client = browser()
        if promised:
            client.set_cookie(cookies.SESSION, promised[-1])
        else:
            answered(client.get("/sign-in"))
            form = client.get_cookie(cookies.FORM)
            data = {"csrf": csrf_token(form.value if form else ""), "email": "ada@acme.example", "password": PASSWORD}
            answer = answered(client.post("/sign-in", data=data))
            assert answer.status_code == 303, answer.text
            session = client.get_cookie(cookies.SESSION)
            assert session
            promise(session.value)
        assert answered(client.get("/")).status_code == 200

    def seen(self, disk: Path, promised: list[Any]) -> Seen:
        return exported() | {"sessions": len(promised)}


class Sync(Job):
    """A site that sends its changes to its hub; the files of both are on the disk that fails."""

    ber: SiteBox

    def build(self, disk: Path) -> None:
        hub = Hub(disk / "hub", "hub")
        self.ber = ber = SiteBox(disk / "ber", "BER", hub)
        pallet = ber.add_asset("P-1", "AA01")
        for step in range(3):
            ber.scan(pallet, step % 3, EPOCH + step * HOUR)
        with hub.in_use():
            assets.create(hub.actor, name="Forklift", external_key="F-1")
        ber.join()
        ber.settle()
        ber.scan(pallet, 1, EPOCH + 9 * HOUR)
        ber.scan(ber.add_asset("P-2", "AA02"), 1, EPOCH + 9 * HOUR)

    def copied(self) -> None:
        with self.ber.hub.in_use():
            execute("UPDATE site SET box = NULL")  # copied files count as another machine

    def open(self, disk: Path) -> None: ...

    def do(self, disk: Path, promised: list[Any], promise: Promise) -> None:
        self.ber.settle()

    def seen(self, disk: Path, promised: list[Any]) -> Seen:
        assert_equal(self.ber)
        here, there = self.ber.rows(_WAITING), self.ber.hub.rows(_WAITING)
        with self.ber.in_use():
            return exported() | {"aside": here + there}


_WAITING = "SELECT * FROM set_aside"

JOBS: dict[str, Callable[[], Job]] = {
    "messages": Messages,
    "scans": Scans,
    "import": Import,
    "upgrade": Upgrade,
    "backup": Backup,
    "restore": Restore,
    "sync": Sync,
    "delivery": Delivery,
    "retention": Retention,
    "sign-in": SignIn,
}


def sign_in_as(role: Role, organization_id: int) -> None:
    person = people.add_person(shell(organization_id), "Olga", role)
    actor = actors.person(organization_id, person.id, person.name)
    sessions.add_session(actor, hash_secret("token"), clock.now() + clock.HOUR)


def browser() -> Client:
    client = Client(make_app())
    client.set_cookie(cookies.SESSION, "token")
    return client


def answered(answer: TestResponse) -> TestResponse:
    """Return an answer that is none of a service that cannot write. Raises Refused otherwise."""
    if answer.status_code == 503:
        raise Refused(answer.text)
    assert answer.status_code < 500, f"{answer.status_code} {answer.text}"
    return answer
