"""Remarks on fields that a mapping misses, visible only to the reader's organization."""

from __future__ import annotations

import msgspec
import pytest

from edge.audit.actors import shell
from edge.database.connection import execute, writing
from edge.errors import NotFound
from edge.ingest.pipeline import Pipeline
from edge.readers import mapped_fields, readers
from edge.readers.mapped_fields import WINDOW, remarks_of, remarks_of_all
from edge.validation.field_counts import FieldCount
from tests.conftest import Cast
from tests.ingest.site import GAP, message

TOPIC = "site/gate/reads"
MAPPING = {"tag_path": "epc", "antenna_path": "antena", "rssi_path": "rssi"}


@pytest.fixture
def gate(cast: Cast) -> int:
    actor = shell(cast.acme)
    mapping = msgspec.json.encode(MAPPING).decode()
    return readers.add_reader(actor, name="gate", topic=TOPIC, format="mapping", mapping=mapping).id


def send(pipeline: Pipeline, number: int, **fields: object) -> None:
    payload = msgspec.json.encode([{"epc": "30AA", "antenna": 2, "rssi": -60, **fields}] * number)
    pipeline.handle([message(payload, TOPIC)])


def test_a_path_without_matches_is_reported_after_enough_reads(cast: Cast, gate: int) -> None:
    pipeline = Pipeline(GAP, 7)
    send(pipeline, 9)
    assert remarks_of(cast.acme, gate) == []
    for _ in range(7):
        send(pipeline, 3)
    assert remarks_of(cast.acme, gate) == ["antenna_path matched nothing in 30 of 30 reads"]
    assert remarks_of_all() == [("gate", "antenna_path matched nothing in 30 of 30 reads")]


def test_an_unreadable_field_is_reported_with_the_last_example(cast: Cast, gate: int) -> None:
    pipeline = Pipeline(GAP, 7)
    send(pipeline, 10, antena=1)
    send(pipeline, 10, antena=1, rssi="C3")
    assert remarks_of(cast.acme, gate) == ['rssi_path was unreadable in 10 of 20 reads: rssi is "C3", not a number']


def test_a_new_mapping_resets_the_counts(cast: Cast, gate: int) -> None:
    pipeline = Pipeline(GAP, 7)
    send(pipeline, 30)
    readers.change_reader(shell(cast.acme), gate, {"name": "south gate"})
    assert remarks_of(cast.acme, gate)
    mapping = msgspec.json.encode(MAPPING | {"antenna_path": "antenna"}).decode()
    readers.change_reader(shell(cast.acme), gate, {"mapping": mapping})
    assert remarks_of(cast.acme, gate) == []
    send(pipeline, 30)
    assert remarks_of(cast.acme, gate) == []


def test_the_counts_follow_a_device_that_changes(cast: Cast, gate: int) -> None:
    with writing():
        for _ in range(5):
            mapped_fields.record({gate: {"antenna_path": FieldCount(WINDOW, WINDOW)}})
        for _ in range(5):
            mapped_fields.record({gate: {"antenna_path": FieldCount(WINDOW)}})
    assert remarks_of(cast.acme, gate) == []
    (reads,) = execute("SELECT max(reads) FROM mapped_field").fetchone()
    assert reads <= WINDOW


def test_another_organization_sees_nothing_of_it(cast: Cast, gate: int) -> None:
    send(Pipeline(GAP, 7), 30)
    with pytest.raises(NotFound):
        remarks_of(cast.rival, gate)


def test_a_removed_reader_is_not_reported(cast: Cast, gate: int) -> None:
    send(Pipeline(GAP, 7), 30)
    readers.remove_reader(shell(cast.acme), gate)
    assert remarks_of_all() == []
