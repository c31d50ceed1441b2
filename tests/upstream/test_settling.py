"""Whatever this box and others do: both ends settle, equal apart from what is listed, and then nothing is written."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from edge.errors import EdgeError
from edge.records import assets, locations, lookup
from edge.records.tags import NewTag
from edge.upstream import upstreams
from tests.upstream.strict_records import Problem, Row
from tests.upstream.strict_service import StrictService
from tests.upstream.strict_world import StrictSender, strict_sender

ACTIONS = (
    "create",
    "create",
    "create",
    "name",
    "name",
    "rename",
    "delete",
    "attach",
    "detach",
    "tag",
    "locate",
    "move",
    "remove",
    "exchange",
)
Step = tuple[str, str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["box", "box", "others", "round"]),
        st.sampled_from(ACTIONS),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=30,
)


def act_here(sender: StrictSender, action: str, a: int, b: int) -> None:
    """Do what people do at the box. Some of it is refused, which changes nothing."""
    actor, organization_id = sender.actor, sender.actor.organization_id
    asset = lookup.asset_by_key(organization_id, f"K-{a}")
    place = lookup.location_by_key(organization_id, f"K-{a}")
    other = lookup.location_by_key(organization_id, f"K-{b}")
    tag = NewTag("rfid", f"T-{b}")
    match action, asset, place:
        case "create", None, _:
            assets.create(actor, name=f"N-{b}", external_key=f"K-{a}", tags=[tag] if b % 2 else [])
        case "locate", _, None:
            parent_id = other.id if other else None
            locations.create(actor, name=f"N-{b}", external_key=f"K-{a}", parent_id=parent_id)
        case "move", _, place if place:
            locations.patch(actor, place.id, {"parent_id": other.id if other else None})
        case "remove", _, place if place:
            locations.delete(actor, place.id)
        case "tag", _, place if place:
            locations.attach_tag(actor, place.id, tag)
        case "rename", _, place if place and a % 2:
            locations.rename(actor, place.id, f"K-{b}")
        case "name", asset, _ if asset:
            assets.patch(actor, asset.id, {"name": f"N-{b}"})
        case "rename", asset, _ if asset:
            assets.rename(actor, asset.id, f"K-{b}")
        case "delete", asset, _ if asset:
            assets.delete(actor, asset.id)
        case "attach", asset, _ if asset:
            assets.attach_tag(actor, asset.id, tag)
        case "detach", asset, _ if asset and assets.get(organization_id, asset.id).tags:
            assets.detach_tag(actor, asset.id, assets.get(organization_id, asset.id).tags[0].id)
        case "exchange", asset, _ if asset:
            exchange(sender, asset.id, a, b)


def exchange(sender: StrictSender, asset_id: int, a: int, b: int) -> None:
    other = lookup.asset_by_key(sender.actor.organization_id, f"K-{b}")
    if other and other.id != asset_id:
        assets.rename(sender.actor, asset_id, "MOVING")
        assets.rename(sender.actor, other.id, f"K-{a}")
        assets.rename(sender.actor, asset_id, f"K-{b}")


def act_there(sender: StrictSender, claims: dict[tuple[int, str], Any], action: str, a: int, b: int) -> None:
    """Do something by others at the service, and note in `claims` what they have set."""
    records = sender.records
    kind = "locations" if action in ("locate", "move", "remove") or a % 3 == 0 else "assets"
    row, other = records.find(kind, f"K-{a}"), records.find("locations", f"K-{b}")
    tag = {"tag_type": "rfid", "value": f"T-{b}"}
    if row is None:
        if action in ("create", "locate"):
            row = records.create(kind, {"external_key": f"K-{a}", "name": f"O-{b}", "tags": [tag] if b % 2 else []})
            claims[row.id, "name"] = row.values["name"]
            claims[row.id, "external_key"] = row.key
        return
    match action:
        case "name":
            records.patch(kind, row, {"name": f"O-{b}"})
            claims[row.id, "name"] = f"O-{b}"
        case "rename":
            records.rename(kind, row, {"external_key": f"K-{b}"})
            claims[row.id, "external_key"] = f"K-{b}"
        case "delete" | "remove":
            records.delete(kind, row)
        case "attach" | "tag":
            records.attach(row, tag)
        case "detach" if row.tags:
            records.detach(row, row.tags[0]["id"])
        case "move" if kind == "locations":
            records.patch(kind, row, {"parent_id": other.id if other else None})


def counterparts(sender: StrictSender) -> dict[int, tuple[int | None, bool]]:
    """Return the id there of each record, and whether it is listed."""
    rows = sender.box.rows("SELECT record_id, remote_id, trouble IS NOT NULL FROM upstream_record")
    return {row[0]: (row[1], bool(row[2])) for row in rows}


def settle_watched(sender: StrictSender, claims: dict[tuple[int, str], Any]) -> None:
    """Settle. Fails if this box overwrites what others have set and no equal values have been seen since."""
    patch, rename = sender.records.patch, sender.records.rename
    overwritten: list[str] = []

    def note(row: Row, name: str, before: Any) -> None:
        if (row.id, name) in claims and claims[row.id, name] == before:
            overwritten.append(f"{name} {before} of {row.key}")

    def watched_patch(kind: str, row: Row, body: dict[str, Any]) -> None:
        if "name" in body:
            note(row, "name", row.values["name"])
        patch(kind, row, body)

    def watched_rename(kind: str, row: Row, body: dict[str, Any]) -> int:
        note(row, "external_key", row.key)
        return rename(kind, row, body)

    sender.records.patch, sender.records.rename = watched_patch, watched_rename  # type: ignore[method-assign]
    sender.settle_again()
    sender.records.patch, sender.records.rename = patch, rename  # type: ignore[method-assign]
    assert overwritten == []
    for remote_id, is_listed in counterparts(sender).values():
        if not is_listed:
            for name in ("name", "external_key"):
                claims.pop((remote_id or 0, name), None)


def check_settled(sender: StrictSender) -> None:
    """Compare all records that are not listed, in both directions."""
    listed = sender.troubles()
    here, there = sender.here(frozenset(listed)), sender.there()
    for key, values in here.items():
        (_, *_, parent), _ = values
        assert key in there, f"{key} is missing: {listed}"
        if parent is None or ("locations", parent) in here:
            assert there[key] == values, listed
    ids_there = {row.id for rows in sender.records.rows.values() for row in rows.values()}
    ids_here = {row[0] for sql in ("asset", "location") for row in sender.box.rows(_LIVE.format(sql))}
    for record_id, (remote_id, is_listed) in counterparts(sender).items():
        if not is_listed:
            assert record_id in ids_here
            assert remote_id in ids_there
    writes = sender.records.writes
    sender.settle_again()
    assert sender.records.writes == writes, "a repetition writes"
    assert sender.troubles().keys() == listed.keys()


_LIVE = "SELECT id FROM {} WHERE deleted_at IS NULL"


def run(steps: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    claims: dict[tuple[int, str], Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        monkeypatch.context() as patched,
        strict_sender(Path(folder), patched, StrictService(seed=len(steps))) as sender,
    ):
        for who, action, a, b in steps:
            with suppress(EdgeError, Problem):
                if who == "box":
                    act_here(sender, action, a, b)
                elif who == "others":
                    act_there(sender, claims, action, a, b)
            if who == "round":
                settle_watched(sender, claims)
        for _ in range(3):
            settle_watched(sender, claims)
        check_settled(sender)
        decide(sender)


def decide(sender: StrictSender) -> None:
    """Overwrite everything. Only what others hold is left in the list."""
    for _ in range(4):
        upstreams.overwrite(sender.actor, list(sender.troubles()))
        sender.settle_again()
    left = sender.troubles()
    assert not [text for text in left.values() if text.startswith("changed there")], left
    check_settled(sender)


CONFLICT: list[Step] = [("box", "create", 1, 0), ("round", "", 0, 0), ("others", "name", 1, 3), ("box", "name", 1, 2)]


@example(CONFLICT)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_both_ends_settle(monkeypatch: pytest.MonkeyPatch, steps: list[Step]) -> None:
    run(steps, monkeypatch)


@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_both_ends_settle_many_times(monkeypatch: pytest.MonkeyPatch, steps: list[Step]) -> None:
    run(steps, monkeypatch)
