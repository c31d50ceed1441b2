"""Passages of a site are compared with their copies at the hub, and sent again where they differ."""

from __future__ import annotations

from typing import Any

import pytest

from edge.database.connection import execute
from edge.sync import batch_format, verify
from edge.sync.sender import BatchRefused
from edge.sync.store import comparisons, hub_link
from tests.doors.conftest import read
from tests.doors.site import passing
from tests.sync.world import SiteBox

ROWS = "SELECT remote_no, at, direction, confidence, inner_reads, outer_reads, since, until, revision FROM passage"


@pytest.fixture
def joined(ber: SiteBox) -> SiteBox:
    """The site with five passages that the hub has."""
    ber.join()
    for number in range(5):
        read(ber, passing(200 * number))
    ber.sync()
    assert len(ber.hub.rows(ROWS)) == 5
    return ber


@pytest.fixture
def asked(joined: SiteBox, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Questions about passages that the hub has answered."""
    questions: list[Any] = []
    call = joined.call

    def note(path: str, body: bytes) -> Any:
        question = batch_format.unpack(body)
        if question.get("of") == "passages":
            questions.append(question)
        return call(path, body)

    monkeypatch.setattr(joined, "call", note)
    return questions


def compare(site: SiteBox) -> list[str]:
    with site.in_use():
        here = hub_link.find()
        assert here
        return [difference.text for difference in verify.compare(here, site.call)]


def repair(site: SiteBox) -> str:
    with site.in_use():
        here = hub_link.find()
        assert here
        summary = verify.repair(here, verify.compare(here, site.call))
    site.sync()
    return summary


def at_hub(site: SiteBox, sql: str) -> None:
    with site.hub.in_use():
        assert execute(sql).rowcount


def test_equal_passages_take_two_questions(joined: SiteBox, asked: list[Any]) -> None:
    assert compare(joined) == []
    assert len(asked) == 2  # the first one for the terms


@pytest.mark.parametrize(
    "spoil",
    [
        "DELETE FROM passage WHERE remote_no = 2",
        "UPDATE passage SET direction = 3 WHERE remote_no = 2",
        "UPDATE passage SET at = at + 1 WHERE remote_no = 2",
        "UPDATE passage SET since = since - 1, until = until + 1 WHERE remote_no = 2",
        "UPDATE passage SET inner_reads = outer_reads, outer_reads = inner_reads + 1 WHERE remote_no = 2",
        "UPDATE passage SET confidence = confidence - 1, revision = 1 WHERE remote_no = 2",
    ],
)
def test_a_passage_that_differs_is_sent_again(joined: SiteBox, spoil: str) -> None:
    before = sorted(joined.hub.rows(ROWS))
    at_hub(joined, spoil)
    summary = repair(joined)
    assert summary.startswith("1 difference: passage of P-1 at 2023-11-14T")
    assert summary.endswith("Sent again: 1.")
    assert sorted(joined.hub.rows(ROWS)) == before
    assert compare(joined) == []


def test_the_nightly_comparison_has_the_passages(joined: SiteBox) -> None:
    at_hub(joined, "DELETE FROM passage WHERE remote_no = 2")
    with joined.in_use():
        here = hub_link.find()
        assert here
        assert "passage of P-1" in verify.next_slice(here, joined.call)
    joined.sync()
    assert compare(joined) == []


def test_all_buckets_are_compared(joined: SiteBox, asked: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "PASSAGE_BITS", 0)
    kind = comparisons.KINDS["passages"]._replace(step=2, page=2)
    monkeypatch.setitem(comparisons.KINDS, "passages", kind)
    at_hub(joined, "DELETE FROM passage WHERE remote_no IN (1, 3, 5)")
    assert len(compare(joined)) == 3
    assert [question["first"] for question in asked if not question.get("buckets")] == [0, 0, 2, 4]


def test_a_comparison_is_bounded_and_continues_in_the_next(joined: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "PASSAGE_BITS", 0)
    monkeypatch.setattr(verify, "MAX_BUCKETS", 2)
    at_hub(joined, "DELETE FROM passage")
    numbers = []
    for _ in range(3):
        repair(joined)
        numbers.append(len(joined.hub.rows(ROWS)))
    assert numbers == [2, 4, 5]


def test_what_only_the_hub_has_and_what_retention_dropped_is_no_difference(joined: SiteBox) -> None:
    with joined.in_use():
        execute("DELETE FROM passage WHERE no = 1")
    assert compare(joined) == []
    at_hub(joined, "DELETE FROM passage WHERE remote_no < 3")
    horizon = joined.rows("SELECT at FROM passage WHERE no = 3")[0][0]
    at_hub(joined, f"UPDATE hub SET horizon = {horizon}")
    assert compare(joined) == []
    at_hub(joined, "UPDATE hub SET horizon = 0")
    assert len(compare(joined)) == 1
    with joined.in_use():
        hub_link.update(horizon=horizon)
    assert compare(joined) == []


def test_passages_on_their_way_are_no_differences(joined: SiteBox) -> None:
    read(joined, passing(5_000))
    assert compare(joined) == []
    joined.sync()
    assert compare(joined) == []


def test_a_hub_of_an_earlier_release_compares_none(joined: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    at_hub(joined, "DELETE FROM passage WHERE remote_no = 2")
    call = joined.call

    def earlier(path: str, body: bytes) -> Any:
        question = batch_format.unpack(body)
        question.pop("of", None) if question.get("of") == "passages" else None
        return call(path, batch_format.pack(question))

    monkeypatch.setattr(joined, "call", earlier)
    assert compare(joined) == []


@pytest.mark.parametrize("question", [{"first": "x", "since": 0}, {"first": 0, "since": 2**70}, {"first": 0}])
def test_an_invalid_question_is_refused(joined: SiteBox, question: dict[str, Any]) -> None:
    body = batch_format.pack({"range": (1, 0), "days": [], "of": "passages", **question})
    with joined.in_use(), pytest.raises(BatchRefused):
        joined.call("digests", body)


def test_a_huge_bucket_is_answered_with_nothing(joined: SiteBox) -> None:
    body = batch_format.pack({"range": (1, 0), "days": [], "of": "passages", "first": 2**62, "since": 0})
    with joined.in_use():
        assert joined.call("digests", body)["passages"] == []
