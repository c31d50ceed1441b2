"""Version 1 of the protocol, frozen as files: earlier releases must remain compatible.

A new version of the protocol gets its own files; these never change. To write files for a new version: python -m
tests.sync.test_batch_format
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from edge.clock import SECOND
from edge.doors.passage_copies import SentPassage
from edge.doors.passage_rule import Direction
from edge.errors import TooLarge, Unreadable
from edge.records import assets
from edge.sync import batch_format
from edge.sync.sender import Sender
from edge.sync.store import hub_link, sites
from edge.sync.store.exchange import (
    AntennaName,
    AssetRecord,
    Batch,
    Cursor,
    LocationRecord,
    Origin,
    Patch,
    Stay,
    TrackState,
)
from edge.tracking.decision_rule import Rule
from tests.sync.world import EPOCH, Hub, SiteBox

FOLDER = Path(__file__).parent / "examples" / f"v{batch_format.VERSION}"
BASE = Cursor("5f0c1d2e3a4b5c6d", 41, bytes(range(16)))
BATCH = Batch(
    until_seq=57,
    horizon=0,
    assets=[
        AssetRecord(
            *(7_001, "P-1", "Pallet", None, 1, '{"colour":"blue"}', EPOCH, None, EPOCH, EPOCH + 1, None),
            [("rfid", "3074257BF7194E4000001A85")],
        ),
        AssetRecord(
            -9_001, "F-1", "Forklift", "of the hub", 0, "{}", EPOCH, EPOCH + 9, EPOCH, EPOCH + 2, EPOCH + 3, []
        ),
    ],
    locations=[
        LocationRecord(8_001, None, "YARD", "Yard", None, 1, EPOCH, None, EPOCH, EPOCH + 1, None, []),
        LocationRecord(8_002, 8_001, "DOCK-1", "Dock 1", None, 1, EPOCH, None, EPOCH, EPOCH + 1, None, [("ble", "B1")]),
    ],
    readers={6_001: "Gate"},
    people={5_001: "Ann"},
    tracks=[TrackState(3, 7_001, 8_002, EPOCH + 90, EPOCH, EPOCH + 50, 0, 4)],
    gone_tracks=[2],
    origins=[Origin(8_002, 6_001, 1, None), Origin(8_001, None, None, 5_001)],
    patches=[
        Patch(3, EPOCH, EPOCH + 60, [Stay(EPOCH, 0, 40, 1, 7, 4, 1, None), Stay(EPOCH + 50, 0, 0, 0, 9, 0, 4, -515)]),
        Patch(3, EPOCH + 70, EPOCH + 70, []),
    ],
    report={"waiting": 12, "board_at": EPOCH},
)
QUESTIONS: dict[str, Any] = {
    "hello": {
        "versions": [1],
        "instance": "0011223344556677",
        "cursor": ["5f0c1d2e3a4b5c6d", 41, BASE.chain.hex()],
        "former": [],
        "recovering": False,
        "report": {"waiting": 12},
    },
    "masters": {"after": 0, "epoch": None, "page": None},
    "digests": {"range": [-1_000_000, 1_000_000], "days": []},
    "recover": {"part": "history", "after": [0, -(2**62), 0]},
}


def frozen(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    return SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))


def test_a_frozen_batch_is_decoded() -> None:
    assert batch_format.decode(batch_format.pack(frozen("changes")["question"])) == (BASE, BATCH)


def test_unknown_keys_are_ignored() -> None:
    assert batch_format.decode(batch_format.pack({**frozen("changes")["question"], "weather": ["fine"]})) == (
        BASE,
        BATCH,
    )


def test_antenna_names_are_an_optional_key() -> None:
    named = BATCH._replace(antennas=(AntennaName(6_001, 100_001, "north gate"),))
    said = batch_format.encode(BASE, named)
    assert batch_format.unpack(said) == {**frozen("changes")["question"], "antennas": [[6_001, 100_001, "north gate"]]}
    assert batch_format.decode(said) == (BASE, named)


def test_the_encoding_is_unchanged() -> None:
    assert batch_format.unpack(batch_format.encode(BASE, BATCH)) == frozen("changes")["question"]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("stays", 0), [0, 61, 0]),  # outside the range of its patch
        (("stays", 0), [-1, 50]),
        (("stays", 0), [0]),
        (("stays", 1), [0, True]),
        (("stays", 2), [40, 0.5]),
        (("stays", 2), [40, 2**63]),
        (("stays", 2), [40, None]),
        (("stays", 3), [1, 2]),  # an unknown origin
        (("stays", 3), [1, -1]),
        (("stays", 7), [None, "-515"]),
        (("stays", 7), "no"),
        (("stays",), []),
        (("patches", 0), [3, 2**63 - 1]),  # sums that overflow
        (("patches", 1), [2**62, 2**62]),
        (("patches", 2), [60, -1]),
        (("patches", 2), [60, 2**63 - 1]),
        (("patches", 3), [2, 1]),
        (("patches", 3), [3, -1]),
        (("patches", 3), [2]),
        (("tracks", 0), [3.0]),
        (("tracks", 1), [[7001]]),
        (("origins", 1), [6001]),
        (("gone",), ["2"]),
        (("antennas",), [[6_001, "3", "north"]]),
        (("antennas",), [[6_001, 3]]),
        (("antennas",), 7),
    ],
)
def test_a_batch_with_invalid_values_is_refused(where: tuple[Any, ...], value: Any) -> None:
    content = frozen("changes")["question"]
    part = content
    for step in where[:-1]:
        part = part[step]
    part[where[-1]] = value
    with pytest.raises(Unreadable):
        batch_format.decode(zlib.compress(json.dumps(content).encode()))


def test_a_hub_requests_an_unknown_track(ber: SiteBox) -> None:
    talk(ber)
    base = ber.hub.answer(ber.site_no, "hello", batch_format.pack(QUESTIONS["hello"]))["cursor"]
    more = BATCH._replace(until_seq=60, tracks=[], patches=[Patch(99, EPOCH, EPOCH, [])])
    body = batch_format.encode(Cursor(base[0], base[1], bytes.fromhex(base[2])), more)
    answer = ber.hub.answer(ber.site_no, "changes", body)
    assert not answer["applied"]
    assert answer["needs"]["tracks"] == [99]


@pytest.mark.parametrize("name", ["instance", "box", "epoch"])
def test_a_hub_refuses_names_that_postgresql_cannot_store(ber: SiteBox, name: str) -> None:
    """Such an epoch would keep the history of all sites from being moved back."""
    ber.join()
    greeting = json.loads(json.dumps(QUESTIONS["hello"]))
    if name == "epoch":
        greeting["cursor"][0] = "5f0c\0"
    else:
        greeting[name] = "5f0c\0"
    with pytest.raises(Unreadable):
        ber.hub.answer(ber.site_no, "hello", batch_format.pack(greeting))


def test_a_hub_accepts_the_requests_of_that_version(ber: SiteBox) -> None:
    answers = talk(ber)
    for name, answer in answers.items():
        assert set(frozen(name)["answer"]) <= set(answer), name
    assert answers["changes"]["applied"]
    assert answers["changes"]["cursor"][1] == 57
    assert ber.hub.rows("SELECT count(*), min(rssi), max(rule) FROM history") == [(2, -515, 4)]
    [current], [expected] = answers["masters"]["assets"], frozen("masters")["answer"]["assets"]
    assert list(map(type, current)) == list(map(type, expected))
    assert [list(row) for row in answers["digests"]["digests"]] == frozen("digests")["answer"]["digests"]


def talk(ber: SiteBox) -> dict[str, Any]:
    """Return the hub's answer to each question, asked in order."""
    ask = ber.hub.answer
    with ber.hub.in_use():
        assets.create(ber.hub.actor, name="Forklift of the hub", external_key="F-2")
        site = sites.get_site(ber.hub.organization_id, ber.site_no)
        sites.begin_epoch(
            site, QUESTIONS["hello"]["instance"], BASE, is_recovery=False
        )  # the hub already has earlier changes
    answers = {"hello": ask(ber.site_no, "hello", batch_format.pack(QUESTIONS["hello"]))}
    answers["changes"] = ask(ber.site_no, "changes", batch_format.encode(BASE, BATCH))
    for name in ("masters", "digests", "recover"):
        answers[name] = ask(ber.site_no, name, batch_format.pack(QUESTIONS[name]))
    return answers


def test_a_site_accepts_the_answers_of_that_version(ber: SiteBox) -> None:
    ber.add_asset("P-1")
    ber.join()
    with ber.in_use():
        here = hub_link.find()
        assert here

        def call(path: str, body: bytes) -> Any:
            answer = frozen(path)["answer"]
            if path == "hello":
                return {**answer, "cursor": [here.epoch, here.acked_seq, ""]}
            if path == "changes":
                base, batch = batch_format.decode(body)
                cursor = [base.epoch, batch.until_seq, batch_format.next_chain(base.chain, body).hex()]
                return {**answer, "cursor": cursor}
            return answer

        sender = Sender(call)
        sender.connect()
        while not sender.push().is_all:
            pass
        sender.pull()
        after = hub_link.find()
        assert after
        assert after.acked_seq > here.acked_seq


def write() -> None:
    import tempfile

    FOLDER.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        ber = SiteBox(Path(folder) / "ber", "BER", Hub(Path(folder) / "hub", "hub"))
        answers = talk(ber)
    questions = {**QUESTIONS, "changes": batch_format.unpack(batch_format.encode(BASE, BATCH))}
    for name, answer in answers.items():
        text = json.dumps({"question": questions[name], "answer": answer}, indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    write()


def test_a_body_that_is_too_large_when_it_is_unpacked_is_refused_as_too_large() -> None:
    for size, error in ((batch_format.MAX_INFLATED, Unreadable), (batch_format.MAX_INFLATED + 1, TooLarge)):
        with pytest.raises(error):
            batch_format.unpack(zlib.compress(b" " * size))


def test_rows_outside_the_range_of_their_patch_are_refused() -> None:
    patch = BATCH.patches[0]
    for offset, is_refused in ((0, False), (1, True)):
        stay = patch.stays[0]._replace(observed_at=patch.until + offset)
        body = batch_format.encode(BASE, BATCH._replace(patches=[patch._replace(stays=[stay])]))
        if is_refused:
            with pytest.raises(Unreadable, match="outside its range"):
                batch_format.decode(body)
        else:
            assert batch_format.decode(body)[1].patches[0].stays == [stay]


@pytest.mark.parametrize(
    ("change", "is_sound"),
    [
        ({}, True),
        ({"confidence": 1000}, True),
        ({"confidence": 1001}, False),
        ({"confidence": -1}, False),
        ({"since": EPOCH + 1}, False),
        ({"direction": 9}, False),
        ({"inner_reads": -1}, False),
    ],
)
def test_passages_with_impossible_values_are_left_out(change: dict[str, int], is_sound: bool) -> None:
    values = dict.fromkeys(SentPassage._fields, 1) | {"since": EPOCH, "at": EPOCH, "until": EPOCH, "decided_at": EPOCH}
    values |= {"direction": min(Direction), **change}
    batch = BATCH._replace(passages=[SentPassage(**values)])
    assert bool(batch_format.decode(batch_format.encode(BASE, batch))[1].passages) is is_sound


@pytest.mark.parametrize(
    ("change", "is_sound"),
    [
        ({}, True),
        ({"delay": -5 * SECOND}, True),
        ({"delay": 2**62}, False),  # the feed and EPCIS show the time of receipt
        ({"delay": -(2**62)}, False),
        ({"seq": 2**31}, False),  # PostgreSQL has 32 bits, and 16 for the next two
        ({"quality": 2**15}, False),
        ({"rssi": -(2**15)}, False),
        ({"rssi": -615}, True),
    ],
)
def test_stays_with_impossible_values_are_left_out(change: dict[str, int], is_sound: bool) -> None:
    stay = Stay(EPOCH, 0, 0, 0, 0, 0, int(Rule.EVERY_READ), None)._replace(**change)
    batch = BATCH._replace(tracks=[], patches=[Patch(3, EPOCH, EPOCH, [stay])])
    decoded = batch_format.decode(batch_format.encode(BASE, batch))[1]
    assert bool(decoded.patches) is is_sound
    assert decoded.refused == (() if is_sound else ("position 3",))
