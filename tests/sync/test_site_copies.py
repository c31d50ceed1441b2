"""Pages of a hub's data of one site are bounded, whatever the site has sent before."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from edge.errors import Conflict
from edge.records import assets
from edge.sync import batch_format
from edge.sync.store import outgoing, record_copies, site_copies
from tests.sync.world import Hub, SiteBox

TAGS = 5


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    """Return a synced site with assets of some tags each."""
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.join()
    for number in range(6):
        site.add_asset(f"P-{number}", *(f"AA{number}{tag}" for tag in range(TAGS)))
    site.sync()
    return site


def pages(site: SiteBox, part: str) -> list[int]:
    """Return the number of assets and locations on each page."""
    after, numbers = [0], []
    while after:
        question = batch_format.pack({"part": part, "after": after})
        answer = site.hub.answer(site.site_no, "recover", question)
        _, batch = batch_format.decode(base64.b64decode(answer["batch"]))
        numbers.append(len(batch.assets) + len(batch.locations))
        after = answer["after"]
    return numbers


def test_a_page_has_few_assets_with_many_tags(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 assets with 64 KB of metadata and as many tags took more memory than the hub has."""
    assert pages(ber, "assets") == [6]
    monkeypatch.setattr(site_copies, "MOST_OF_ASSETS", 2 * TAGS * (outgoing.TAG_BYTES + 20))
    assert pages(ber, "assets") == [2, 2, 2]


def test_assets_in_conflict_count_with_what_the_site_sent(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    with ber.hub.in_use():
        for number in range(4):
            assets.create(ber.hub.actor, name="Other", external_key=f"X-{number}")
    for number in range(4):
        ber.add_asset(f"X-{number}", f"BB{number}")
    ber.sync()
    assert len(ber.hub.rows("SELECT 1 FROM conflict")) == 4
    assert pages(ber, "assets") == [10]
    sizes = {ref: 1 << 20 for (ref,) in ber.rows("SELECT id FROM asset")}
    monkeypatch.setattr(record_copies, "sizes_in_conflicts", lambda *_: sizes)
    assert pages(ber, "assets") == [4, 4, 2]


def test_locations_with_too_many_tags_are_refused(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pages(ber, "locations") == [4]
    monkeypatch.setattr(site_copies, "MOST_OF_LOCATIONS", 1)
    with pytest.raises(Conflict, match="too many tags"):
        pages(ber, "locations")
