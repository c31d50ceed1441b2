"""Validation of destination settings. The address is checked again on every connection."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from edge.errors import Invalid
from edge.texts import N_, fill

MAX_URL = 1000
MAX_TOPIC = 500
MOST_DIGITS = 6
TOPIC_FIELDS = ("type", "asset", "location", "reader")
DEFAULT_TOPIC = "edge/events/{type}"
_FIELD = re.compile(r"\{([^{}]*)\}")


def webhook_url(text: str, *, is_on_internet: bool) -> str:
    """Return the URL. Raises Invalid on `url`; plain http is allowed only in the local network."""
    url = _split(text, ("https", "http"), "https://erp.example.com/hooks/edge")
    if url.username is not None or url.password is not None:
        raise invalid("url", N_("remove user and password: requests are signed instead"))
    if url.scheme == "http" and is_on_internet:
        raise invalid("url", N_("use https://, or allow an address in a private network"))
    return text


def broker_url(text: str, *, is_on_internet: bool) -> str:
    """Return the URL. Raises Invalid on `url`; it may contain the user name but not the password."""
    url = _split(text, ("mqtts", "mqtt"), "mqtts://edge@broker.example.com:8883")
    if url.password is not None:
        raise invalid("url", N_("remove the password and enter it in its own field"))
    if url.path not in ("", "/") or url.query:
        raise invalid("url", N_("remove everything after the broker's name and port"))
    if url.scheme == "mqtt" and is_on_internet:
        raise invalid("url", N_("use mqtts://, or allow an address in a private network"))
    return text


def topic_template(text: str) -> str:
    """Return the topic template with the fields {type}, {asset}, {location} and {reader}. Raises Invalid on `topic`."""
    unknown = sorted(set(_FIELD.findall(text)) - set(TOPIC_FIELDS))
    if unknown:
        names = ", ".join(f"{{{name}}}" for name in TOPIC_FIELDS)
        raise invalid("topic", fill(N_("%(name)s is none of %(names)s"), name=f"{{{unknown[0]}}}", names=names))
    plain = _FIELD.sub("x", text)
    if not text or len(text) > MAX_TOPIC or text != text.strip() or not text.isprintable():
        text_needed = N_("enter a topic of at most %(number)s characters, for example %(topic)s")
        raise invalid("topic", fill(text_needed, number=MAX_TOPIC, topic=DEFAULT_TOPIC))
    if any(character in plain for character in "+#{}") or plain.startswith("$"):
        raise invalid("topic", N_("a topic cannot contain + or #, or other braces, or begin with $"))
    return text


def fill_topic(template: str, values: dict[str, str]) -> str:
    """Return the topic of an event. Missing values become `-`; separators and wildcards in values become `_`."""
    return _FIELD.sub(lambda match: _level(values.get(match[1], "")), template)


def event_kinds(chosen: Collection[str], known: Collection[str]) -> frozenset[str]:
    """Return the chosen event kinds. Raises Invalid on `events` if one is unknown or none is chosen."""
    wrong = sorted(set(chosen) - set(known))
    if wrong:
        raise invalid("events", fill(N_("%(name)s is none of %(names)s"), name=wrong[0], names=", ".join(known)))
    if not chosen:
        raise invalid("events", N_("choose at least one kind of event"))
    return frozenset(chosen)


def whole_number(field: str, text: str, least: int, most: int, advice: str) -> int:
    """Return a number of a form. Raises Invalid with the advice."""
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS and least <= int(text) <= most):
        raise invalid(field, advice)
    return int(text)


def _split(text: str, schemes: tuple[str, str], example: str) -> SplitResult:
    advice = fill(N_("enter an address such as %(address)s"), address=example)
    if not text.isascii() or not text.isprintable() or " " in text or len(text) > MAX_URL:
        raise invalid("url", advice)
    try:
        url = urlsplit(text)
        url.port  # noqa: B018  raises ValueError for an invalid port
    except ValueError as error:
        raise invalid("url", advice) from error
    if url.scheme not in schemes or not url.hostname or url.fragment or "\\" in text:
        raise invalid("url", advice)
    return url


def _level(text: str) -> str:
    cleaned = "".join("_" if character in "/+#" or not character.isprintable() else character for character in text)
    return cleaned or "-"


def invalid(field: str, advice: str) -> Invalid:
    """Return the error of a field of a form, with advice."""
    return Invalid.one(field, "invalid_value", advice)
