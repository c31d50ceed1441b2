"""A yard with a door, a dock, pallets, and passages and scans written as ingest and handhelds write them."""

from __future__ import annotations

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.connection import execute
from edge.doors import doors
from edge.doors.passage_rule import Direction
from edge.expected_lists import expected_lists
from edge.expected_lists.expected_lists import State
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.people import people
from edge.people.people import Role
from edge.records import assets, locations
from edge.tracking import carriers


class Yard:
    """Pallets `P-0` and so on; lists start an hour ago, because seconds after the start must be in the past."""

    def __init__(self, organization_id: int, count: int = 5) -> None:
        self.organization_id = organization_id
        olga = people.add_person(shell(organization_id), f"Olga {organization_id}", Role.OPERATOR)
        self.olga = actors.person(organization_id, olga.id, olga.name)
        self.dock = locations.create(shell(organization_id), name="Dock").id
        self.rack = locations.create(shell(organization_id), name="Rack").id
        self.door = doors.add_door(shell(organization_id), "Gate", self.dock)
        self.pallets = [
            assets.create(shell(organization_id), name=f"Pallet {no}", external_key=f"P-{no}").id for no in range(count)
        ]
        self.began = clock.now() - clock.HOUR
        self._scans = 0

    def add_list(self, *numbers: int, name: str = "Truck 12", is_started: bool = True, at_dock: bool = False) -> int:
        codes = [f"P-{no}" for no in numbers]
        if at_dock:
            list_id = expected_lists.create(self.olga, name, codes, location_id=self.dock)
        else:
            list_id = expected_lists.create(self.olga, name, codes, door_id=self.door, direction=Direction.OUT)
        if is_started:
            expected_lists.start(self.olga, list_id)
            execute("UPDATE expected_list SET started_at = ? WHERE id = ?", (self.began, list_id))
        return list_id

    def pass_door(self, number: int, second: int, direction: Direction = Direction.OUT) -> int:
        """Record a passage and return its number."""
        at = self.began + second * SECOND
        passage_no: int = execute(
            "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
            "outer_reads, since, until, decided_at) VALUES (?, ?, ?, ?, ?, 990, 9, 9, ?, ?, ?) RETURNING no",
            (self.organization_id, self.door, self.pallets[number], at, direction, at, at, at),
        ).fetchone()[0]
        return passage_no

    def scan(self, number: int, second: int, place: int | None = None) -> str:
        """Scan a pallet at the dock, or another place, and return the id of the scan."""
        self._scans += 1
        scan_id, at = f"scan-{self.organization_id}-{self._scans}", self.began + second * SECOND
        scans.submit(self.olga, [Submitted(scan_id, f"P-{number}", place or self.dock, at)], at)
        return scan_id

    def undo(self, scan_id: str) -> None:
        scans.undo(self.olga, scan_id, 0)

    def load(self, carrier: int, number: int, second: int) -> None:
        at = self.began + second * SECOND
        assert carriers.load(self.olga, self.pallets[carrier], self.pallets[number], at)

    def state(self, list_id: int) -> State:
        return expected_lists.find_state(self.organization_id, list_id)

    def results(self, list_id: int) -> dict[str, list[str]]:
        """Return the keys of the assets by result, without empty ones."""
        by_result: dict[str, list[str]] = {}
        for line in self.state(list_id).lines:
            by_result.setdefault(line.result, []).append(line.asset_key)
        return by_result

    def sign_off(self, list_id: int) -> None:
        expected_lists.sign_off(self.olga, list_id, self.state(list_id).version)
