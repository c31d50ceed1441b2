"""MQTT topic filters: whether they are well-formed, what they match, and whether two of them overlap."""

from __future__ import annotations

from itertools import zip_longest

from edge.errors import Invalid

MAX_BYTES = 65_535
MAX_LEVELS = 200  # with more in its ACL, mosquitto does not start

DOCTOR_TOPIC = "edge/doctor"  # retained: the result of `edge doctor --publish`


def check_filter(text: str) -> str:
    """A filter that a reader may have. Raises Invalid on field `topic` with what to write instead."""
    fault = _fault(text)
    if fault:
        raise Invalid.one("topic", "invalid_value", f"topic is not an MQTT topic filter: {fault}")
    return text


def _fault(text: str) -> str:
    """What is wrong with a filter and what to write instead; empty for a good one."""
    levels = text.split("/")
    if not text.strip() or not text.isprintable() or len(text.encode()) > MAX_BYTES:
        return "write the topic the reader publishes to, for example site/dock1/reads"
    if text != text.strip() or len(levels) > MAX_LEVELS:
        return f"it may have at most {MAX_LEVELS} levels, and no spaces at its ends"
    if text.startswith("$"):
        return "topics that begin with $ belong to the broker"
    if any("+" in level and level != "+" for level in levels):
        return "+ replaces one whole level, as in site/+/reads"
    if any("#" in level and level != "#" for level in levels) or "#" in levels[:-1]:
        return "# stands alone and last, as in site/dock1/#"
    return ""


def check_prefix(text: str) -> str:
    """Raises Invalid on field `topic_prefix` with what to write instead."""
    is_plain = not has_wildcard(text) and "" not in text.split("/")
    fault = _fault(below(text)) if is_plain else "it has no + or #, and no empty level; write for example acme"
    if fault:
        raise Invalid.one("topic_prefix", "invalid_value", f"{text!r} cannot be the prefix of topics: {fault}")
    return text


def below(prefix: str) -> str:
    """The filter of all topics below a prefix."""
    return f"{prefix}/#"


def is_below(prefix: str, topic_filter: str) -> bool:
    """Whether everything that the filter matches is below the prefix."""
    levels = prefix.split("/")
    return topic_filter.split("/")[: len(levels)] == levels


def has_wildcard(text: str) -> bool:
    return "+" in text or "#" in text


def matches(topic_filter: str, topic: str) -> bool:
    """A leading slash is an empty first level; wildcards do not reach topics that begin with $."""
    return not (topic.startswith("$") and topic_filter[:1] in "+#") and overlap(topic_filter, topic)


def overlap(one: str, other: str) -> bool:
    """Whether both filters match some topic; a plain topic also is a filter."""
    for left, right in zip_longest(one.split("/"), other.split("/")):
        if "#" in (left, right):  # also matches the level above it, so the other one may have ended
            return True
        if left is None or right is None:
            return False
        if left != right and "+" not in (left, right):
            return False
    return True
