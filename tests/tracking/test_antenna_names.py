"""Named antennas, readers that share a topic, and readers with a separate status topic."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.bounds import MOST_PORTS
from edge.database.connection import execute
from edge.errors import Conflict
from edge.formats.reads import Attempt
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.ingest.try_out import try_out
from edge.operations import stats
from edge.readers import readers, status
from edge.readers.antenna_kinds import set_reader_kind
from edge.readers.readers import Placement, ReaderRow
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import antenna_names, report
from edge.tracking.signal_strength import AntennaKind
from tests.conftest import Cast
from tests.ingest.site import GAP
from tests.observed import counted

TOPIC = "site/reads"
MAPPING = '{"tag_path": "epc", "antenna_path": "antenna", "reader_path": "reader"}'


@pytest.fixture
def asset(cast: Cast) -> int:
    return assets.create(shell(cast.acme), name="Pallet", tags=[NewTag("rfid", "30AA")]).id


def add(cast: Cast, **given: Any) -> ReaderRow:
    settings = {"name": "R", "topic": TOPIC, "format": "mapping", "mapping": MAPPING, **given}
    return readers.add_reader(shell(cast.acme), **settings)


def send(pipeline: Pipeline, read: dict[str, Any] | bytes, topic: str = TOPIC, **flags: bool) -> None:
    payload = read if isinstance(read, bytes) else msgspec.json.encode(read)
    pipeline.handle([Message(topic, payload, clock.now(), **flags)])


def place_of(asset_id: int) -> str:
    sql = "SELECT l.name FROM position p JOIN location l ON l.id = p.location_id WHERE p.asset_id = ?"
    name: str = execute(sql, (asset_id,)).fetchone()[0]
    return name


def test_named_antennas_have_their_own_locations_and_kinds(cast: Cast, asset: int) -> None:
    north, south = (locations.create(shell(cast.acme), name=name).id for name in ("North", "South"))
    reader = add(cast)
    pipeline = Pipeline(GAP, 7, is_smoothing=False)
    send(pipeline, {"epc": "30AA", "antenna": "north gate"})
    (antenna,) = status.antennas(cast.acme, reader.id)
    assert (antenna.label, antenna.location_id) == ("north gate", None)
    assert stats.unplaced_antennas(0) == [("R", "north gate")]
    for name, location in (("north gate", north), ("south gate", south)):  # the second has not been read yet
        port = antenna_names.port_from(reader.id, name)
        readers.set_antenna(shell(cast.acme), reader.id, port, Placement(location, None, True))
    set_reader_kind(
        shell(cast.acme), reader.id, "R", AntennaKind.PORTAL, antenna_names.port_from(reader.id, "south gate")
    )
    for name, place in (("north gate", "North"), ("south gate", "South")):
        send(pipeline, {"epc": "30AA", "antenna": name})
        assert place_of(asset) == place
    assert [move.port for move in report.moves(cast.acme, asset)] == ["south gate", "north gate"]
    attempt = Attempt(TOPIC, b'{"epc":"30AA","antenna":"south gate"}', "mapping", MAPPING, reader_id=reader.id)
    assert try_out(cast.acme, attempt).reads[0].location_id == south


def test_antennas_of_the_plain_format_have_names_too(cast: Cast, asset: int) -> None:
    hall, north = (locations.create(shell(cast.acme), name=name).id for name in ("Hall", "North"))
    reader = add(cast, format="edge", mapping=None, location_id=hall)
    port = antenna_names.port_from(reader.id, "north door")
    readers.set_antenna(shell(cast.acme), reader.id, port, Placement(north, None, True))
    send(Pipeline(GAP, 7, is_smoothing=False), {"tag": "30AA", "antenna": "north door"})
    assert place_of(asset) == "North"


@pytest.mark.parametrize(
    ("name", "mapping", "tag", "unreadable"),
    [
        ("edge", None, "tag", {"antenna": -1}),
        ("mapping", MAPPING, "epc", {"antenna": -1}),
        ("mapping", MAPPING, "epc", {"antenna": -1, "reader": "hall"}),
        ("mapping", MAPPING, "epc", {"antenna": 2, "reader": "x" * 101}),
    ],
)
def test_an_unreadable_antenna_counts_at_the_reader_only_if_all_antennas_do(
    cast: Cast, asset: int, name: str, mapping: str | None, tag: str, unreadable: dict[str, Any]
) -> None:
    """It could be an antenna somewhere else."""
    hall, north = (locations.create(shell(cast.acme), name=name).id for name in ("Hall", "North"))
    reader = add(cast, format=name, mapping=mapping, location_id=hall)
    pipeline = Pipeline(GAP, 7, is_smoothing=False)
    message = {tag: "30AA", **unreadable}
    attempt = Attempt(TOPIC, msgspec.json.encode(message), name, mapping, hall, reader_id=reader.id)
    send(pipeline, message)
    assert place_of(asset) == "Hall"
    assert [move.port for move in report.moves(cast.acme, asset)] == [None]
    assert try_out(cast.acme, attempt).reads[0].location_id == hall
    readers.set_antenna(shell(cast.acme), reader.id, 2, Placement(north, None, True))
    send(pipeline, {tag: "30AA", "antenna": 2})
    send(pipeline, message)
    assert place_of(asset) == "North"
    assert try_out(cast.acme, attempt).bucket == "no_location"


def test_readers_that_share_a_topic_are_distinguished(cast: Cast, asset: int) -> None:
    reader = add(cast)
    pipeline = Pipeline(GAP, 7, is_smoothing=False)
    for number in (1, 2):
        place = locations.create(shell(cast.acme), name=f"Gate {number}").id
        port = antenna_names.port_from(reader.id, f"fx-{number}/3")
        readers.set_antenna(shell(cast.acme), reader.id, port, Placement(place, None, True))
    for number in (1, 2, 1):
        send(pipeline, {"epc": "30AA", "antenna": 3, "reader": f"fx-{number}"})
        assert place_of(asset) == f"Gate {number}"


def test_antenna_numbers_do_not_change(cast: Cast, asset: int) -> None:
    reader = add(cast)
    send(Pipeline(GAP, 7), {"epc": "30AA", "antenna": "2"})
    assert [one.label for one in status.antennas(cast.acme, reader.id)] == ["2"]


def test_reads_beyond_the_limit_of_antenna_names_still_count(cast: Cast, asset: int) -> None:
    place = locations.create(shell(cast.acme), name="Hall").id
    reader = add(cast, location_id=place)
    pipeline = Pipeline(GAP, 7)
    pipeline.handle(
        [
            Message(TOPIC, msgspec.json.encode({"epc": "30AA", "antenna": f"a{number}"}), clock.now())
            for number in range(300)
        ]
    )
    assert len(antenna_names.names_of(reader.id)) == MOST_PORTS
    assert place_of(asset) == "Hall"
    assert execute("SELECT sum(messages) FROM ledger WHERE bucket IN ('recorded', 'repeat')").fetchone() == (300,)


def test_names_from_a_failed_batch_get_numbers_again(cast: Cast, asset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = add(cast)
    pipeline = Pipeline(GAP, 7)
    with monkeypatch.context() as patch:
        patch.setattr("edge.ingest.batch.judge", lambda *_: 1 / 0)
        send(pipeline, {"epc": "30AA", "antenna": "north"})
    send(pipeline, {"epc": "30AA", "antenna": "north"})
    assert list(antenna_names.names_of(reader.id).values()) == ["north"]


@pytest.mark.parametrize(
    "will", [b"offline", b"Offline\n", b'{"status":"offline"}', b'{"online":false}', b"false", b"0", b'"offline"']
)
def test_the_last_will_on_another_topic_shows_a_reader_as_offline_at_once(cast: Cast, will: bytes) -> None:
    reader = add(cast, status_topic="site/reader-1/LWT")
    pipeline = Pipeline(GAP, 7)
    offline = []
    for payload in (b"online", will, b'{"status":"online"}'):
        send(pipeline, payload, "site/reader-1/LWT")
        offline.append(status.statuses(cast.acme)[reader.id].is_offline)
    assert offline == [False, True, False]
    assert {bucket: count.messages for bucket, count in counted().items()} == {"status": 3}


def test_the_status_topic_may_match_the_topic_of_reads(cast: Cast) -> None:
    reader = add(cast, topic="site/r1/#", status_topic="site/r1/status")
    send(Pipeline(GAP, 7), b"offline", "site/r1/status")
    assert status.statuses(cast.acme)[reader.id].is_offline


def test_a_retained_last_will_is_ignored(cast: Cast) -> None:
    reader = add(cast, status_topic="site/lwt")
    send(Pipeline(GAP, 7), b"offline", "site/lwt", is_retained=True)
    assert reader.id not in status.statuses(cast.acme)


def test_a_status_topic_belongs_to_one_reader(cast: Cast) -> None:
    add(cast, status_topic="site/lwt")
    with pytest.raises(Conflict, match="overlaps with the topic of the reader R"):
        add(cast, name="S", topic="site/lwt")
    with pytest.raises(Conflict, match="overlaps"):
        add(cast, name="S", topic="site/s", status_topic="site/+")
