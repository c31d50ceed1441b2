"""What an administrator may enter for a destination of events. Its address is checked again at every connection."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import SplitResult, urlsplit

from edge.errors import Invalid

MAX_URL = 1000
MAX_TOPIC = 500
TOPIC_FIELDS = ("type", "asset", "location", "reader")
DEFAULT_TOPIC = "edge/events/{type}"
_FIELD = re.compile(r"\{([^{}]*)\}")


def webhook_url(text: str, *, is_on_internet: bool) -> str:
    """Raises Invalid on `url`. Plain http is allowed only within the own network."""
    parts = _split(text, ("https", "http"), "https://erp.example.com/hooks/edge")
    if parts.username is not None or parts.password is not None:
        raise _invalid("url", "leave out user and password: the signature proves who sends")
    if parts.scheme == "http" and is_on_internet:
        raise _invalid("url", "it has to begin with https://, or be allowed to be in your own network")
    return text


def broker_url(text: str, *, is_on_internet: bool) -> str:
    """Raises Invalid on `url`. It may contain the user name, but not the password."""
    parts = _split(text, ("mqtts", "mqtt"), "mqtts://edge@broker.example.com:8883")
    if parts.password is not None:
        raise _invalid("url", "leave out the password, which has a field of its own")
    if parts.path not in ("", "/") or parts.query:
        raise _invalid("url", "nothing may follow the name of the broker and its port")
    if parts.scheme == "mqtt" and is_on_internet:
        raise _invalid("url", "it has to begin with mqtts://, or be allowed to be in your own network")
    return text


def topic_template(text: str) -> str:
    """A topic in which {type}, {asset}, {location} and {reader} are replaced by those of the event."""
    unknown = sorted(set(_FIELD.findall(text)) - set(TOPIC_FIELDS))
    if unknown:
        raise _invalid("topic", f"{{{unknown[0]}}} is none of {', '.join(f'{{{name}}}' for name in TOPIC_FIELDS)}")
    plain = _FIELD.sub("x", text)
    if not text or len(text) > MAX_TOPIC or text != text.strip() or not text.isprintable():
        raise _invalid("topic", f"write a topic of at most {MAX_TOPIC} characters, for example {DEFAULT_TOPIC}")
    if any(character in plain for character in "+#{}") or plain.startswith("$"):
        raise _invalid("topic", "a topic cannot have + or #, nor other braces, nor begin with $")
    return text


def fill_topic(template: str, values: dict[str, str]) -> str:
    """Missing values become `-`; separators and wildcards in values become `_`."""
    return _FIELD.sub(lambda found: _level(values.get(found[1], "")), template)


def event_kinds(chosen: Collection[str], known: Collection[str]) -> frozenset[str]:
    """Raises Invalid on `events`."""
    wrong = sorted(set(chosen) - set(known))
    if wrong:
        raise _invalid("events", f"{wrong[0]} is none of {', '.join(known)}")
    if not chosen:
        raise _invalid("events", "choose at least one kind of event")
    return frozenset(chosen)


def _split(text: str, schemes: tuple[str, str], example: str) -> SplitResult:
    advice = f"write an address such as {example}"
    if not text.isascii() or not text.isprintable() or " " in text or len(text) > MAX_URL:
        raise _invalid("url", advice)
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  raises for what is no port
    except ValueError as error:
        raise _invalid("url", advice) from error
    if parts.scheme not in schemes or not parts.hostname or parts.fragment or "\\" in text:
        raise _invalid("url", advice)
    return parts


def _level(text: str) -> str:
    cleaned = "".join("_" if character in "/+#" or not character.isprintable() else character for character in text)
    return cleaned or "-"


def _invalid(field: str, advice: str) -> Invalid:
    return Invalid.one(field, "invalid_value", advice)
