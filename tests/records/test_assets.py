"""Guarantees of the functions in edge/records/assets.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.errors import Conflict, Invalid, NotFound
from edge.records import assets, listing
from edge.records.record import RecordFilter
from edge.records.tags import NewTag
from tests.conftest import Cast

EVERY_ASSET = RecordFilter()


def live_keys(organization_id: int, filters: RecordFilter = EVERY_ASSET) -> list[str]:
    return [row.external_key for row in assets.list_page(organization_id, filters, limit=200).rows]


def test_keys_are_minted_for_each_organization_by_itself(cast: Cast) -> None:
    first = [assets.create(shell(cast.acme), name="pallet").external_key for _ in range(2)]
    assert first == ["ASSET-0001", "ASSET-0002"]
    assert assets.create(shell(cast.rival), name="pallet").external_key == "ASSET-0001"


def test_minting_follows_the_highest_live_number_past_its_padding(cast: Cast) -> None:
    highest = assets.create(shell(cast.acme), name="x", external_key="ASSET-9999")
    assert assets.create(shell(cast.acme), name="x").external_key == "ASSET-10000"
    assets.delete(shell(cast.acme), highest.id)
    assets.create(shell(cast.acme), name="x", external_key="ASSET-123456789012345678901")
    assert assets.create(shell(cast.acme), name="x").external_key == "ASSET-10001"


def test_minting_steps_over_a_live_key_with_too_many_digits(cast: Cast) -> None:
    assets.create(shell(cast.acme), name="x", external_key="ASSET-" + "9" * 18)
    assets.create(shell(cast.acme), name="x", external_key="ASSET-1" + "0" * 18)
    assert assets.create(shell(cast.acme), name="x").external_key == "ASSET-1" + "0" * 17 + "1"


def test_parallel_creates_get_different_consecutive_keys(cast: Cast) -> None:
    threads = [
        threading.Thread(target=assets.create, args=(shell(cast.acme),), kwargs={"name": "x"}) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert live_keys(cast.acme) == [f"ASSET-{number:04d}" for number in range(1, 17)]


def test_a_live_key_and_a_live_tag_are_taken_and_free_after_deletion(cast: Cast) -> None:
    tag = NewTag("rfid", "E2001")
    row = assets.create(shell(cast.acme), name="x", external_key="K", tags=[tag])
    with pytest.raises(Conflict):
        assets.create(shell(cast.acme), name="y", external_key="K")
    with pytest.raises(Conflict, match="tag rfid:E2001 already exists"):
        assets.create(shell(cast.acme), name="y", tags=[tag])
    assets.delete(shell(cast.acme), row.id)
    assert assets.create(shell(cast.acme), name="y", external_key="K", tags=[tag]).tags[0].value == "E2001"


def test_a_refused_create_leaves_nothing_behind(cast: Cast) -> None:
    with pytest.raises(Conflict):
        assets.create(shell(cast.acme), name="x", tags=[NewTag("ble", "A"), NewTag("ble", "A")])
    assert live_keys(cast.acme) == []


def test_updated_at_is_strictly_increasing_also_within_a_millisecond(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: 1_700_000_000_123_456)
    row = assets.create(shell(cast.acme), name="x")
    changed = [assets.patch(shell(cast.acme), row.id, {}).updated_at for _ in range(2)]
    assert [row.updated_at, *changed] == [1_700_000_000_123_000, 1_700_000_000_124_000, 1_700_000_000_125_000]


def test_a_window_must_end_after_it_begins_even_if_one_end_is_patched(cast: Cast) -> None:
    row = assets.create(shell(cast.acme), name="x", valid_from=10, valid_to=20)
    for changes in ({"valid_to": 10}, {"valid_from": 20}):
        with pytest.raises(Invalid):
            assets.patch(shell(cast.acme), row.id, changes)


def test_lists_show_live_assets_and_deleted_ones_on_request(cast: Cast) -> None:
    now = clock.now()
    assets.create(shell(cast.acme), name="x", external_key="current", valid_from=1, valid_to=now + clock.HOUR)
    assets.create(shell(cast.acme), name="x", external_key="over", valid_from=1, valid_to=2)
    assets.create(shell(cast.acme), name="x", external_key="future", valid_from=now + clock.HOUR)
    gone = assets.create(shell(cast.acme), name="x", external_key="gone", valid_from=1, valid_to=2)
    assets.delete(shell(cast.acme), gone.id)
    assert live_keys(cast.acme) == ["current"]
    assert live_keys(cast.acme, RecordFilter(include_deleted=True)) == ["current", "gone"]
    assert live_keys(cast.acme, RecordFilter(external_keys=["over", "current", "gone"])) == ["current"]


def test_a_list_has_long_metadata_without_parsing_it(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing a long text blocks all other threads."""
    given = {f"K-{n}": json.dumps({"a": "x" * n}) for n in (1, 10, 5_000, 60_000)}
    for key, metadata in given.items():
        assets.create(shell(cast.acme), name="x", external_key=key, metadata=metadata)
    parsed: list[str] = []
    parse = listing._tagged_rows

    def parse_noted(text: str, columns: int) -> list[Sequence[Any]]:
        parsed.append(text)
        return parse(text, columns)

    monkeypatch.setattr(listing, "_tagged_rows", parse_noted)
    page = assets.list_page(cast.acme, EVERY_ASSET, limit=200)
    assert {row.external_key: row.metadata for row in page.rows} == given
    assert max(map(len, parsed)) < 2_000


def test_another_organizations_asset_does_not_exist(cast: Cast) -> None:
    row = assets.create(shell(cast.acme), name="x", tags=[NewTag("ble", "A")])
    for attempt in (
        lambda: assets.get(cast.rival, row.id),
        lambda: assets.patch(shell(cast.rival), row.id, {}),
        lambda: assets.rename(shell(cast.rival), row.id, "K"),
        lambda: assets.delete(shell(cast.rival), row.id),
        lambda: assets.attach_tag(shell(cast.rival), row.id, NewTag("ble", "B")),
        lambda: assets.detach_tag(shell(cast.rival), row.id, row.tags[0].id),
    ):
        with pytest.raises(NotFound):
            attempt()
    assert assets.get(cast.acme, row.id) == row
