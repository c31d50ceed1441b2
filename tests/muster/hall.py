"""A hall with a yard as muster point, people with tags, and reads as ingest records them."""

from __future__ import annotations

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute
from edge.muster import musters, plans
from edge.muster.musters import State
from edge.muster.plans import NewPlan
from edge.people import people
from edge.people.people import Role
from edge.records import assets, locations
from edge.tracking import positions, tracked_people
from edge.tracking.stays import Quality, Scan
from edge.tracking.tracked_people import PeopleSetting

SETTING = PeopleSetting(key_prefix="PERSON-", seen_by=Role.ADMINISTRATOR)


class Hall:
    """People `PERSON-0` and so on; `began` is the start of the muster that `start` opens."""

    def __init__(self, organization_id: int, count: int = 3) -> None:
        self.organization_id = organization_id
        by = shell(organization_id)
        olga = people.add_person(by, f"Olga {organization_id}", Role.OPERATOR)
        self.olga = actors.person(organization_id, olga.id, olga.name)
        tracked_people.save(by, SETTING)
        self.hall = locations.create(by, name="Hall").id
        self.yard = locations.create(by, name="Yard").id
        self.corner = locations.create(by, name="Yard corner", parent_id=self.yard).id
        self.gate = locations.create(by, name="Gate").id
        self.people = [assets.create(by, name=f"Worker {no}", external_key=f"PERSON-{no}").id for no in range(count)]
        self.pallet = assets.create(by, name="Pallet", external_key="PALLET-1").id
        self.plan = plans.create(by, NewPlan("Hall", [self.yard, self.gate]))
        self.began = clock.now()

    def add_reader(
        self, place: int, name: str, *, heard_at: int, has_clock: bool = True, is_offline: bool = False
    ) -> int:
        number: int = execute(
            "INSERT INTO reader (id, organization_id, name, topic, format, location_id, created_at, updated_at) "
            "VALUES ((SELECT ifnull(max(id), 1) + 1 FROM reader), ?, ?, ?, 'edge', ?, 0, 0) RETURNING id",
            (self.organization_id, name, f"topic/{name}", place),
        ).fetchone()[0]
        execute(
            "INSERT INTO reader_state (reader_id, last_heard_at, clock_offset, qos, is_offline) VALUES (?, ?, ?, 1, ?)",
            (number, heard_at, 0 if has_clock else None, is_offline),
        )
        return number

    def start(self, *, is_drill: bool = False) -> int:
        number = musters.start(self.olga, self.plan, is_drill=is_drill)
        (self.began,) = execute("SELECT started_at FROM muster WHERE id = ?", (number,)).fetchone()
        return number

    def read(
        self,
        number: int,
        place: int,
        second: float,
        *,
        quality: Quality = Quality.READER,
        reader: int | None = None,
        delay: float = 0,
    ) -> None:
        """Record a read that was made some seconds after the start, and received `delay` seconds later."""
        at = self.began + int(second * SECOND)
        received_at = at + int(delay * SECOND)
        positions.record(
            [Scan(self.organization_id, self.people[number], place, reader, None, at, received_at, quality)],
            300 * SECOND,
        )

    def state(self, muster_id: int) -> State:
        return musters.find_state(self.organization_id, muster_id)

    def safe(self, muster_id: int) -> list[int]:
        """Return the numbers of the people who are safe."""
        return [self.people.index(one.asset_id) for one in self.state(muster_id).safe]

    def how(self, muster_id: int, number: int) -> tuple[str, str, str]:
        """Return result, reason and place of a person."""
        one = next(one for one in self.state(muster_id).people if one.asset_id == self.people[number])
        return one.result, one.how, one.place

    def end(self, muster_id: int, note: str = "") -> None:
        musters.end(self.olga, muster_id, self.state(muster_id).version, note)
