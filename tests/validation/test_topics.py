"""MQTT topic filters: matching and overlap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from edge.errors import Invalid
from edge.validation.topics import check_filter, matches, overlap

levels = st.sampled_from(["", "a", "b"])
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.builds(
    lambda start, last: "/".join([*start, *last]),
    st.lists(st.sampled_from(["", "a", "b", "+"]), min_size=1, max_size=4),
    st.sampled_from([[], ["#"]]),
).filter(bool)


@given(filters, topics)
def test_a_filter_matches_what_mqtt_says_it_does(topic_filter: str, topic: str) -> None:
    assert matches(topic_filter, topic) == topic_matches_sub(topic_filter, topic)


@given(filters, filters, topics)
def test_two_filters_that_match_one_topic_overlap(one: str, other: str, topic: str) -> None:
    if matches(one, topic) and matches(other, topic):
        assert overlap(one, other)
        assert overlap(other, one)


@given(filters, filters)
def test_two_filters_that_overlap_match_a_topic_together(one: str, other: str) -> None:
    if overlap(one, other):
        assert any(matches(one, topic) and matches(other, topic) for topic in _meeting_points(one, other))


def _meeting_points(one: str, other: str) -> list[str]:
    """Return candidates for a common topic: each filter with its wildcards replaced by levels of the other."""
    left, right = one.split("/"), other.split("/")
    candidates = []
    for length in range(1, max(len(left), len(right)) + 2):
        picked = []
        for index in range(length):
            options = [side[index] if index < len(side) else "#" for side in (left, right)]
            fixed = [level for level in options if level not in "+#" or level == ""]
            picked.append(fixed[0] if fixed else "x")
        candidates.append("/".join(picked))
    return candidates


def test_wildcards_do_not_reach_the_brokers_own_topics() -> None:
    assert not matches("#", "$SYS/uptime")
    assert not matches("+/uptime", "$SYS/uptime")


@pytest.mark.parametrize("text", ["site/dock1/reads", "/gw/x/status", "+", "#", "a/+/#", "a//b"])
def test_a_good_filter_is_accepted(text: str) -> None:
    assert check_filter(text) == text


@pytest.mark.parametrize(
    "text", ["", " ", "a+/b", "a/#/b", "a#", "$SYS/#", "a\0b", "x" * 65_536, " a", "a/# ", "a/" * 200 + "a"]
)
def test_a_bad_filter_is_refused_with_advice(text: str) -> None:
    with pytest.raises(Invalid, match="topic is not an MQTT topic filter: "):
        check_filter(text)
