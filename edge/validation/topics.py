"""MQTT topic filters: validation, matching and overlap."""

from __future__ import annotations

from itertools import zip_longest

from edge.errors import Invalid
from edge.texts import N_, Filled, fill

MAX_BYTES = 65_535
MAX_LEVELS = 200  # mosquitto does not start with more in its ACL

DOCTOR_TOPIC = "edge/doctor"  # retained: the result of `edge doctor --publish`


def check_filter(text: str) -> str:
    """Validate the filter of a reader. Raises Invalid on field `topic` with advice."""
    fault = _fault(text)
    if fault:
        raise Invalid.one(
            "topic", "invalid_value", fill(N_("topic is not an MQTT topic filter: %(fault)s"), fault=fault)
        )
    return text


def _fault(text: str) -> Filled | None:
    """Return the fault of a filter with advice."""
    levels = text.split("/")
    if not text.strip() or not text.isprintable() or len(text.encode()) > MAX_BYTES:
        return fill(N_("enter the topic of the reader, for example site/dock1/reads"))
    if text != text.strip() or len(levels) > MAX_LEVELS:
        return fill(N_("use at most %(most)s levels and no leading or trailing spaces"), most=MAX_LEVELS)
    if text.startswith("$"):
        return fill(N_("topics that begin with $ belong to the broker"))
    if any("+" in level and level != "+" for level in levels):
        return fill(N_("+ must be a whole level, as in site/+/reads"))
    if any("#" in level and level != "#" for level in levels) or "#" in levels[:-1]:
        return fill(N_("# must be the whole last level, as in site/dock1/#"))
    return None


def check_plain(text: str) -> str:
    """Validate a topic to publish on. Raises Invalid on field `topic` with advice."""
    fault = _fault(text)
    if not fault and (has_wildcard(text) or "" in text.split("/")):
        fault = fill(N_("use no + or # and no empty level, for example shelly-dock4/rpc"))
    if fault:
        message = N_("%(topic)s is not an MQTT topic: %(fault)s")
        raise Invalid.one("topic", "invalid_value", fill(message, topic=repr(text), fault=fault))
    return text


def check_prefix(text: str) -> str:
    """Validate a topic prefix. Raises Invalid on field `topic_prefix` with advice."""
    is_plain = not has_wildcard(text) and "" not in text.split("/")
    empty = N_("use no + or # and no empty level, for example acme")
    fault = _fault(below(text)) if is_plain else fill(empty)
    if fault:
        message = N_("%(prefix)s cannot be the prefix of topics: %(fault)s")
        raise Invalid.one("topic_prefix", "invalid_value", fill(message, prefix=repr(text), fault=fault))
    return text


def below(prefix: str) -> str:
    """Return the filter of all topics below a prefix."""
    return f"{prefix}/#"


def is_below(prefix: str, topic_filter: str) -> bool:
    """True if everything the filter matches is below the prefix."""
    levels = prefix.split("/")
    return topic_filter.split("/")[: len(levels)] == levels


def has_wildcard(text: str) -> bool:
    return "+" in text or "#" in text


def matches(topic_filter: str, topic: str) -> bool:
    """True if the filter matches the topic. Wildcards do not match topics that begin with $ (MQTT 3.1.1, 4.7.2)."""
    return not (topic.startswith("$") and topic_filter[:1] in "+#") and overlap(topic_filter, topic)


def overlap(one: str, other: str) -> bool:
    """True if some topic matches both filters; a plain topic is also a filter."""
    for left, right in zip_longest(one.split("/"), other.split("/")):
        if "#" in (left, right):  # also matches its parent level, so the other filter may have ended
            return True
        if left is None or right is None:
            return False
        if left != right and "+" not in (left, right):
            return False
    return True
