"""All reader formats, and recognition of the format of an unassigned topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from edge.errors import Invalid
from edge.formats import (
    april_brother,
    csl,
    edge,
    espresense,
    gl_s10,
    impinj,
    ingics,
    kkm,
    minew,
    moko,
    openmqttgateway,
    ruuvi,
    smartreader,
    zebra,
    zebra_sled,
)
from edge.formats.examples import example_that_reads
from edge.formats.fields import Fields
from edge.formats.framing import careful, documents
from edge.formats.mapping import parser_for
from edge.formats.mapping_settings import mapping_from
from edge.formats.reads import Guess, Kind, Malformed, Parsed, Parser
from edge.texts import N_, fill
from edge.validation import json_text

CUSTOM = "mapping"  # the format that an installer describes, see formats.mapping
WITH_NAMES = (CUSTOM, "edge")  # formats whose antennas may have names


class Format(NamedTuple):
    """A reader format. `title` and `example_topic` are shown during setup.

    `is_typical`: returns True if only these devices send an object, given its topic. `tag_level`: level of the topic
    with the tag, counted from the end as -1, -2, for formats with a topic for each tag.
    """

    name: str
    title: str
    example_topic: str
    parse: Parser
    is_typical: Callable[[str, Fields], bool]
    tag_level: int | None = None


class _Module(Protocol):
    """A module of a format."""

    def parse(self, topic: str, payload: bytes, /) -> Parsed: ...

    def is_typical(self, topic: str, message: Fields, /) -> bool: ...


def _format(name: str, module: _Module, title: str, topic: str, tag_level: int | None = None) -> Format:
    return Format(name, title, topic, careful(module.parse), module.is_typical, tag_level)


FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (
        _format("csl", csl, "CSL CS463, CS203X", "site/reader/reads"),
        _format("zebra", zebra, "Zebra FX7500, FX9600, FXR60, FXR90, ATR7000", "zebra/reader/data"),
        _format("zebra_sled", zebra_sled, "Zebra RFD40, RFD90 sled", "site/DATA/clients/data1event/serial"),
        _format("impinj", impinj, "Impinj R700, R720", "impinj/reader/events"),
        _format("smartreader", smartreader, "Impinj with SmartReader", "smartreader/reader/tagEvents"),
        _format("gl_s10", gl_s10, "GL.iNet GL-S10", "GL-IoT/dataTopic/C4DEE2310A42"),
        _format("moko", moko, "MOKO MK107, MKGW-mini 03, MKGW3, MKGW4", "/MKGW3/40915a1c77e3/send"),
        _format("ruuvi", ruuvi, "Ruuvi Gateway", "ruuvi/C4:1F:7A:30:5D:92/C3:0A:11:4E:7F:21", -1),
        _format("espresense", espresense, "ESPresense", "espresense/devices/c30a114e7f21/dock", -2),
        _format("minew", minew, "Minew G1, MG3, MG4", "/gw/ac233fc0a7d1/status"),
        _format(
            "openmqttgateway",
            openmqttgateway,
            "OpenMQTTGateway, Theengs gateway",
            "home/gateway/BTtoMQTT/C30A114E7F21",
            -1,
        ),
        _format("ingics", ingics, "INGICS iGS01 to iGS05", "ingics/gateway/report"),
        _format("kkm", kkm, "KKM gateways", "kbeacon/publish/68B9D3DFE78C"),
        _format("april_brother", april_brother, "April Brother AB gateway V4", "gateway"),
        _format("edge", edge, N_("Plain format for your own gateway"), "site/gateway/reads"),
    )
}


def titles() -> dict[str, str]:
    """Titles of all formats by name."""
    return {row.name: row.title for row in FORMATS.values()} | {CUSTOM: N_("Described by a mapping")}


def parser_of(format_name: str, mapping: str | None) -> Parser:
    """Raise KeyError for an unknown format, and ValueError with advice for an invalid mapping."""
    if format_name == CUSTOM:
        return parser_for(mapping_from(_settings_of(mapping)))
    return FORMATS[format_name].parse


def _settings_of(mapping: str | None) -> dict[str, Any]:
    settings = json_text.decode(mapping or "{}")
    if not isinstance(settings, dict):
        raise ValueError('it is not a JSON object, for example {"tag_path": "epc"}')
    return settings


def check_format(format_name: str, mapping: str | None) -> None:
    """Raise Invalid for an unknown format or an invalid mapping."""
    try:
        parser_of(format_name, mapping)
    except KeyError as error:
        known = ", ".join([*FORMATS, CUSTOM])
        raise Invalid.one(
            "format",
            "invalid_value",
            fill(N_("format %(name)s is not known; write one of %(known)s"), name=format_name, known=known),
        ) from error
    except ValueError as error:
        raise Invalid.one(
            "mapping", "invalid_value", fill(N_("the mapping cannot be used: %(error)s"), error=str(error))
        ) from error


def filter_for(format_name: str | None, topic: str) -> str:
    """Return the topic filter for a reader, given its format and the topic of one message."""
    level = FORMATS[format_name].tag_level if format_name in FORMATS else None
    levels = topic.split("/")
    if level is None or -level > len(levels):
        return topic
    levels[level] = "+"
    return "/".join(levels)


def proposed_filter(topic: str, payload: bytes) -> str:
    """Return the suggested topic filter for a message: all topics of the gateway if each tag has its own."""
    return filter_for(recognize(topic, payload).name, topic)


# Larger messages are not worth the time of a guess.
_LARGEST_GUESSED = 262_144


def recognize(topic: str, payload: bytes) -> Guess:
    """Guess the format of a message, for suggestions only."""
    if len(payload) > _LARGEST_GUESSED or not payload.strip():
        return Guess()
    worth = {name: _understood(format_.parse, topic, payload) for name, format_ in FORMATS.items()}
    candidates = sorted((name for name in worth if worth[name] > (0, 0)), key=lambda name: worth[name], reverse=True)
    objects = _objects(payload)
    if objects is None:
        sure = [name for name in candidates if worth[name] > _STATUS_ONLY]
    else:
        sure = [name for name in candidates if any(FORMATS[name].is_typical(topic, entry) for entry in objects)]
    if len(sure) == 1:
        return Guess(sure[0])
    example = None if candidates else example_that_reads(topic, payload)
    return Guess(None, tuple(sure or candidates), example.title if example else None)


_STATUS_ONLY = (1, 0)


def _objects(payload: bytes) -> list[Fields] | None:
    """Return the objects of a message, None if it is not JSON."""
    try:
        return [entry for entry in documents(payload) if isinstance(entry, dict)]
    except Malformed:
        return None


def _understood(parse: Parser, topic: str, payload: bytes) -> tuple[int, int]:
    """Return a sort key for a parser: reads rank above a status, and fewer skipped entries rank higher.

    A recognized but unusable message, such as a binary one, has a note and ranks in between.
    """
    try:
        parsed: Parsed = parse(topic, payload)
    except Malformed:
        return (0, 0)
    if parsed.reads:
        return (3, -parsed.skipped)
    if parsed.kind is Kind.IGNORED:
        return (2, 0) if parsed.note else (0, 0)
    return _STATUS_ONLY if parsed.kind in (Kind.STATUS, Kind.OFFLINE) else (0, 0)
