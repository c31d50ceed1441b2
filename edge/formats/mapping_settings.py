"""Parse mapping settings, which define where a message has its reads (web/manual/mappings.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from edge.formats.fields import describe
from edge.formats.paths import Path, path_from
from edge.formats.payloads import KINDS
from edge.validation.values import TAG_TYPES

TIME_UNITS: Final = ("s", "ms", "us", "ns", "iso")
ENCODINGS: Final = ("text", "base64")
STRIPPABLE: Final = ("pc", "crc")

_COMPANY = re.compile(r"(?:0x)?([0-9A-Fa-f]{4})(?:\[([0-9]{1,3}):([0-9]{1,3})\])?")
_TIME_CODES = frozenset("YymdHIMSfpzZjbBaA%")  # of strptime that do not depend on anything else
_TIME_ADVICE = f"{', '.join(TIME_UNITS)}, or a format such as %d.%m.%Y %H:%M:%S"
_MOST_LISTS = 4
_MOST_NAMES = 50
_LONGEST_TEXT = 100


class CompanyData(NamedTuple):
    """Range of bytes in the manufacturer data of a company that identify the tag."""

    company: int
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """Locations of the fields in a message. Without `list_path`, the message is one read or an array of reads.
    With `content_path` the message is in a field of its envelope.

    `tag_type` applies to all reads unless `tag_type_path` is set. Messages without `required_key` (a path from the
    message) have no reads, for example heartbeats and alarms. Entries that fail `condition` are not reads.
    """

    tag_path: Path | None = None
    tag_type: str = "rfid"
    tag_type_path: Path | None = None
    tag_encoding: str = "text"
    tag_prefix: str = ""
    epc_strip: tuple[str, ...] = ()
    uuid_path: Path | None = None
    major_path: Path | None = None
    minor_path: Path | None = None
    advertisement_path: Path | None = None
    company_data: CompanyData | None = None
    content_path: Path | None = None
    list_path: tuple[Path, ...] = ()
    required_key: Path | None = None
    condition: Path | None = None
    reader_path: Path | None = None
    antenna_path: Path | None = None
    rssi_path: Path | None = None
    time_path: Path | None = None
    time_unit: str = "iso"
    battery_path: Path | None = None
    volts_path: Path | None = None
    temperature_path: Path | None = None
    button_path: Path | None = None
    payload: str = "json"
    delimiter: str = ","
    columns: tuple[str, ...] = ()


_PATHS = [field.name for field in fields(Mapping) if field.type == f"{Path.__name__} | None"]
KEYS = tuple(Mapping.__dataclass_fields__)


def mapping_from(settings: dict[str, Any]) -> Mapping:
    """Parse a mapping. Raises ValueError with the key and instructions."""
    if not isinstance(settings, dict):
        raise ValueError(f'it is {describe(settings)}: write an object, for example {{"tag_path": "epc"}}')
    for key in settings:
        if key not in KEYS:
            raise ValueError(f"{key} is not a key of a mapping: write one of {', '.join(KEYS)}")
    paths = {key: path_from(key, settings.get(key)) for key in _PATHS}
    if not any(paths[key] for key in ("tag_path", "uuid_path", "advertisement_path")):
        raise ValueError("tag_path is missing: write the path of the tag in a read, for example epc")
    time_unit = settings.get("time_unit")
    if paths["time_path"] and time_unit is None:
        raise ValueError(f"time_unit is missing: write one of {_TIME_ADVICE}")
    has_tag = paths["tag_path"] is not None  # otherwise only beacons are possible
    return Mapping(
        **paths,
        tag_type=_choice("tag_type", settings.get("tag_type"), TAG_TYPES, "rfid" if has_tag else "ble"),
        tag_encoding=_choice("tag_encoding", settings.get("tag_encoding"), ENCODINGS, "text"),
        tag_prefix=_short("tag_prefix", settings.get("tag_prefix"), ""),
        epc_strip=_names("epc_strip", settings.get("epc_strip"), STRIPPABLE),
        company_data=_company(settings.get("company_data")),
        list_path=_lists(settings.get("list_path")),
        time_unit=_time_unit(time_unit),
        payload=_choice("payload", settings.get("payload"), KINDS, "json"),
        delimiter=_delimiter(settings.get("delimiter")),
        columns=_names("columns", settings.get("columns")),
    )


def _lists(written: object) -> tuple[Path, ...]:
    """Parse one path, or several for nested lists."""
    several = written if isinstance(written, list) else [written]
    if len(several) > _MOST_LISTS:
        raise ValueError(f"list_path has {len(several)} lists within each other: write {_MOST_LISTS} at most")
    paths = [path_from("list_path", path) for path in several]
    return tuple(path for path in paths if path)


def _time_unit(written: object) -> str:
    """Parse a unit, or a format such as `%d.%m.%Y %H:%M:%S`."""
    if isinstance(written, str) and "%" in written and len(written) <= _LONGEST_TEXT:
        codes = re.findall("%(.?)", written)
        if unknown := [code for code in codes if code not in _TIME_CODES]:
            raise ValueError(f"time_unit has %{unknown[0]}: write codes such as %Y-%m-%d %H:%M:%S.%f")
        if twice := next((code for code in codes if code != "%" and codes.count(code) > 1), ""):
            raise ValueError(f"time_unit has %{twice} twice: write each code once")
        return written
    if written is None or written == "" or written in TIME_UNITS:
        return str(written or "iso")
    raise ValueError(f"time_unit is {describe(written)}: write one of {_TIME_ADVICE}")


def _choice(key: str, written: object, choices: tuple[str, ...], default: str) -> str:
    if written is None or written == "":
        return default
    if isinstance(written, str) and written in choices:
        return written
    raise ValueError(f"{key} is {describe(written)}: write one of {', '.join(choices)}")


def _names(key: str, written: object, choices: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Parse a list of names, or a single name."""
    if written is None or written == "":
        return ()
    names = [written] if isinstance(written, str) else written
    advice = f"some of {', '.join(choices)}" if choices else "a list of names"
    if not isinstance(names, list) or len(names) > _MOST_NAMES or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{key} is {describe(written)}: write {advice}")
    if choices and not set(names) <= set(choices):
        raise ValueError(f"{key} has {', '.join(sorted(set(names) - set(choices)))}: write {advice}")
    return tuple(names)


def _short(key: str, written: object, default: str) -> str:
    if written is None or written == "":
        return default
    if isinstance(written, str) and len(written) <= _LONGEST_TEXT:
        return written
    raise ValueError(f"{key} is {describe(written)}: write a text of at most {_LONGEST_TEXT} characters")


def _delimiter(written: object) -> str:
    delimiter = "\t" if written == "\\t" else _short("delimiter", written, ",")
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise ValueError(f"delimiter is {describe(written)}: write the one character between two columns")
    return delimiter


def _company(written: object) -> CompanyData | None:
    if written is None or written == "":
        return None
    match = _COMPANY.fullmatch(written) if isinstance(written, str) else None
    if match is None:
        raise ValueError(f"company_data is {describe(written)}: write a company and which bytes, such as 0499[18:24]")
    company, start, end = match.groups()
    return CompanyData(int(company, 16), int(start or 0), int(end) if end else None)
