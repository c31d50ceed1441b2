"""Types of settings. Each function converts a raw value, or raises ValueError with the expected format."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from edge import clock
from edge.texts import N_, fill


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a text")
    return value


def whole(low: int, high: int) -> Callable[[Any], int]:
    def cast(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, int | str) and not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            raise ValueError(fill(N_("a whole number from %(low)s to %(high)s"), low=low, high=high))
        return number

    return cast


def flag(value: Any) -> bool:
    if value in (True, "true"):
        return True
    if value in (False, "false"):
        return False
    raise ValueError(fill(N_("true or false")))


def path(value: Any) -> Path:
    try:
        return Path(text(value)).expanduser()
    except RuntimeError as error:
        raise ValueError("a path; the user after ~ does not exist on this box") from error


def optional_path(value: Any) -> Path | None:
    return path(value) if value else None


def address(value: Any) -> str:
    host, separator, port = text(value).rpartition(":")
    if not (separator and host and port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueError('an address and a port, for example "0.0.0.0:8080"')
    return value  # type: ignore[no-any-return]


def broker(value: Any) -> str:
    written = text(value)
    if written == "embedded":
        return written
    url = _url(written, "mqtt", "mqtts")
    if url is None:
        raise ValueError('"embedded", or an address like "mqtt://user@host:1883" or "mqtts://user@host:8883"')
    if url.password:
        raise ValueError("an address without a password; store the password in a file and set mqtt.password_file")
    return written


def _url(written: str, *schemes: str) -> SplitResult | None:
    """Split a URL with one of these schemes and a host; return None for anything else."""
    try:
        url = urlsplit(written)
        is_port = url.port != 0
    except ValueError:
        return None
    return url if url.scheme in schemes and url.hostname and is_port else None


def log_server(value: Any) -> str:
    written = text(value)
    if written and _url(written, "tcp", "tls") is None:
        raise ValueError('an address like "tls://logs.example:6514" or "tcp://192.168.1.9:601"')
    return written


def recipient(value: Any) -> str:
    written = text(value)
    if written and not re.fullmatch("age1[0-9a-z]{58}", written):
        raise ValueError("a public key of age, age1… with 62 characters; edge backup-key makes one")
    return written


def texts(value: Any) -> tuple[str, ...]:
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) and item for item in items):
        raise ValueError('a list of texts, for example ["a", "b"]')
    return tuple(items)


def networks(value: Any) -> tuple[str, ...]:
    items = texts(value)
    try:
        return tuple(str(ip_network(item)) for item in items)
    except ValueError as error:
        raise ValueError('a list of networks, for example ["192.168.1.0/24"]') from error


def ports(value: Any) -> tuple[str, ...]:
    """Return ports and ranges of ports, such as 9100-9109, as texts."""
    items = texts(value)
    for item in items:
        first, _, last = item.partition("-")
        if not all(one.isascii() and one.isdigit() and len(one) <= 5 for one in (first, last or first)):
            raise ValueError('a list of ports and ranges, for example ["6101", "9100-9109"]')
        if not 0 < int(first) <= int(last or first) <= 65535:
            raise ValueError("ports from 1 to 65535, the lower one of a range first")
    return items


def public_url(value: Any) -> str:
    written = text(value)
    url = _url(written, "http", "https")
    if written and (url is None or url.query or url.fragment):
        raise ValueError(fill(N_('an address like "http://edge.warehouse.example:8080"')))
    return written.rstrip("/")


def contact(value: Any) -> str:
    written = text(value)
    if re.fullmatch(r"[^\s@:/]+@[^\s@:/]+", written):
        return f"mailto:{written}"
    if written and not re.fullmatch(r"(https://|mailto:|tel:)[!-~]+", written):
        raise ValueError(fill(N_("an email address, or an address that begins with https://, mailto: or tel:")))
    return written


def day(value: Any) -> str:
    written = str(value) if isinstance(value, str | date) else ""
    try:
        if written or value != "":
            date.fromisoformat(written)
    except ValueError:
        raise ValueError(fill(N_("a date like 2029-12-31"))) from None
    return written


def time_zone(value: Any) -> str:
    written = text(value)
    if written and not clock.is_zone(written):
        raise ValueError(fill(N_('a time zone, for example "Europe/Berlin"; timedatectl list-timezones lists them')))
    return written


@dataclass(frozen=True)
class OneOf:
    """Cast of a setting with a fixed list of values."""

    choices: tuple[str, ...]

    def __call__(self, value: Any) -> str:
        if value not in self.choices:
            raise ValueError(fill(N_("one of %(values)s"), values=", ".join(self.choices)))
        return value  # type: ignore[no-any-return]


def word(*choices: str) -> OneOf:
    return OneOf(choices)


def choices_of(cast: Callable[[Any], Any]) -> tuple[str, ...]:
    """Return all values that a cast accepts, or () if it accepts free text."""
    if cast is flag:
        return ("true", "false")
    return cast.choices if isinstance(cast, OneOf) else ()
