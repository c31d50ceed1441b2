"""Records exchange keys and tags, and branches of the tree are turned around. The box does it without help."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from edge.audit.actors import Actor
from edge.records import assets, locations, lookup
from edge.records.tags import NewTag
from edge.upstream import push, rounds
from tests.upstream.strict_records import invalid
from tests.upstream.strict_service import StrictService
from tests.upstream.strict_world import StrictSender, strict_sender


@pytest.fixture
def sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictSender]:
    with strict_sender(tmp_path, monkeypatch, StrictService()) as one:
        yield one


def make(sender: StrictSender, *keys: str) -> list[int]:
    ids = []
    for key in keys:
        tags = [NewTag("rfid", f"E-{key}")]
        ids.append(assets.create(sender.actor, name=key, external_key=key, tags=tags).id)
    sender.settle()
    return ids


def rotate(actor: Actor, ids: list[int], keys: list[str]) -> None:
    """Give each record the key of the next one."""
    for one in ids:
        assets.rename(actor, one, f"MOVING-{one}")
    for one, key in zip(ids, [*keys[1:], keys[0]], strict=True):
        assets.rename(actor, one, key)


def ids_there(sender: StrictSender) -> dict[str, int]:
    return {row.values["name"]: row.id for row in sender.records.rows["assets"].values()}


@pytest.mark.parametrize("number", [2, 3, 49])
def test_keys_in_a_circle(sender: StrictSender, number: int) -> None:
    keys = [f"P-{one}" for one in range(number)]
    ids = make(sender, *keys)
    before = ids_there(sender)
    rotate(sender.actor, ids, keys)
    renames = len(sender.service.requests)
    sender.settle()
    sender.assert_equal()
    assert ids_there(sender) == before, "the same records"
    sent = [path for method, path in sender.service.requests[renames:] if path.endswith("/rename")]
    assert len(sent) <= 2 * number + 1


def test_keys_in_a_circle_over_several_rounds(sender: StrictSender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MOST_RECORDS", 3)
    keys = [f"P-{one}" for one in range(10)]
    ids = make(sender, *keys)
    rotate(sender.actor, ids, keys)
    sender.settle()
    sender.assert_equal()
    sender.settle_again()
    sender.assert_equal()


def test_a_chain_of_renames_needs_no_temporary_key(sender: StrictSender) -> None:
    keys = [f"P-{one}" for one in range(20)]
    ids = make(sender, *keys)
    for number in reversed(range(20)):
        assets.rename(sender.actor, ids[number], f"P-{number + 1}")
    seen = []
    rename = sender.records.rename
    sender.records.rename = lambda kind, row, body: (seen.append(body["external_key"]), rename(kind, row, body))[1]  # type: ignore[method-assign, func-returns-value]
    sender.settle()
    sender.assert_equal()
    assert not [key for key in seen if key.startswith(push.TEMPORARY)]


def test_a_new_record_gets_the_old_key_of_another(sender: StrictSender, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one is written later, because it was changed later."""
    monkeypatch.setattr(rounds, "MOST_RECORDS", 1)
    [first] = make(sender, "P-1")
    assets.rename(sender.actor, first, "P-2")
    assets.create(sender.actor, name="New", external_key="P-1")
    assets.patch(sender.actor, first, {"description": "later"})
    sender.settle()
    sender.assert_equal()


@pytest.mark.parametrize("most", [1, 50])
def test_tags_are_exchanged(sender: StrictSender, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Also between an asset and a location, in one round and in several."""
    monkeypatch.setattr(rounds, "MOST_RECORDS", most)
    first, second = make(sender, "P-1", "P-2")
    place = locations.create(sender.actor, name="Dock", tags=[NewTag("barcode", "D")])
    sender.settle()
    tags = {one: assets.get(sender.actor.organization_id, one).tags[0] for one in (first, second)}
    for one, tag in tags.items():
        assets.detach_tag(sender.actor, one, tag.id)
    locations.detach_tag(sender.actor, place.id, place.tags[0].id)
    locations.attach_tag(sender.actor, place.id, NewTag("rfid", "E-P-1"))
    assets.attach_tag(sender.actor, first, NewTag("rfid", "E-P-2"))
    assets.attach_tag(sender.actor, second, NewTag("barcode", "D"))
    sender.settle()
    sender.assert_equal()


@pytest.mark.parametrize("most", [1, 2, 50])
def test_a_branch_is_turned_around(sender: StrictSender, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(rounds, "MOST_RECORDS", most)
    ids = [locations.create(sender.actor, name="Top").id]
    for number in range(5):
        ids.append(locations.create(sender.actor, name=f"L{number}", parent_id=ids[-1]).id)
    sender.settle()
    for one in ids:
        locations.patch(sender.actor, one, {"parent_id": None})
    for child, parent_id in pairwise(ids):
        locations.patch(sender.actor, child, {"parent_id": parent_id})
    sender.settle()
    sender.assert_equal()


def test_keys_and_parents_of_locations_change_together(sender: StrictSender) -> None:
    hall = locations.create(sender.actor, name="Hall", external_key="HALL")
    row = locations.create(sender.actor, name="Row", external_key="ROW", parent_id=hall.id)
    sender.settle()
    locations.patch(sender.actor, row.id, {"parent_id": None})
    locations.patch(sender.actor, hall.id, {"parent_id": row.id})
    locations.rename(sender.actor, hall.id, "X")
    locations.rename(sender.actor, row.id, "HALL")
    locations.rename(sender.actor, hall.id, "ROW")
    sender.settle()
    sender.assert_equal()


class Died(Exception):
    """Stands for a power cut."""


@pytest.mark.parametrize("is_after", [False, True])
def test_a_death_at_each_request_of_an_exchange(
    sender: StrictSender, monkeypatch: pytest.MonkeyPatch, is_after: bool
) -> None:
    """The temporary key is no change by others, and does not stay."""
    keys = ["P-1", "P-2", "P-3"]
    ids = make(sender, *keys)
    exchanged, count, last = sender.client._exchanged, 0, 1

    def mortal(*arguments: object) -> object:
        nonlocal count, last
        count += 1
        if count == last and not is_after:
            count, last = 0, last + 1
            raise Died
        answer = exchanged(*arguments)  # type: ignore[arg-type]
        if count == last:
            count, last = 0, last + 1
            raise Died
        return answer

    monkeypatch.setattr(sender.client, "_exchanged", mortal)
    for _ in range(4):
        count, last = 0, 1
        keys = [*keys[1:], keys[0]]
        rotate(sender.actor, ids, keys)
        for _ in range(60):
            try:
                sender.settle()
                break
            except Died:
                continue
        sender.settle_again()
        sender.assert_equal()
    assert last > 8


def test_a_death_before_the_temporary_key_is_stored(sender: StrictSender, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["P-1", "P-2"]
    ids = make(sender, *keys)
    rotate(sender.actor, ids, keys)
    with monkeypatch.context() as patched:

        def dead(*_: object) -> None:
            raise Died

        patched.setattr(rounds.Work, "store", dead)
        with pytest.raises(Died):
            sender.settle()
    sender.settle()
    sender.assert_equal()


@pytest.mark.parametrize("most", [1, 50])
def test_a_record_with_a_conflict_keeps_its_key(
    sender: StrictSender, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Others have changed it, so it is not moved out of the way before somebody decides."""
    monkeypatch.setattr(rounds, "MOST_RECORDS", most)
    first, second = make(sender, "P-1", "P-2")
    theirs = sender.records.find("assets", "P-2")
    assert theirs
    sender.records.patch("assets", theirs, {"name": "Theirs"})
    rotate(sender.actor, [first, second], ["P-1", "P-2"])
    sender.settle()
    assert sender.troubles() == {
        first: "blocked: its key P-2 still belongs to asset P-1 there",
        second: "changed there: others changed its name",
    }
    assert theirs.key == "P-2"
    writes = sender.records.writes
    sender.settle_again()
    assert sender.records.writes == writes
    assets.patch(sender.actor, second, {"name": "Theirs"})
    sender.settle()
    sender.assert_equal()


def test_a_service_that_refuses_the_temporary_key(sender: StrictSender) -> None:
    """The exchange is listed, and done once the service accepts it."""
    ids = make(sender, "P-1", "P-2")
    rename = sender.records.rename

    def refuse(kind: str, row: object, body: dict[str, str]) -> int:
        if body["external_key"].startswith(push.TEMPORARY):
            raise invalid("external_key", "too_long")
        return rename(kind, row, body)  # type: ignore[arg-type]

    sender.records.rename = refuse  # type: ignore[method-assign]
    rotate(sender.actor, ids, ["P-1", "P-2"])
    sender.settle()
    assert len(sender.troubles()) == 2
    sender.records.rename = rename  # type: ignore[method-assign]
    sender.settle_again()
    sender.assert_equal()
    assert lookup.asset_by_key(sender.actor.organization_id, "P-1")


@pytest.mark.parametrize(
    ("holders", "ordered", "moved"),
    [
        ({}, [], []),
        ({1: 2}, [1], [2]),
        ({1: 2, 2: 1}, [2, 1], [1]),
        ({1: 2, 2: 3}, [2, 1], [3]),
        ({2: 3, 1: 2}, [2, 1], [3]),
        ({1: 2, 2: 3, 3: 1, 8: 9}, [3, 2, 1, 8], [1, 9]),
    ],
)
def test_the_order_of_an_exchange(holders: dict[int, int], ordered: list[int], moved: list[int]) -> None:
    assert rounds.order(holders) == (ordered, moved)
