"""A hub while its PostgreSQL is away: positions are shown, the history is refused in words, and sites wait."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.database.connection import execute
from edge.events import detection
from edge.events.checked_connection import Answer
from edge.events.detection import Silence
from edge.operations.metrics import sample
from edge.pages.kept_values import KeptValues
from edge.pages.tracking import history_notes, home
from edge.pages.walls import screen
from edge.people import api_keys, people, sessions
from edge.people.api_keys import SCOPES
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_client_secret
from edge.records import assets
from edge.sync.sender import LinkError
from edge.sync.store import remote_batches, site_quotas
from edge.tracking import deletion, flows, history_engine, report
from edge.tracking.postgres import batches, pool
from edge.tracking.stays import Quality
from edge.walls import walls
from edge.walls.walls import NewWall, Shows
from tests.api.conftest import Api
from tests.application import make_app
from tests.mosquitto import free_port
from tests.pages.conftest import Browser
from tests.service import ROOT
from tests.sync.http import Connected, Send
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox, assert_equal
from tests.tracking.postgres.conftest import move
from tests.tracking.postgres.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

NOBODY = "/nobody"
UNAVAILABLE = "The history is unavailable now. Current locations are up to date."


class Visitor(NamedTuple):
    browser: Browser
    api: Api
    wall: str
    asset: int
    place: int


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    use = pool.use

    def use_patiently(url: str, *arguments: str) -> None:
        """A machine may be busy, but a server that is away never answers."""
        monkeypatch.setattr(pool, "WAIT_SECONDS", 1.0 if url.endswith(NOBODY) else 20.0)
        use(url, *arguments)

    monkeypatch.setattr(pool, "use", use_patiently)
    monkeypatch.setattr(home, "_kept", KeptValues(0, 1))
    monkeypatch.setattr(screen, "_kept", KeptValues(0, 1))


@contextmanager
def visiting(hub: Hub) -> Iterator[Visitor]:
    """Open the hub with its pages and API for an administrator."""
    with hub.in_use():
        app, owner, number = make_app(), hub.organization_id, len(people.list_people(hub.organization_id))
        person = people.add_person(shell(owner), f"Ada {number}", Role.ADMINISTRATOR)
        signed_in = actors.person(owner, person.id, person.name, None)
        sessions.add_session(signed_in, hash_secret(f"token {number}"), clock.now() + clock.HOUR)
        secret = new_client_secret()
        key = api_keys.add_key(shell(owner), f"wms {number}", list(SCOPES), hash_secret(secret))
        wall = f"/w/{walls.add(shell(owner), NewWall(f'Hall {number}', Shows.OVERVIEW))[1]}"
        asset, place = execute("SELECT asset_id, location_id FROM track ORDER BY asset_id").fetchone()
        yield Visitor(Browser(app, f"token {number}"), Api(app.test_client(), owner, key, secret), wall, asset, place)


def away() -> str:
    return f"postgresql://edge@127.0.0.1:{free_port()}{NOBODY}"


@pytest.fixture
def hub(sites: list[SiteBox], postgres_server: Server) -> Hub:
    """A hub whose history is in PostgreSQL."""
    moved, url = sites[0].hub, postgres_server.new_url()
    with moved.in_use():
        move(moved, url)
    moved.history = url
    return moved


def test_pages_with_positions_show_them_and_say_that_the_history_is_unavailable(hub: Hub) -> None:
    with visiting(hub) as visitor:
        for path in (visitor.wall, "/home", f"/assets/{visitor.asset}", f"/locations/{visitor.place}"):
            page = visitor.browser.get(path)
            assert page.status_code == 200
            assert UNAVAILABLE not in page.text, path
    hub.history = away()
    with visiting(hub) as visitor:
        for path in ("/home", "/home/now", f"/assets/{visitor.asset}", f"/assets/{visitor.asset}/now"):
            page = visitor.browser.get(path)
            assert (page.status_code, page.text.count(UNAVAILABLE)) == (200, 1), path
        for path in (f"/locations/{visitor.place}", f"/locations/{visitor.place}/now"):
            page = visitor.browser.get(path)
            assert (page.status_code, page.text.count(UNAVAILABLE)) == (200, 1), path
            assert "P-" in page.text, path
        assert "Site BER" in visitor.browser.get(visitor.wall).text
        for path in ("/", "/locations", "/scan/find?q=P-0-1"):
            assert "P-0-1" in visitor.browser.get(path).text or path == "/locations", path
        assert len(visitor.api.get("/reports/asset-locations").json["data"]) == 8  # type: ignore[index]


def test_home_leaves_out_moves_if_too_many_assets_have_moved(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with visiting(hub) as visitor:
        assert history_notes.TOO_MANY_MOVES not in visitor.browser.get("/home").text
        monkeypatch.setattr(flows, "MOST_REMOTE", -1)
        assert history_notes.TOO_MANY_MOVES in visitor.browser.get("/home").text
        history_engine.use("")
        assert not flows.are_too_many(hub.organization_id, 0)


def test_pages_and_api_of_the_history_answer_503_with_a_sentence_and_a_time(hub: Hub) -> None:
    hub.history = away()
    with visiting(hub) as visitor:
        paths = [f"/assets/{visitor.asset}/history", f"/locations/{visitor.place}/history", "/past"]
        paths += [f"/assets/{visitor.asset}/why", f"/assets/{visitor.asset}/trail"]
        paths += ["/export/past.csv", "/export/history.csv"]
        for path in paths:
            page = visitor.browser.get(path)
            assert page.status_code == 503, path
            assert int(page.headers["Retry-After"]) > 0
            assert "The history is in PostgreSQL, which cannot be reached now" in page.text, path
        answer = visitor.api.get(f"/assets/{visitor.asset}/history")
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json["error"]["type"] == "service_unavailable"  # type: ignore[index]
        assert "Positions are current" in answer.json["error"]["detail"]  # type: ignore[index]


def test_sites_get_503_and_send_everything_afterwards(hub: Hub, tmp_path: Path) -> None:
    site, url = SiteBox(tmp_path / "LEJ", "LEJ", hub), hub.history
    connected = Connected(site)
    site.join()
    site.call = connected.client.call  # type: ignore[method-assign]
    site.sync()
    answers: list[tuple[str, int, str | None]] = []

    def noting(send: Send) -> Send:
        def post(path: str, body: bytes, headers: dict[str, str]) -> Answer:
            answer: Answer = send(path, body, headers)
            answers.append((path, answer.status, answer.headers.get("Retry-After")))
            return answer

        return post

    connected.line.spoil = noting
    hub.history = away()
    site.scan(site.add_asset("P-9"), 0, EPOCH)
    with pytest.raises(LinkError, match="cannot be reached"):
        site.sync()
    assert answers[-1][1:] == (503, "5")
    hub.history = url
    site.sync()
    assert answers[-1][1] == 200
    assert_equal(site)


def test_only_one_request_at_a_time_waits_for_postgresql(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    hub.history = away()
    with hub.in_use():
        for _ in range(20):
            with pytest.raises(Exception, match="cannot be reached"):
                history_engine.check_reachable()
        assert "refused" in history_engine.why_away()
    [line] = [record.getMessage() for record in caplog.records if record.name == pool.__name__]
    assert line.startswith("PostgreSQL cannot be reached, so history is not shown and sites wait: connection")


def test_a_muster_trusts_no_time_that_it_cannot_look_up(hub: Hub) -> None:
    with hub.in_use():
        asset = execute("SELECT min(asset_id) FROM track").fetchone()[0]
        known = report.sightings([asset])[asset]
        assert known.before_location_id is not None
    hub.history = away()
    with hub.in_use():
        expected = known._replace(quality=Quality.UNTRUSTED, before_location_id=None, before_until=None)
        assert report.sightings([asset])[asset] == expected


def test_events_and_retention_wait_without_a_lock(hub: Hub) -> None:
    with hub.in_use():
        detection.start(Silence(HOUR, HOUR))
        assets.create(hub.actor, name="News")
    url, hub.history = hub.history, away()
    with hub.in_use():
        with pytest.raises(Exception, match="cannot be reached"):
            detection.log_changes(Silence(HOUR, HOUR))
        assert deletion.drop_history(EPOCH + 99 * HOUR) == 0
    hub.history = url
    with hub.in_use():
        assert deletion.drop_history(EPOCH + 99 * HOUR) > 0


def test_rows_are_counted_after_a_crash_of_the_retention(hub: Hub) -> None:
    with hub.in_use():
        tracks = [no for (no,) in execute("SELECT no FROM track")]
        assert batches.drop_before(tracks, EPOCH + 99 * HOUR, 10) == 10
        assert deletion.drop_history(EPOCH) == 0
    wrong = "SELECT no FROM track WHERE history_rows <> (SELECT count(*) FROM history WHERE position_no = track.no)"
    assert hub.rows(wrong) == []
    with hub.in_use():
        assert batches.dropped_tracks() == []


def test_metrics_show_whether_it_can_be_reached(hub: Hub) -> None:
    def up() -> float:
        return {family.name: family for family in sample(hub.folder, hub.folder, dict)}[
            "edge_history_postgresql_up"
        ].samples[0].value  # fmt: skip

    with hub.in_use():
        history_engine.check_reachable()
        assert up() == 1
        assert history_engine.figures()["connections"] >= 1
    hub.history = away()
    with hub.in_use():
        with pytest.raises(Exception, match="cannot be reached"):
            history_engine.check_reachable()
        assert up() == 0
    assert history_engine.figures() == {}


def test_stays_in_postgresql_count_toward_the_quota_of_their_site(hub: Hub, sites: list[SiteBox]) -> None:
    site = sites[0]
    site.sync()
    with hub.in_use():
        site_quotas.set_limits(10**9, 0)
        before = site_quotas.added_bytes(site.site_no)
    asset = site.add_asset("P-9")
    for step in range(100):
        site.scan(asset, step % 3, EPOCH + step * HOUR)
    try:
        site.sync()
        with hub.in_use():
            added = site_quotas.added_bytes(site.site_no) - before
    finally:
        site_quotas.set_limits(0, 0)
    assert 90 * remote_batches.STAY_BYTES < added < 100 * remote_batches.STAY_BYTES + 50_000  # some are free again


def test_the_doctor_says_why_and_nothing_else(hub: Hub) -> None:
    url = away()
    done = subprocess.run(
        [sys.executable, "-m", "edge", f"--set=data_dir={hub.folder}", f"--set=hub.history={url}", "doctor"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert "Connection refused. History is not shown, and sites wait" in done.stdout


def test_nothing_is_acknowledged_before_the_standby_has_it(
    hub: Hub, sites: list[SiteBox], postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "COMMIT_SECONDS", 0.5)
    site = sites[0]
    acknowledged = "SELECT acked_seq FROM target"
    before = site.rows(acknowledged)
    site.scan(site.add_asset("P-9"), 0, EPOCH)
    postgres_server.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    postgres_server.run("SELECT pg_reload_conf()")
    try:
        for _ in range(2):  # the second time it is there, but only on the primary
            with pytest.raises(Exception, match="standby has not confirmed"):
                site.sync()
            assert site.rows(acknowledged) == before
    finally:
        postgres_server.run("ALTER SYSTEM RESET synchronous_standby_names")
        postgres_server.run("SELECT pg_reload_conf()")
    site.sync()
    assert_equal(site)


def test_a_batch_waits_while_another_one_of_the_site_is_being_committed(
    hub: Hub, sites: list[SiteBox], postgres_server: Server
) -> None:
    site, url = sites[0], hub.history
    for name in ("P-8", "P-9"):
        site.sync()
        site.scan(site.add_asset(name), 0, EPOCH)
    hub.history = f"{url}?options=-c%20lock_timeout%3D300"
    with psycopg.connect(url) as other:
        other.execute("SELECT 1 FROM site_cursor WHERE site = %s FOR UPDATE", (site.site_no,))
        with pytest.raises(LinkError, match="is busy"):
            site.sync()
    hub.history = url
    site.sync()
    assert_equal(site)
