"""The open feed of a hub with its stays in PostgreSQL: what happens between the two databases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge.database.connection import execute
from edge.sync.store import change_feed, remote_batches
from edge.tracking import deletion, history_engine
from edge.tracking.postgres import batches, pool, replaced
from tests.feed.test_feed import Mirror, assert_equal, box_of
from tests.mosquitto import free_port
from tests.sync.world import EPOCH, HOUR, Hub, SiteBox
from tests.tracking.postgres.server import Server

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def site(tmp_path: Path, postgres_server: Server) -> Iterator[SiteBox]:
    """A site of a hub with its stays in PostgreSQL."""
    Hub.server = postgres_server
    made = SiteBox(tmp_path / "BER", "BER", Hub(tmp_path / "hub", "hub"))
    made.pallet = made.add_asset("P-1")
    for hour in range(4):
        made.scan(made.pallet, hour % 3, EPOCH + hour * HOUR)
    made.join()
    made.settle()
    yield made
    Hub.server = None


def follower(hub: Hub) -> Mirror:
    with hub.in_use():
        mirror = Mirror(box_of(hub.organization_id))
        mirror.follow()
    return mirror


def check(hub: Hub, mirror: Mirror) -> None:
    with hub.in_use():
        mirror.follow()
        assert_equal(mirror)


def recorded(hub: Hub) -> list[tuple[Any, ...]]:
    """Return the changes of stays and tracks that the hub has recorded."""
    return hub.rows("SELECT kind, a, b FROM change WHERE kind IN (1, 6, 11) ORDER BY seq")


def test_nothing_is_recorded_without_readers(site: SiteBox) -> None:
    assert recorded(site.hub) == []
    [(effects,)] = effects_of(site.hub)
    assert len(effects) == 4


def effects_of(hub: Hub) -> list[tuple[Any, ...]]:
    with hub.in_use(), pool.connected() as connection:
        return connection.execute("SELECT effects FROM site_cursor").fetchall()


def test_each_change_is_recorded_once(site: SiteBox) -> None:
    mirror = follower(site.hub)
    site.scan(site.pallet, 1, EPOCH + 9 * HOUR)
    site.settle()
    [(track,)] = site.hub.rows("SELECT no FROM track")
    assert recorded(site.hub) == [(1, track, EPOCH + 9 * HOUR)]
    [(effects,)] = effects_of(site.hub)
    assert [replaced.instants_of(text) for text in effects[6]] == [{(track, EPOCH + 9 * HOUR)}]
    check(site.hub, mirror)


def test_a_feed_that_opens_during_a_batch_gets_its_changes(site: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy is made before PostgreSQL commits, and the batch did not expect a reader."""
    mirrors: list[Mirror] = []
    commit: Callable[..., Any] = batches.commit

    def commit_after_a_copy(*values: Any) -> Any:
        if not mirrors:
            mirrors.append(Mirror(box_of(site.hub.organization_id)))
            mirrors[0].follow()
        return commit(*values)

    monkeypatch.setattr(batches, "commit", commit_after_a_copy)
    site.scan(site.pallet, 1, EPOCH + 9 * HOUR)
    site.settle()
    [mirror] = mirrors
    assert len(mirror.rows("stay")) == 4
    assert [kind for kind, _, _ in recorded(site.hub)] == [11]
    check(site.hub, mirror)


def test_a_batch_with_very_many_changes_is_recorded_in_parts(site: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = follower(site.hub)
    monkeypatch.setattr(replaced, "MOST", 3)
    for hour in range(10, 14):
        site.scan(site.pallet, hour % 3, EPOCH + hour * HOUR)
    site.settle()
    assert len(effects_of(site.hub)[0][0][6]) > 1
    assert len(recorded(site.hub)) >= 4
    check(site.hub, mirror)


def test_readers_start_again_after_postgresql_was_restored(site: SiteBox, postgres_server: Server) -> None:
    mirror = follower(site.hub)
    pool.close()
    saved = postgres_server.copy(site.hub.history)
    site.scan(site.pallet, 1, EPOCH + 9 * HOUR)
    site.settle()
    with site.hub.in_use():
        mirror.follow()
    pool.close()
    site.hub.history = saved
    site.settle()
    with site.hub.in_use():
        assert mirror.box.get(mirror.cursor).status_code == 410
    check(site.hub, mirror)


def test_readers_start_again_after_the_files_of_the_hub_were_copied_back(site: SiteBox) -> None:
    """Its feed has no changes of the past that PostgreSQL has already."""
    mirror = follower(site.hub)
    saved = site.hub.copy_files()
    for late in (EPOCH + HOUR // 2, EPOCH + HOUR // 3):  # the changes of the second one are with the cursor
        site.scan(site.pallet, 1, late)
        site.settle()
    site.hub.copy_back(saved)
    with site.hub.in_use():
        assert mirror.box.get(mirror.cursor).status_code == 200
    site.settle()
    with site.hub.in_use():
        assert mirror.box.get(mirror.cursor).status_code == 410
    check(site.hub, mirror)


def test_the_feed_answers_503_while_postgresql_is_away_and_skips_nothing(
    site: SiteBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror, url = follower(site.hub), site.hub.history
    site.scan(site.pallet, 1, EPOCH + 9 * HOUR)
    site.settle()
    site.hub.history = f"postgresql://edge@127.0.0.1:{free_port()}/nobody"
    with monkeypatch.context() as soon, site.hub.in_use():
        soon.setattr(pool, "WAIT_SECONDS", 1.0)
        for cursor in (mirror.cursor, begun(mirror)):
            answer = mirror.box.get(cursor)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
            assert "cannot be reached" in answer.json["error"]["detail"]
    site.hub.history = url
    check(site.hub, mirror)


def begun(mirror: Mirror) -> str:
    """Return the cursor before the stays of a new copy, since records need no PostgreSQL."""
    cursor = ""
    for _ in range(4):
        cursor = json.loads(mirror.box.get(cursor).data.splitlines()[-1])["cursor"]
    return cursor


def test_retention_removes_no_stays_from_copies(site: SiteBox) -> None:
    mirror = follower(site.hub)
    with site.hub.in_use():
        assert deletion.drop_history(EPOCH + 99 * HOUR) == 3
        mirror.follow()
        assert len(mirror.rows("stay")) == 4
    assert recorded(site.hub) == []


def test_a_move_to_postgresql_and_back_changes_no_copy(tmp_path: Path, postgres_server: Server) -> None:
    site = SiteBox(tmp_path / "BER", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet, url = site.add_asset("P-1"), postgres_server.new_url()
    site.join()
    mirror = follower(site.hub)
    site.scan(site.pallet, 0, EPOCH)
    site.settle()
    before = recorded(site.hub)
    assert before
    with site.hub.in_use():
        history_engine.use(url)
        assert list(history_engine.moving.copy_there())
        assert history_engine.moving.finish_there() == 1
    assert recorded(site.hub) == before
    site.hub.history = url
    site.scan(site.pallet, 1, EPOCH + HOUR)
    site.settle()
    check(site.hub, mirror)
    with site.hub.in_use():
        remote_batches.settle_all()
        before = recorded(site.hub)
        assert history_engine.moving.bring_back() == 2
    site.hub.history = ""
    assert recorded(site.hub) == before
    site.scan(site.pallet, 2, EPOCH + 2 * HOUR)
    site.settle()
    assert len(recorded(site.hub)) > len(before), "the triggers are back"
    check(site.hub, mirror)


def test_pages_of_a_track_that_is_sent_again_continue(site: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.feed.pages.MOST_ROWS", 2)
    mirror = follower(site.hub)
    with site.hub.in_use():
        tracks = [no for (no,) in execute("SELECT no FROM track")]
        change_feed.add_whole_tracks(tracks)
        cursor = json.loads(mirror.box.get(mirror.cursor).data.splitlines()[-1])
        assert cursor["more"]
    check(site.hub, mirror)


def test_stays_from_a_new_reader_hide_no_others_from_a_copy(site: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL can have stays of a batch whose sources are not in the snapshot that the page reads."""
    monkeypatch.setattr("edge.feed.pages.MOST_ROWS", 3)
    with site.hub.in_use():
        [(track,)] = execute("SELECT no FROM track").fetchall()
        with pool.connected() as connection:
            connection.execute(
                "INSERT INTO stay (track, observed_at, seq, seen_for, source, delay, quality, rule) "
                "SELECT %s, %s + n, 0, 0, 999, 0, 0, 0 FROM generate_series(1, 2) n",
                (track, EPOCH),
            )
    assert len(follower(site.hub).rows("stay")) == 4
