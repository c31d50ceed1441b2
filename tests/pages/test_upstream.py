"""The Upstream page, its part of the Status page, and the metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.audit import trail
from edge.audit.actors import shell
from edge.operations import metrics
from edge.outbound import Network
from edge.pages.upstream import REASONS
from edge.people import secrets
from edge.people.people import Role
from edge.records import assets
from edge.texts import Filled, refill
from edge.upstream import counterparts, upstreams
from edge.upstream.upstreams import NewUpstream
from edge.upstream.worker import UpstreamWorker
from tests.conftest import Cast
from tests.pages.conftest import Browser, SignIn
from tests.upstream.strict_service import CLIENT_ID, SECRET, StrictService
from tests.upstream.strict_service import page as proxy_page


def work() -> None:
    worker = UpstreamWorker()
    while worker.work_once(upstreams.all_upstreams()):
        pass
    worker.close()


@pytest.fixture
def service(cast: Cast) -> Iterator[StrictService]:
    with StrictService().running() as running:
        new = NewUpstream(running.url, Network.LOOPBACK, CLIENT_ID, secrets.seal(SECRET))
        upstreams.add(shell(cast.acme), new)
        yield running


@pytest.fixture
def conflict(service: StrictService, cast: Cast) -> int:
    """An asset whose name others have changed there."""
    row = assets.create(shell(cast.acme), name="Ours", external_key="P-1")
    work()
    there = service.records.find("assets", "P-1")
    assert there
    service.records.patch("assets", there, {"name": "<Theirs>"})
    upstreams.retry(shell(cast.acme))
    work()
    return row.id


def actions(cast: Cast) -> list[str]:
    return [row.action for row in trail.recent(cast.acme)]


def test_the_state_is_on_two_pages(conflict: int, service: StrictService, sign_in_as: SignIn, cast: Cast) -> None:
    status = sign_in_as(Role.EDITOR).get("/status").text
    assert service.url in status
    assert "/status/upstream" not in status
    admin = sign_in_as(Role.ADMINISTRATOR)
    assert 'href="/status/upstream"' in admin.get("/status").text
    shown = admin.get("/status/upstream").text
    assert "others changed its name" in shown
    assert f'action="/status/upstream/records/{conflict}/keep"' in shown
    assert SECRET not in shown
    other = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    for path in ("/status", "/status/upstream"):
        assert service.url not in other.get(path).text
    assert other.post(f"/status/upstream/records/{conflict}/overwrite").status_code == 404
    assert other.post(f"/status/upstream/records/{conflict}/keep").status_code == 404


def test_overwrite(conflict: int, service: StrictService, admin: Browser, cast: Cast) -> None:
    assert (
        admin.post(f"/status/upstream/records/{conflict}/overwrite").location
        == "/status/upstream?done=upstream-overwritten"
    )
    assert "will be overwritten" in admin.get("/status/upstream").text
    work()
    row = service.records.find("assets", "P-1")
    assert row
    assert row.values["name"] == "Ours"
    assert f"records/{conflict}" not in admin.get("/status/upstream").text
    assert "upstream.overwritten" in actions(cast)
    assert admin.post(f"/status/upstream/records/{conflict}/overwrite").status_code == 404


def test_keep_theirs(conflict: int, service: StrictService, admin: Browser, cast: Cast) -> None:
    assert admin.post(f"/status/upstream/records/{conflict}/keep").location == "/status/upstream?done=upstream-kept"
    assert assets.get(cast.acme, conflict).name == "<Theirs>"
    assert {"upstream.theirs_kept", "asset.changed"} <= set(actions(cast))
    work()
    assert counterparts.count(upstreams.get(cast.acme).no)[1] == {}


def test_keep_theirs_while_the_service_is_away(
    conflict: int, service: StrictService, admin: Browser, cast: Cast
) -> None:
    service.fault = lambda *_: proxy_page(503)
    refused = admin.post(f"/status/upstream/records/{conflict}/keep")
    assert refused.status_code == 409
    assert "responded 503" in refused.text
    assert assets.get(cast.acme, conflict).name == "Ours"


def test_compare(service: StrictService, admin: Browser, cast: Cast) -> None:
    work()
    assert admin.post("/status/upstream/compare").status_code == 303
    assert upstreams.get(cast.acme).walk_id == 0


def test_without_upstream(admin: Browser) -> None:
    assert "edge upstream add-v1" in admin.get("/status/upstream").text
    assert "add-v1" not in admin.get("/status").text
    assert admin.post("/status/upstream/compare").status_code == 404


def test_many_differences_have_pages(service: StrictService, admin: Browser, cast: Cast) -> None:
    for number in range(60):
        service.records.create("assets", {"name": "Theirs", "external_key": f"P-{number}"})
        assets.create(shell(cast.acme), name="Ours", external_key=f"P-{number}")
    work()
    assert admin.get("/status/upstream").text.count("/overwrite") == 50
    assert admin.get("/status/upstream?offset=50").text.count("/overwrite") == 10


def test_metrics(conflict: int, cast: Cast, tmp_path: Path) -> None:
    values = {
        (sample.name, sample.labels.get("kind")): sample.value
        for metric in metrics.sample(tmp_path, tmp_path, dict)
        for sample in metric.samples
        if sample.name.startswith("edge_upstream")
    }
    assert values["edge_upstream_differences", "changed_there"] == 1
    assert values["edge_upstream_differences", "blocked"] == 0
    assert values["edge_upstream_records", None] == 1
    assert values["edge_upstream_waiting_changes", None] == 0
    assert values["edge_upstream_failing", None] == 0
    assert values["edge_upstream_success_timestamp_seconds", None] > 1_700_000_000


@pytest.mark.parametrize(
    "text",
    [
        "others changed its name, tags",
        "is deleted here, but the service responded 409: in use",
        "its tag rfid:E9 still belongs to asset P-2 there",
        "its key P-1 belongs to another record there, perhaps one that is not in effect",
    ],
)
def test_reasons_are_translated(text: str) -> None:
    shown = refill(text, REASONS)
    assert isinstance(shown, Filled)
    assert shown == text
