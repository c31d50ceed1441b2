"""A hub that has reached its limit of records refuses new ones, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.audit import quotas
from edge.sync.store import hub_link
from tests.sync.company import Company
from tests.sync.world import EPOCH, HOUR

SEEN = f"SELECT external_key FROM track JOIN asset ON asset.id = asset_id WHERE last_seen_at >= {EPOCH + 40 * HOUR}"


@pytest.mark.parametrize(("kind", "limit"), [("asset", 7), ("location", 10)])
def test_a_full_hub_takes_reads_of_new_records_once_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, limit: int
) -> None:
    """Asking the site again for a refused record would stop its sync, and set changes of other assets aside."""
    company = Company(tmp_path, monkeypatch)
    ber, hub = company.ber, company.hub
    assert hub.rows(f"SELECT count(*) FROM {kind} WHERE deleted_at IS NULL") == [(limit,)]
    asset = ber.add_asset("B-new") if kind == "asset" else company.own[1]
    if kind == "location":
        ber.add_dock("DOCK-new")
    ber.scan(asset, -1, EPOCH + 40 * HOUR)
    ber.scan(company.own[0], 2, EPOCH + 41 * HOUR)
    with monkeypatch.context() as full:
        full.setitem(quotas.CAPS, kind, quotas.CAPS[kind]._replace(limit=limit))
        quotas.forget()
        ber.sync()
    quotas.forget()
    assert hub.rows(SEEN) == [("B-0",)]
    assert [row for row in ber.rows("SELECT what FROM set_aside") if row[0].startswith("change")] == []
    with ber.in_use():
        hub_link.update(verify_wanted=1)
    ber.settle()
    company.assert_settled()
    assert len(hub.rows(SEEN)) == 2
