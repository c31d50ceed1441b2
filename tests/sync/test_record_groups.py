"""Records that exchange keys or tags are stored together, as far as that takes a limited time."""

from __future__ import annotations

import pytest

from edge.sync.store import record_groups
from edge.sync.store.exchange import AssetRecord, Peer

PEER = Peer(1, 1, "BER")


def asset(ref: int, *tags: str) -> AssetRecord:
    return AssetRecord(ref, f"P-{ref}", "Pallet", None, 1, "{}", 0, None, 0, 0, None, [("rfid", tag) for tag in tags])


@pytest.mark.parametrize(("number", "together"), [(2, [[1, 2], [3]]), (600, [[1], [2], [3]])])
def test_assets_that_exchange_very_many_tags_are_apart(
    monkeypatch: pytest.MonkeyPatch, number: int, together: list[list[int]]
) -> None:
    """A site could keep all other writers of its hub waiting for a minute with 50 assets of 500 tags each."""
    of_first, of_second = ([f"{letter}{at}" for at in range(number)] for letter in "AB")
    held = {
        ref: {(f"P-{ref}",), *(("rfid", tag) for tag in tags)} for ref, tags in ((1, of_first), (2, of_second), (3, []))
    }
    monkeypatch.setattr(record_groups, "_held", lambda *_: held)
    records = [asset(1, *of_second), asset(2, *of_first), asset(3, "C")]
    assert [[one.ref for one in group] for group in record_groups.groups(PEER, records)] == together
