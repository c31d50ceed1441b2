"""GS1 identities of barcodes: element strings and Digital Links. `gs1` imports this module when it is needed."""

from __future__ import annotations

from collections.abc import Iterable

from biip import ParseError, gs1_prefixes
from biip.checksums import gs1_standard_check_digit
from biip.gs1_digital_link_uris import GS1DigitalLinkURI
from biip.gs1_element_strings import GS1ElementString
from biip.gs1_messages import GS1Message

# The table of company prefixes takes 9 MB of memory, and no code here needs it. With a release of biip that renames it,
# everything still works and a test fails. A release that loads it on demand makes this line unnecessary.
gs1_prefixes._GS1_COMPANY_PREFIX_TRIE = {}

_KEYS = ("00", "01", "8003", "8004")
_GRAI_LENGTH = 14  # a zero and the number with its check digit; the serial number follows


def of_digital_link(link: str) -> str | None:
    """Return the identity of a GS1 Digital Link. Raises ValueError."""
    return _identity(_parsed(GS1DigitalLinkURI, link))


def of_message(text: str) -> str | None:
    """Return the identity of an element string without symbology identifier. Raises ValueError."""
    return _identity(_parsed(GS1Message, text))


def of_bracketed(text: str) -> str | None:
    """Return the identity of an element string in brackets, such as `(01)...(21)...`. Raises ValueError."""
    try:
        return _identity(GS1Message.parse_hri(text).element_strings)
    except ParseError as error:
        raise ValueError(str(error)) from error


def as_bracketed(text: str) -> str:
    """Return an element string in brackets. Raises ValueError."""
    try:
        return GS1Message.parse(text).as_hri()
    except ParseError as error:
        raise ValueError(str(error)) from error


def check_digit(digits: str) -> int:
    """Return the GS1 check digit that follows `digits`."""
    return gs1_standard_check_digit(digits)


def _parsed(kind: type[GS1DigitalLinkURI | GS1Message], text: str) -> Iterable[GS1ElementString]:
    try:
        return kind.parse(text).element_strings
    except ParseError as error:
        raise ValueError(str(error)) from error


def _identity(elements: Iterable[GS1ElementString]) -> str | None:
    values = {element.ai.ai: element.value for element in elements}
    key = next((ai for ai in _KEYS if ai in values), None)
    if key == "01":
        return f"(01){values['01'].zfill(14)}(21){values['21']}" if "21" in values else None
    if key == "8003":
        return f"(8003){values['8003']}" if len(values["8003"]) > _GRAI_LENGTH else None
    if key:
        return f"({key}){values[key]}"
    if next(iter(values), "") != "414":
        return None
    return f"(414){values['414']}(254){values['254']}" if "254" in values else f"(414){values['414']}"
