"""What the pages know of reader formats: plain values and functions, handed in by whoever knows the parsers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from edge.formats.reads import Attempt, Guess, Trial
from edge.pages.installation import installation


class Formats(NamedTuple):
    """`titles` by name, `custom` is the name of the one that an installer describes.

    `filter_for` gives the topic filter of a reader from its format and one topic it sends on, `recognise` guesses the
    format of a message, `check` raises Invalid for a description that cannot be used, and `requeue` gives a dead letter
    (number, topic, bytes, when it was received) to ingest once more, which takes it off the list when it has dealt
    with it. `try_out` tells, for an organization, what a message would come to; `examples` are mappings by title.
    """

    titles: Mapping[str, str]
    custom: str
    filter_for: Callable[[str | None, str], str]
    recognise: Callable[[str, bytes], Guess]
    check: Callable[[str, str | None], None]
    requeue: Callable[[int, str, bytes, int], None] | None
    try_out: Callable[[int, Attempt], Trial] | None = None
    examples: Mapping[str, str] = MappingProxyType({})


def formats() -> Formats:
    return installation().formats


NONE = Formats({}, "", lambda _name, topic: topic, lambda _topic, _payload: Guess(), lambda _name, _mapping: None, None)
