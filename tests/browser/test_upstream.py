"""The page Upstream: differences and decisions, at the widths of a phone and a desk."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from edge.audit.actors import shell
from edge.outbound import Network
from edge.people import secrets
from edge.records import assets
from edge.upstream import upstreams
from edge.upstream.upstreams import NewUpstream
from edge.upstream.worker import UpstreamWorker
from tests.browser.accessibility import faults
from tests.browser.conftest import Site
from tests.upstream.strict_service import CLIENT_ID, SECRET, StrictService

pytestmark = pytest.mark.browser
WIDTHS = (390, 1280)


def work() -> None:
    worker = UpstreamWorker()
    while worker.work_once(upstreams.all_upstreams()):
        pass
    worker.close()


def test_differences_are_decided(enter: Callable[..., Page], site: Site) -> None:
    actor = shell(site.organization_id)
    long_name = "a-very-long-key-" * 12
    assets.create(actor, name="Long", external_key=long_name)
    with StrictService().running() as service:
        upstreams.add(actor, NewUpstream(service.url, Network.LOOPBACK, CLIENT_ID, secrets.seal(SECRET)))
        work()
        for key in (site.assets[0].external_key, site.assets[1].external_key, long_name):
            row = service.records.find("assets", key)
            assert row
            service.records.patch("assets", row, {"name": f"Theirs {key[:10]}"})
        upstreams.retry(actor)
        work()
        page = enter("ada", "/status/upstream")
        for path in ("/status", "/status/upstream"):
            page.goto(path)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                assert faults(page) == []
                if folder := os.environ.get("SCREENSHOTS"):
                    page.screenshot(path=f"{folder}/{path.split('/')[-1]}-{width}.png", full_page=True)
        page.get_by_role("button", name=f"Keep theirs for {site.assets[0].external_key}", exact=True).click()
        expect(page.get_by_text("Taken over.")).to_be_visible()
        page.get_by_role("button", name=f"Overwrite {site.assets[1].external_key} there", exact=True).click()
        expect(page.get_by_text("will be overwritten")).to_have_count(1)
        work()
        names = {row.key: row.values["name"] for row in service.records.rows["assets"].values()}
    assert assets.get(site.organization_id, site.assets[0].id).name.startswith("Theirs")
    assert names[site.assets[1].external_key] == site.assets[1].name
