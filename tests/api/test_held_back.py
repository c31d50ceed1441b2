"""An integrator's first test: reads of one tag at two locations, through ingest and out of the API."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.readers.clocks import READER
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.api.conftest import Api, data

EPC = "30AA00000000000000000001"
GAP = 300 * SECOND


@pytest.fixture
def site(acme: Api) -> dict[str, int]:
    """Create two locations with a reader each, and a tagged asset."""
    actor = shell(acme.organization_id)
    ids = {}
    for name in ("A", "B"):
        ids[name] = locations.create(actor, name=name, external_key=name).id
        readers.add_reader(
            actor, name=name, topic=f"site/{name}", format="edge", location_id=ids[name], clock_setting=READER
        )
    ids["asset"] = assets.create(actor, name="pallet", tags=[NewTag("rfid", EPC)]).id
    return ids


def read(place: str, at: int, *epcs: str) -> Message:
    reads = [{"tag": epc, "time": clock.rfc3339(at)} for epc in epcs or (EPC,)]
    return Message(f"site/{place}", msgspec.json.encode({"reads": reads}), at)


def row(acme: Api) -> dict[str, Any]:
    (location,) = data(acme.get("/reports/asset-locations"))
    return {name: location[name] for name in ("location_external_key", "asset_last_seen")}


def catch_up(pipeline: Pipeline) -> None:
    while pipeline.catch_up():
        pass


def test_a_read_at_another_location_is_recorded_without_a_later_read(acme: Api, site: dict[str, int]) -> None:
    """interface: Tracking"""
    pipeline, at = Pipeline(GAP, 7), clock.now() - 60 * SECOND
    pipeline.handle([read("A", at)])
    pipeline.handle([read("B", at + 15 * SECOND)])
    catch_up(pipeline)
    assert row(acme) == {"location_external_key": "B", "asset_last_seen": clock.rfc3339(at + 15 * SECOND)}
    assert acme.delete(f"/locations/{site['B']}").status_code == 409
    assert acme.delete(f"/locations/{site['A']}").status_code == 204


def test_an_undecided_row_has_one_read_and_keeps_its_location(acme: Api, site: dict[str, int]) -> None:
    """interface: Tracking"""
    pipeline, at = Pipeline(GAP, 7), clock.now()
    pipeline.handle([read("A", at - SECOND), read("B", at)])
    catch_up(pipeline)
    assert row(acme) == {"location_external_key": "A", "asset_last_seen": clock.rfc3339(at - SECOND)}
    refused = acme.delete(f"/locations/{site['B']}")
    assert refused.status_code == 409
    assert "undecided read" in refused.text


def test_a_read_waits_for_a_reader_that_is_offline_and_keeps_its_location(acme: Api, site: dict[str, int]) -> None:
    """interface: Tracking"""
    pipeline, at = Pipeline(GAP, 7), clock.now() - 100 * SECOND
    others = ["30AA000000000000000000FF"]
    pipeline.handle([read("A", at - second * SECOND, *others) for second in range(80, 0, -1)])
    pipeline.handle([read("A", at)])
    pipeline.handle([read("B", at + 15 * SECOND)])
    catch_up(pipeline)
    assert row(acme)["location_external_key"] == "A"
    assert acme.delete(f"/locations/{site['B']}").status_code == 409
    pipeline = Pipeline(GAP, 7)  # restart
    catch_up(pipeline)
    assert row(acme) == {"location_external_key": "A", "asset_last_seen": clock.rfc3339(at)}
    pipeline.handle([read("A", at + second * SECOND, *others) for second in range(60, 70)])
    catch_up(pipeline)
    assert row(acme) == {"location_external_key": "B", "asset_last_seen": clock.rfc3339(at + 15 * SECOND)}
