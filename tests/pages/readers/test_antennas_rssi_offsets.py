"""RSSI offsets make different reader models comparable, set by hand or proposed from tags that two readers read."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.audit.trail import recent
from edge.clock import SECOND
from edge.database.connection import execute
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.people.people import Role
from edge.readers import offset_proposals, readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking.antenna_names import port_of
from edge.tracking.rssi_offsets import offsets_of
from tests.conftest import Cast
from tests.ingest.site import GAP, csl, seen
from tests.pages.conftest import Browser

LOUD, QUIET = "site/loud/reads", "site/quiet/reads"
EPCS = [f"30AB{number:020X}" for number in range(8)]


class TwoMakes:
    """Create two locations with a reader each. The second model reports 10 dB less."""

    def __init__(self, organization_id: int) -> None:
        self.places = [locations.create(shell(organization_id), name=name).id for name in ("Loud", "Quiet")]
        self.readers = [
            readers.add_reader(shell(organization_id), name=topic, topic=topic, format="csl", location_id=place).id
            for topic, place in zip((LOUD, QUIET), self.places, strict=True)
        ]
        self.assets = [assets.create(shell(organization_id), name=epc, tags=[NewTag("rfid", epc)]).id for epc in EPCS]
        self.pipeline = Pipeline(GAP, 7)
        self.random = Random(9)

    def read(self, begins: int, ends: int, lead: float = 14.0) -> None:
        """Send reads of one second each; the first half of the tags is near the first reader."""
        now = clock.now() // SECOND * SECOND
        for second in range(begins, ends):
            at = now + second * SECOND
            for topic, make in ((LOUD, 0), (QUIET, -10)):
                tags = []
                for number, epc in enumerate(EPCS):
                    is_near = (number < len(EPCS) // 2) == (topic == LOUD)
                    strength = -55 + make - (0 if is_near else lead) + self.random.choice((-1, 0, 1))
                    tags.append(seen(epc, at, rssi=round(strength)))
                self.pipeline.handle([Message(topic, csl(*tags), at)])

    def right(self) -> int:
        where = dict(execute("SELECT asset_id, location_id FROM position"))
        return sum(where[one] == self.places[number >= len(EPCS) // 2] for number, one in enumerate(self.assets))


@pytest.fixture
def makes(cast: Cast) -> TwoMakes:
    return TwoMakes(cast.acme)


@pytest.fixture
def admin(sign_in_as: Callable[..., Browser]) -> Browser:
    return sign_in_as(Role.ADMINISTRATOR)


def test_an_offset_is_proposed_and_accepted_with_one_click(admin: Browser, cast: Cast, makes: TwoMakes) -> None:
    makes.read(-60, 0)
    path = f"/readers/{makes.readers[1]}/antennas"
    page = admin.get(path).text
    assert "reads 10 dB weaker than site/loud/reads" in page
    assert "8 stationary tags" in page
    (proposal,) = offset_proposals.proposals(cast.acme, makes.readers[1])
    assert (proposal.decibels, proposal.tags) == (10, 8)
    (mirrored,) = offset_proposals.proposals(cast.acme, makes.readers[0])
    assert mirrored.decibels == -10
    answer = admin.post(f"/readers/{makes.readers[1]}/rssi-offset", {"port": "1", "rssi_offset": "10.0"})
    assert answer.status_code == 303
    assert offsets_of(cast.acme).antennas == {(makes.readers[1], 1): 10}
    for reader_id in makes.readers:
        assert offset_proposals.proposals(cast.acme, reader_id) == []
    assert "No offset is proposed" in admin.get(path).text
    assert any("rssi_offset" in str(line) for line in recent(cast.acme, 5))


def test_an_offset_changes_decisions_and_not_stored_reads(cast: Cast, admin: Browser, makes: TwoMakes) -> None:
    """Tags that are 6 dB nearer to the weaker reader are located at the other one until it has an offset."""
    makes.read(-300, -200, lead=6)
    assert makes.right() < len(EPCS)
    admin.post(f"/readers/{makes.readers[1]}/rssi-offset", {"rssi_offset": "10"})
    makes.read(-200, 0, lead=6)
    assert makes.right() == len(EPCS)
    weakest = execute("SELECT min(rssi) FROM history").fetchone()[0]
    assert weakest <= -640
    makes.pipeline = Pipeline(GAP, 7)  # reads loaded from disk after a restart have the offset, too
    makes.read(0, 5, lead=6)
    assert makes.right() == len(EPCS)


@pytest.mark.parametrize("entered", ["30.1", "-31", "nan", "ten", "1e9"])
def test_an_invalid_offset_is_refused(admin: Browser, cast: Cast, makes: TwoMakes, entered: str) -> None:
    answer = admin.post(f"/readers/{makes.readers[0]}/rssi-offset", {"rssi_offset": entered})
    assert answer.status_code == 400
    assert "between -30 and 30 dB" in answer.text
    assert offsets_of(cast.acme).readers == {}


def test_an_offset_is_removed_and_a_named_antenna_is_called_by_its_name(
    admin: Browser, cast: Cast, makes: TwoMakes
) -> None:
    reader_id = makes.readers[0]
    port_of(reader_id, "north")
    path = f"/readers/{reader_id}/rssi-offset"
    admin.post(path, {"rssi_offset": "-4,5 dB"})
    admin.post(path, {"port": "north", "rssi_offset": "3"})
    page = admin.get(f"/readers/{reader_id}/antennas").text
    assert "-4.5 dB" in page
    assert "Antenna north" in page
    admin.send("/language", {"language": "pl"})
    page = admin.get(f"/readers/{reader_id}/antennas").text
    assert "Antena north" in page
    assert "-4,5 dB" in page
    admin.post(path, {"rssi_offset": ""})
    admin.post(path, {"port": "north", "rssi_offset": ""})
    assert offsets_of(cast.acme) == ({}, {})


def test_only_administrators_of_the_organization_set_an_offset(
    sign_in_as: Callable[..., Browser], cast: Cast, makes: TwoMakes
) -> None:
    path = f"/readers/{makes.readers[0]}/rssi-offset"
    assert sign_in_as(Role.EDITOR).post(path, {"rssi_offset": "5"}).status_code == 403
    theirs = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    assert theirs.post(path, {"rssi_offset": "5"}).status_code == 404
    assert offsets_of(cast.acme).readers == {}


def test_tags_near_one_reader_only_propose_nothing(cast: Cast, makes: TwoMakes) -> None:
    """The strength of these tags differs because of their place, not because of the readers."""
    makes.read(-60, 0, lead=0)
    where = {row[0] for row in execute("SELECT DISTINCT location_id FROM position")}
    assert len(where) == 1
    assert offset_proposals.proposals(cast.acme, makes.readers[0]) == []
