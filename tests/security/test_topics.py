"""Topics belong to one organization. Others cannot see, claim or crowd them out."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import HOUR
from edge.database.bounds import Bounds, hard_limit
from edge.database.connection import execute, writing
from edge.errors import Conflict, Invalid
from edge.formats.registry import proposed_filter
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.operations.doctor import readers as checks
from edge.people import organizations, topic_owners
from edge.people.people import Role
from edge.readers import kept_messages, ledger, readers, unassigned_topics
from edge.readers.kept_messages import ROW_BYTES, Pack, Window
from tests.conftest import Cast
from tests.pages.conftest import Browser

SECRET = b'{"reads": [{"tag": "30AA5EC2E7"}]}'
Act = Callable[..., Browser]


def receive(*topics: str) -> Pipeline:
    pipeline = Pipeline(0, 7, Bounds(unassigned_topics=8), window=Window(1 << 20, HOUR))
    pipeline.handle([Message(topic, SECRET, clock.now() + number) for number, topic in enumerate(topics)])
    return pipeline


def listed(organization_id: int) -> list[str]:
    return sorted(topic.topic for topic in unassigned_topics.list_topics(organization_id))


@pytest.mark.parametrize("topic", ["site/A/reads", "rivals/A"])
def test_other_organizations_neither_see_nor_claim_a_topic(cast: Cast, sign_in_as: Act, topic: str) -> None:
    theirs, ours = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival), sign_in_as(Role.ADMINISTRATOR)
    pipeline = receive(topic)
    for path in ("/readers/topics", f"/readers/new?topic={topic}", "/readers/new?topic=%23", "/status", "/readers"):
        assert "5EC2E7" not in theirs.get(path).text
    assert topic not in theirs.get("/readers/topics").text
    assert "5EC2E7" in ours.get("/readers/topics").text
    for claimed in (topic, "site/A/#", "#", "+/A/reads", "+/A"):
        form = {"name": "Spy", "topic": claimed, "format": "plain"}
        assert theirs.post("/readers/new", form).status_code == 400
    spy = readers.add_reader(shell(cast.rival), name="Spy", topic="rival/#", format="edge")
    assert theirs.edit(f"/readers/{spy.id}/edit", {"name": "Spy", "topic": topic, "format": "plain"}).status_code == 400
    while pipeline.catch_up():  # a claim requests the replay of waiting messages
        pass
    assert ledger.totals(spy.id, 0) == []
    assert listed(cast.acme) == [topic]


def test_topics_below_a_prefix_are_hidden_from_others(cast: Cast) -> None:
    receive("rival/dock", "rival", "rivals", "dock")
    assert listed(cast.rival) == ["rival", "rival/dock"]
    assert listed(cast.acme) == ["dock", "rivals"]


def test_one_organization_does_not_crowd_out_another(cast: Cast) -> None:
    receive(*(f"rival/{number}" for number in range(100)), "site/A")
    assert listed(cast.acme) == ["site/A"]
    assert len(listed(cast.rival)) == hard_limit(8)


def test_waiting_messages_follow_the_owner_of_their_topic(cast: Cast) -> None:
    receive("acme/dock", "site/dock")
    topic_owners.set_prefix(shell(cast.acme), "acme")
    assert listed(cast.acme) == ["acme/dock"]
    subject: Any = SimpleNamespace(proposed_filter=proposed_filter)
    assert "site/dock" in checks.topics(subject).text
    third = organizations.add_organization(shell(), "Third", "site").id
    assert listed(third) == ["site/dock"]


def test_a_prefix_is_proposed_that_is_free(cast: Cast) -> None:
    prefixes = [organizations.add_organization(shell(), name).topic_prefix for name in ("Rival!", "倉庫", "+ #")]
    assert prefixes == ["rival-2", "organization", "organization-2"]
    assert organizations.get_organization(cast.acme).topic_prefix is None


@pytest.mark.parametrize("name", ["Edge", "edge", "E.D.G.E"])
def test_the_topics_of_edge_belong_to_no_organization(cast: Cast, name: str) -> None:
    """Its readers could publish the result of the doctor."""
    prefix = organizations.add_organization(shell(), name).topic_prefix
    assert prefix == ("e-d-g-e" if "." in name else "edge-2")
    for reserved in ("edge", "edge/doctor"):
        with pytest.raises(Conflict, match="the topics of edge itself"):
            topic_owners.set_prefix(shell(cast.acme), reserved)
        with pytest.raises(Conflict, match="the topics of edge itself"):
            organizations.add_organization(shell(), f"Third {reserved}", reserved)


@pytest.mark.parametrize("prefix", ["", "a/", "/a", "a//b", "+", "a/#", "$SYS", "a\n"])
def test_invalid_prefixes(cast: Cast, prefix: str) -> None:
    with pytest.raises(Invalid):
        topic_owners.set_prefix(shell(cast.acme), prefix)


def test_a_filter_as_prefix_gets_an_explanation(cast: Cast) -> None:
    with pytest.raises(Invalid, match=r"'a/#' cannot be the prefix of topics: use no \+ or #"):
        topic_owners.set_prefix(shell(cast.acme), "a/#")


def test_a_prefix_takes_nothing_from_anybody(cast: Cast) -> None:
    for prefix in ("rival", "rival/dock"):
        with pytest.raises(Conflict, match="another organization"):
            topic_owners.set_prefix(shell(cast.acme), prefix)
    readers.add_reader(shell(cast.acme), name="Dock", topic="site/dock", format="edge")
    with pytest.raises(Conflict, match="the reader Dock has the topic site/dock; change it to one below acme/ first"):
        topic_owners.set_prefix(shell(cast.acme), "acme")
    for prefix in ("site", "site/dock"):
        with pytest.raises(Conflict, match="matches below"):
            organizations.add_organization(shell(), "Third", prefix)
    assert len(organizations.list_organizations()) == 2


def test_a_prefix_includes_status_topics_of_readers(cast: Cast) -> None:
    readers.add_reader(shell(cast.acme), name="Dock", topic="acme/dock", status_topic="site/dock/status", format="edge")
    with pytest.raises(
        Conflict, match="the reader Dock has the topic site/dock/status; change it to one below acme/ first"
    ):
        topic_owners.set_prefix(shell(cast.acme), "acme")
    with pytest.raises(Conflict, match="matches below site/"):
        organizations.add_organization(shell(), "Third", "site")
    assert len(organizations.list_organizations()) == 2


def test_a_flood_evicts_only_its_own_messages_from_the_window(cast: Cast) -> None:
    window, now = Window(100_000, HOUR), clock.now()
    sources = [(cast.acme, 1), (cast.acme, 0), (cast.rival, 0), (None, 0)]
    with writing():
        window.keep(Pack(*source, now, b"", b"x" * (900 - ROW_BYTES)) for source in sources)
        flood = [Pack(cast.rival, number % 9 + 2, now + number, b"", b"x" * 800) for number in range(1_000)]
        window.keep(flood)
    kept = {row[:2] for row in execute("SELECT organization_id, reader_id FROM raw_message")}
    assert set(sources) <= kept
    assert execute("SELECT sum(size) FROM raw_message").fetchone()[0] <= 100_000
    assert kept_messages.newest() >= len(flood)
