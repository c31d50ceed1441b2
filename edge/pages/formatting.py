"""Formats times, durations and numbers for pages."""

from __future__ import annotations

from contextlib import suppress

from markupsafe import Markup

from edge import clock
from edge.operations.doctor.checks import CHECKS
from edge.pages.translation import gettext, language, localized
from edge.services import services
from edge.texts import N_

ROLES = {
    "administrator": N_("Administrator"),
    "editor": N_("Editor"),
    "operator": N_("Operator"),
    "viewer": N_("Viewer"),
}


ISO_DATE = "%Y-%m-%d"
_DATES = {"de": "%d.%m.%Y", "es": "%d/%m/%Y", "fr": "%d/%m/%Y", "pl": "%d.%m.%Y"}

WORTH_SHOWING = 10 * 60 * clock.SECOND  # same value in `times.js`


def duration(seconds: int) -> str:
    """Format with the two largest units: `3 d 4 h`, `12 min`, `8 s`."""
    seconds = max(seconds, 0)
    for size, unit, small_size, small_unit in (
        (86400, gettext("d"), 3600, gettext("h")),
        (3600, gettext("h"), 60, "min"),
    ):
        if seconds >= size:
            rest = seconds % size // small_size
            return f"{seconds // size} {unit} {rest} {small_unit}" if rest else f"{seconds // size} {unit}"
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"


def micros_duration(micros: int) -> str:
    return duration(micros // clock.SECOND)


def ago(micros: int) -> str:
    seconds = (clock.now() - micros) // clock.SECOND
    if seconds < -5:
        return gettext("in {duration}").format(duration=duration(-seconds))
    return gettext("just now") if seconds < 5 else gettext("{duration} ago").format(duration=duration(seconds))


def when(micros: int | None, otherwise: str = "") -> Markup:
    """Format the time since a moment. The browser keeps it current."""
    if micros is None:
        return Markup('<span class="quiet">{}</span>').format(otherwise or gettext("never"))
    exact = clock.rfc3339(micros)
    return Markup('<time datetime="{}" data-ago title="{}">{}</time>').format(exact, moment(micros), ago(micros))


def unseen(micros: int | None) -> Markup:
    """Format the time since an asset was seen, or nothing if it is recent."""
    if micros is None:
        return Markup('<span class="quiet">{}</span>').format(gettext("never seen"))
    is_worth_showing = clock.now() - micros >= WORTH_SHOWING
    text = micros_duration(clock.now() - micros) if is_worth_showing else ""
    return Markup('<time datetime="{}" data-unseen>{}</time>').format(clock.rfc3339(micros), text)


def at(micros: int | None, otherwise: str = "", *, seconds: bool = False) -> Markup:
    """Format date and time in the time zone of the site; with `seconds` for events close together."""
    if micros is None:
        return Markup('<span class="quiet">{}</span>').format(otherwise or gettext("never"))
    precision = "seconds" if seconds else ""
    shown = moment(micros)
    return Markup('<time datetime="{}" data-at="{}">{}</time>').format(clock.rfc3339(micros), precision, shown)


def moment(micros: int) -> str:
    """Format as `2026-03-02 08:15`, or as usual in the language of the page, in the time zone of the site."""
    return _local(micros, f"{date_pattern()} %H:%M")


def day(micros: int) -> str:
    """Format as `2026-03-02`, or as usual in the language of the page, in the time zone of the site."""
    return _local(micros, date_pattern())


def day_of_form(micros: int) -> str:
    """Format as `2026-03-02` for a form field, in the time zone of the site."""
    return _local(micros, ISO_DATE)


def date_pattern() -> str:
    """Return the format of dates in the language of the page, as for `strftime`."""
    return _DATES.get(language(), ISO_DATE)


def _local(micros: int, pattern: str) -> str:
    shown = clock.to_datetime(micros)
    with suppress(OverflowError):  # at the limits of the calendar only UTC can be shown
        shown = shown.astimezone(services().zone)
    return shown.strftime(pattern.replace("%Y", f"{shown.year:04}"))


def lasting(since: int) -> Markup:
    """Format a duration that the browser continues to count."""
    exact = clock.rfc3339(since)
    text = micros_duration(clock.now() - since)
    return Markup('<time datetime="{}" data-lasting>{}</time>').format(exact, text)


def count(number: float) -> str:
    """Format as `12,345`, or as usual in the language of the page. Integral floats have no decimals."""
    return localized(f"{int(number) if number == int(number) else number:,}")


def rate(number: float) -> str:
    """Format a number per minute as a whole number; `<1` if it is less than one but not zero."""
    return "<1" if 0 < number < 1 else count(round(number))


def size(octets: int) -> str:
    """Format as `1.5 GB`, in French as `1,5 Go`."""
    value, unit = float(octets), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    shown = localized(f"{value:.0f}" if unit in ("B", "kB") else f"{value:.1f}")
    return f"{shown} {unit.replace('B', 'o') if language() == 'fr' else unit}"


def clock_offset(micros: int) -> str:
    """Format as `+3.2 s`; positive means fast."""
    return localized(f"{micros / clock.SECOND:+.1f} s")


def plural(number: int, one: str, many: str = "") -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def check_name(name: str) -> str:
    """Return the name of a check for people. A newer release may have a check that this one does not know."""
    return gettext(CHECKS[name].name) if name in CHECKS else name
