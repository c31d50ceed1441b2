"""All reader formats, and recognition of the format of an unassigned topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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


FORMATS: dict[str, Format] = {
    format_.name: format_._replace(parse=careful(format_.parse))
    for format_ in (
        Format("csl", "CSL CS463, CS203X", "site/reader/reads", csl.parse, csl.is_typical),
        Format(
            "zebra", "Zebra FX7500, FX9600, FXR60, FXR90, ATR7000", "zebra/reader/data", zebra.parse, zebra.is_typical
        ),
        Format(
            "zebra_sled",
            "Zebra RFD40, RFD90 sled",
            "site/DATA/clients/data1event/serial",
            zebra_sled.parse,
            zebra_sled.is_typical,
        ),
        Format("impinj", "Impinj R700, R720", "impinj/reader/events", impinj.parse, impinj.is_typical),
        Format(
            "smartreader",
            "Impinj with SmartReader",
            "smartreader/reader/tagEvents",
            smartreader.parse,
            smartreader.is_typical,
        ),
        Format("gl_s10", "GL.iNet GL-S10", "GL-IoT/dataTopic/C4DEE2310A42", gl_s10.parse, gl_s10.is_typical),
        Format(
            "moko", "MOKO MK107, MKGW-mini 03, MKGW3, MKGW4", "/MKGW3/40915a1c77e3/send", moko.parse, moko.is_typical
        ),
        Format(
            "ruuvi",
            "Ruuvi Gateway",
            "ruuvi/C4:1F:7A:30:5D:92/C3:0A:11:4E:7F:21",
            ruuvi.parse,
            ruuvi.is_typical,
            tag_level=-1,
        ),
        Format(
            "espresense",
            "ESPresense",
            "espresense/devices/c30a114e7f21/dock",
            espresense.parse,
            espresense.is_typical,
            tag_level=-2,
        ),
        Format("minew", "Minew G1, MG3, MG4", "/gw/ac233fc0a7d1/status", minew.parse, minew.is_typical),
        Format(
            "openmqttgateway",
            "OpenMQTTGateway, Theengs gateway",
            "home/gateway/BTtoMQTT/C30A114E7F21",
            openmqttgateway.parse,
            openmqttgateway.is_typical,
            tag_level=-1,
        ),
        Format("ingics", "INGICS iGS01 to iGS05", "ingics/gateway/report", ingics.parse, ingics.is_typical),
        Format("kkm", "KKM gateways", "kbeacon/publish/68B9D3DFE78C", kkm.parse, kkm.is_typical),
        Format(
            "april_brother",
            "April Brother AB gateway V4",
            "gateway",
            april_brother.parse,
            april_brother.is_typical,
        ),
        Format("edge", N_("Plain format for your own gateway"), "site/gateway/reads", edge.parse, edge.is_typical),
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
