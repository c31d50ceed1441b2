"""An upstream shares the change feed with sync and the open feed; none takes it away from another."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge.audit.actors import Actor, shell
from edge.database import change_log
from edge.database.connection import execute, writing
from edge.feed import cursors, pages
from edge.outbound import Network
from edge.people import api_keys
from edge.records import assets
from edge.sync.store import change_feed, hub_link
from edge.sync.store.hub_link import HubAccess
from edge.upstream import upstreams
from edge.upstream.upstreams import NewUpstream
from tests.conftest import Cast

HUB = HubAccess("https://hub", "BER", "Hub", "id")


@pytest.fixture
def actor(cast: Cast) -> Actor:
    return shell(cast.acme)


def add_upstream(actor: Actor) -> None:
    upstreams.add(actor, NewUpstream("https://assets.example", Network.INTERNET, "id", b"sealed"))


def is_fed(actor: Actor) -> bool:
    """Return True if a new asset is in the feed."""
    before = change_log.newest()
    row = assets.create(actor, name="Pallet")
    return row.id in {change.a for change in change_feed.all_records_listed(before, 10)}


def read_feed(actor: Actor) -> None:
    key = api_keys.add_key(actor, "Reader", [api_keys.FEED_SCOPE], b"hash")
    pages.first_page(actor.organization_id, key.id, None)


def stop_reading(_: Actor) -> None:
    execute("UPDATE feed_reader SET read_at = 0")
    cursors.forget_silent(cursors.FORGET_AFTER + 1)


OTHERS: dict[str, tuple[Callable[[Actor], object], Callable[[Actor], object]]] = {
    "site": (lambda actor: hub_link.begin(actor, HUB), hub_link.end),
    "open feed": (read_feed, stop_reading),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_reader_comes_and_goes(actor: Actor, other: str) -> None:
    begin, end = OTHERS[other]
    add_upstream(actor)
    assert is_fed(actor)
    begin(actor)
    assert is_fed(actor)
    end(actor)
    assert is_fed(actor)
    upstreams.remove(actor)
    assert not is_fed(actor)
    assert change_log.newest() > 0
    assert execute("SELECT count(*) FROM change").fetchone() == (0,)


@pytest.mark.parametrize("other", OTHERS)
def test_an_upstream_comes_and_goes(actor: Actor, other: str) -> None:
    begin, end = OTHERS[other]
    begin(actor)
    add_upstream(actor)
    upstreams.remove(actor)
    assert is_fed(actor)
    end(actor)
    assert not is_fed(actor)


def test_a_box_without_upstream_feeds_nothing(actor: Actor) -> None:
    assert not is_fed(actor)


def test_a_change_that_the_hub_refuses_is_kept(actor: Actor) -> None:
    hub_link.begin(actor, HUB)
    add_upstream(actor)
    before = change_log.newest()
    row = assets.create(actor, name="Pallet")
    with writing():
        change_feed.skip(change_log.newest())
    assert [change.a for change in change_feed.all_records_listed(before, 10)][-1] == row.id
    assert change_feed.records_listed(change_log.newest() - 1, 10) == []
