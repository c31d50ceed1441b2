"""The table of reader formats, and a guess at the format of a topic nobody has set up."""

from __future__ import annotations

from typing import NamedTuple

from edge.ingest.parsers import (
    csl,
    edge,
    espresense,
    gl_s10,
    impinj,
    minew,
    moko,
    openmqttgateway,
    ruuvi,
    smartreader,
    zebra,
    zebra_sled,
)
from edge.ingest.reads import Kind, Malformed, Parsed, Parser


class Format(NamedTuple):
    """`title` and `example_topic` are for the person who sets a reader up."""

    name: str
    title: str
    example_topic: str
    parse: Parser


# The more telling shapes come first: where two formats read a message equally well, the first is suggested.
FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (
        Format("csl", "CSL CS463, CS203X", "site/reader/reads", csl.parse),
        Format("zebra", "Zebra FX7500, FX9600, FXR60, FXR90, ATR7000", "zebra/reader/data", zebra.parse),
        Format("zebra_sled", "Zebra RFD40, RFD90 sled", "site/DATA/clients/data1event/serial", zebra_sled.parse),
        Format("impinj", "Impinj R700, R720", "impinj/reader/events", impinj.parse),
        Format("smartreader", "Impinj with SmartReader", "smartreader/reader/tagEvents", smartreader.parse),
        Format("gl_s10", "GL.iNet GL-S10", "GL-IoT/dataTopic/C4DEE2310A42", gl_s10.parse),
        Format("moko", "MOKO MK107, MKGW-mini 03, MKGW3, MKGW4", "/MKGW3/40915a1c77e3/send", moko.parse),
        Format("ruuvi", "Ruuvi Gateway", "ruuvi/C4:1F:7A:30:5D:92/C3:0A:11:4E:7F:21", ruuvi.parse),
        Format("espresense", "ESPresense", "espresense/devices/c30a114e7f21/dock", espresense.parse),
        Format("minew", "Minew G1, MG3, MG4", "/gw/ac233fc0a7d1/status", minew.parse),
        Format(
            "openmqttgateway",
            "OpenMQTTGateway, Theengs gateway",
            "home/gateway/BTtoMQTT/C30A114E7F21",
            openmqttgateway.parse,
        ),
        Format("edge", "Plain format for your own gateway", "site/gateway/reads", edge.parse),
    )
}

# Above the largest batch a reader sends, a guess is not worth its time.
_LARGEST_GUESSED = 262_144


def recognise(topic: str, payload: bytes) -> str | None:
    """The name of the format this message most probably speaks: to suggest, never to route by."""
    if len(payload) > _LARGEST_GUESSED or not payload.strip():
        return None
    best = max(FORMATS.values(), key=lambda format_: _understood(format_.parse, topic, payload))
    return best.name if _understood(best.parse, topic, payload) > (0, 0) else None


def _understood(parse: Parser, topic: str, payload: bytes) -> tuple[int, int]:
    """Reads say more than a status, and of two that find reads, the one that leaves fewer entries unread."""
    try:
        parsed: Parsed = parse(topic, payload)
    except Malformed:
        return (0, 0)
    if parsed.reads:
        return (2, -parsed.skipped)
    return (1 if parsed.kind in (Kind.STATUS, Kind.OFFLINE) else 0, 0)
