"""Latest sensor values of assets: from the message to the page's data, with few writes."""

from __future__ import annotations

import json

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import DAY, SECOND
from edge.database.connection import execute, writing
from edge.events import detection
from edge.events import log as events
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.readers import readers
from edge.records import assets
from edge.records.tags import NewTag
from edge.tracking import asset_values, deletion
from edge.tracking.asset_values import AssetValues, NewValues
from tests.conftest import Cast
from tests.events.conftest import SILENCE, make_events

T = 1_800_000_000 * SECOND


class Stage:
    def __init__(self, cast: Cast) -> None:
        self.organization_id = cast.acme
        self.actor = shell(cast.acme)
        self.asset = assets.create(self.actor, name="Freezer", tags=[NewTag("ble", "C3:0A:11:4E:7F:21")]).id

    def record(self, *values: tuple[int, int | None, int | None], is_pressed: bool = False) -> int:
        """Record (seconds, battery, temperature). Returns the number of changed rows."""
        with writing():
            before = execute("SELECT total_changes()").fetchone()[0]
            asset_values.record(
                NewValues(self.organization_id, self.asset, T + at * SECOND, battery, None, degrees, is_pressed)
                for at, battery, degrees in values
            )
            return int(execute("SELECT total_changes()").fetchone()[0] - before)

    def values(self) -> AssetValues:
        return asset_values.find(self.organization_id, self.asset)


@pytest.fixture
def stage(cast: Cast) -> Stage:
    return Stage(cast)


def test_noise_is_not_written(stage: Stage) -> None:
    assert stage.record((0, 80, 2000)) == 1
    assert [stage.record((at, 80 + at % 2, 2000 + at % 40)) for at in range(1, 60)] == [0] * 59
    assert stage.record((60, 78, 2000)) == 1
    assert stage.record((61, 78, 2050)) == 1
    assert stage.record((DAY // SECOND + 100, 78, 2050)) == 1, "once a day, to show that it still sends"
    assert (stage.values().battery, stage.values().temperature) == (78, 2050)


def test_each_lower_percent_of_a_battery_is_written_at_once(stage: Stage) -> None:
    stage.record((0, 21, None))
    assert stage.record((1, 20, None)) == 1
    assert [stage.record((at, 20 + at % 2, None)) for at in range(2, 9)] == [0] * 7
    assert stage.values().battery == 20


def test_the_result_does_not_depend_on_the_order_of_arrival(stage: Stage) -> None:
    stage.record((100, 50, None))
    assert stage.record((40, 90, None)) == 0
    assert stage.values().battery == 50


def test_a_repeated_advertisement_is_one_press(stage: Stage) -> None:
    stage.record((0, None, None), is_pressed=True)
    assert stage.record((3, None, None), is_pressed=True) == 0
    stage.record((9, None, None), is_pressed=True)
    assert stage.values().pressed_at == T + 9 * SECOND


def test_a_message_sets_the_values_and_makes_an_event(stage: Stage, cast: Cast) -> None:
    readers.add_reader(stage.actor, name="Dock", topic="dock", format="edge")
    detection.start(SILENCE)
    read = {"tag": "C3:0A:11:4E:7F:21", "type": "ble", "battery": 15, "temperature": -18.25}
    pipeline = Pipeline(300 * SECOND, 30)
    pipeline.handle([Message("dock", json.dumps(read).encode(), clock.now())])
    pipeline.handle([Message("dock", json.dumps(read).encode(), clock.now())])
    make_events()
    (event,) = [one for _, one in events.all_after(0, 100) if one.kind == "asset.measured"]
    assert event.data["asset"]["name"] == "Freezer"
    shown = event.data["values"]
    assert (shown["battery"], shown["is_battery_low"], shown["temperature"]) == (15, True, -18.25)
    (low,) = asset_values.list_low(cast.acme, 10)
    assert (low.name, low.battery) == ("Freezer", 15)
    assert asset_values.list_low(cast.rival, 10) == []
    assert asset_values.count_low() == [(cast.acme, 1, 1)]
    assets.delete(stage.actor, stage.asset)
    assert asset_values.list_low(cast.acme, 10) == []


def test_old_values_are_dropped(stage: Stage) -> None:
    stage.record((0, 50, None))
    assert deletion.drop_old_records("sensor_values", T) == 0
    assert deletion.drop_old_records("sensor_values", T + 1) == 1
    assert stage.values() == AssetValues()
