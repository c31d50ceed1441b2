"""A site in use: mosquitto, readers of four makes, an API client that creates assets, and a scanning handheld."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edge.audit import actors
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import close_database
from edge.people import api_keys, organizations, people, sessions
from edge.people.secrets import hash_secret, new_client_secret, new_token
from edge.people.sign_in import csrf_token
from edge.readers import readers
from edge.readers.clocks import READER
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.mosquitto import Mosquitto
from tests.soak.clients import MAKES, Creator, Handheld, Link, Publisher
from tests.soak.supervised import SupervisedService
from tests.soak.watching import Api

TAGS = [f"3074257BF7194E40{number:08X}" for number in range(20)]
BARCODE = "4006381333931"
DAY_MICROS = 86_400_000_000
PATIENCE = 120.0  # seconds, because the machine may be busy


class UsedSite:
    """`pauses`: seconds between two reads of one reader, two assets and two scans."""

    def __init__(self, folder: Path, seed: int, pauses: tuple[float, float, float], **settings: object) -> None:
        self.chance = random.Random(seed)
        self.data_dir = folder / "data"
        self._pauses = pauses
        self.broker = Mosquitto(folder)
        self.broker.start()
        self.link = Link(self.broker.port, seed)
        self._make(folder, seed, settings)

    def _make(self, folder: Path, seed: int, settings: dict[str, object]) -> None:
        migrate.migrate(self.data_dir)
        organization = organizations.add_organization(shell(), "Chaos").id
        who = shell(organization)
        docks = {}
        for number, make in enumerate(MAKES):
            docks[f"DOCK-{number}"] = locations.create(who, name=f"Dock {number}", external_key=f"DOCK-{number}").id
            readers.add_reader(
                who, name=make, topic=f"site/{make}/reads", format=make, location_id=docks[f"DOCK-{number}"],
                clock_setting=READER,
            )  # fmt: skip
        self.assets = {tag: assets.create(who, name=tag, tags=[NewTag("rfid", tag)]).id for tag in TAGS}
        self.assets[BARCODE] = assets.create(who, name="By hand", tags=[NewTag("barcode", BARCODE)]).id
        secret, cookie = new_client_secret(), new_token()
        key = api_keys.add_key(who, "Chaos", api_keys.SCOPES, hash_secret(secret))
        person = people.add_person(who, "Ann", people.Role.OPERATOR)
        until = time.time_ns() // 1000 + 30 * DAY_MICROS
        sessions.add_session(actors.person(organization, person.id, person.name), hash_secret(cookie), until)
        close_database()
        limits = {"rate__burst": 1000, "rate__per_second": 500, "retention__low_disk_mb": 0}
        self.service = SupervisedService(self.data_dir, self.broker.url, folder / "serve.log", **limits, **settings)
        self.service.patience = PATIENCE
        self.api = Api(self.service.http)
        self.api.use_credentials(key.id, secret)
        self.publishers = [
            Publisher(make, number, self.link.port, TAGS, seed + number) for number, make in enumerate(MAKES)
        ]
        self.creator = Creator(self.api.try_once)
        self.handheld = Handheld(self.service.http, cookie, csrf_token(cookie), BARCODE, docks, seed)

    def begin(self) -> None:
        self.service.start()
        self.service.wait_until_connected(PATIENCE)
        self.broker.stop()  # a clean stop writes the sessions to disk
        self.broker.start()
        self.service.wait_until_connected(PATIENCE)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Use the site while the block runs."""
        stopping = threading.Event()

        def use(step: Callable[[], None], pause: float) -> None:
            while not stopping.wait(pause):
                step()

        steps = [*((publisher.step, self._pauses[0]) for publisher in self.publishers),
                 (self.creator.step, self._pauses[1]), (self.handheld.step, self._pauses[2])]  # fmt: skip
        threads = [threading.Thread(target=use, args=step) for step in steps]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stopping.set()
            for thread in threads:
                thread.join()

    def close(self) -> None:
        for publisher in self.publishers:
            publisher.stop()
        self.link.close()
        self.broker.stop()
