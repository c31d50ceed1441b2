"""Explains an asset's position: the evidence for it and for the last moves, as far as it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from edge import clock
from edge.clock import SECOND
from edge.database.connection import execute, reading
from edge.texts import N_, fill
from edge.tracking import recent_reads, report
from edge.tracking.decision_rule import Lead, Rule, decided_from, held_back, last_at, lead, settles
from edge.tracking.portal_rule import is_stray
from edge.tracking.report import DecidedStay
from edge.tracking.retrace import first_from, since_of
from edge.tracking.signal_strength import LOOKS, Detection
from edge.tracking.signs import ReaderOutages

MOVES = 5
EXPLANATIONS = {
    Rule.EVERY_READ: N_("it was read there; every read counts, or this one arrived too late to be compared"),
    Rule.FIRST: N_("it was read there for the first time"),
    Rule.STRONGER: N_("it was read there more strongly than at the previous location for long enough"),
    Rule.SILENT: N_("it was read there and no longer at the previous location"),
    Rule.PORTAL: N_("it passed a portal"),
    Rule.DIRECT: N_("it was read as a barcode or by a direct antenna"),
    Rule.AGAIN: N_("it was read there again after a pause"),
    Rule.NEW: N_("it was read there as strongly as at the previous location, which missed its expected read"),
    Rule.PERSON: N_("a person scanned it there"),
    Rule.SETTLED: N_("it was read there last and no longer at the previous location, although that reader was online"),
}
BY_SLED = N_("the sled %(sled)s read it there: the location that its operator had chosen")
LATE = 10 * SECOND  # reported as late from this delay on
LOOKED_BACK = 300 * SECOND  # before the explained row; rarer reads do not compete


class Competitor(NamedTuple):
    """A location that read the asset in the window: number of seconds, strength (dBm) and last read.

    `name` is empty if the location is deleted.

    `collected` is its lead over the asset's location, in dB; it wins with `needed`. None for the asset's location
    itself, and if that no longer competes.
    """

    location_id: int
    name: str
    seconds: int
    strongest: float | None
    average: float | None
    last_at: int
    is_here: bool
    collected: float | None
    needed: float


class Reason(NamedTuple):
    """A row of history: its begin, location and rule, and the evidence at the time.

    `by` is the reader with its antenna; `delay` is the delay of its receipt. `sled`: a person scanned with it.
    """

    at: int
    location_id: int
    location_name: str
    rule: Rule
    competitors: Sequence[Competitor]
    by: str | None = None
    delay: int = 0
    sled: str | None = None

    @property
    def text(self) -> str:
        explanation = fill(BY_SLED, sled=self.sled) if self.sled else fill(EXPLANATIONS[self.rule])
        source: str | None = self.by
        if self.delay >= LATE:
            late = fill(N_("reported %(seconds)s s late"), seconds=self.delay // SECOND)
            source = fill("%(by)s, %(late)s", by=self.by, late=late) if self.by else late
        return fill("%(explanation)s (%(source)s)", explanation=explanation, source=source) if source else explanation

    def is_winner(self, one: Competitor) -> bool:
        """Return True if the asset moved there for a reason other than the lead."""
        return one.location_id == self.location_id and not one.is_here and self.rule is not Rule.STRONGER


class Waiting(NamedTuple):
    """A held read: it counts `seconds` later if there are no further reads."""

    name: str
    at: int
    seconds: int
    is_out: bool  # the reader of the current location is out, so its silence decides nothing

    @property
    def text(self) -> str:
        counts = fill(
            N_("it counts if the reader at the current location misses the asset for another %(seconds)s s"),
            seconds=self.seconds,
        )
        if not self.is_out:
            return counts
        return fill(N_("%(counts)s; that reader is sending nothing at all, so this proves nothing"), counts=counts)


class Why(NamedTuple):
    """Evidence for a position. `now` is the present evidence, `reasons` explain the last stays.

    `held_back` are locations that lead but have not won, `waiting` is the held read, `rejected` are the portals with
    stray reads. `site` is the site of a hub that read the asset; its evidence stays there.
    """

    reasons: Sequence[Reason]  # newest first
    now: Sequence[Competitor]
    site: str | None = None
    waiting: Waiting | None = None
    rejected: Sequence[str] = ()

    @property
    def held_back(self) -> list[Competitor]:
        return [one for one in self.now if not one.is_here and (one.collected or 0) > 0]

    @property
    def missing_text(self) -> str:
        """Explanation for an empty `now`."""
        if self.site is not None:
            return fill(N_("The compared reads are kept at %(site)s only"), site=self.site)
        return N_("Compared reads are kept for a few minutes only, and no antenna has read the asset since")


def why_here(organization_id: int, asset_id: int) -> Why | None:
    """Explain the position of an asset, from its newest track; None if it was never seen."""
    with reading():
        rows = report.decided_stays(organization_id, asset_id, MOVES + 1)
        if not rows:
            return None
        oldest = rows[min(MOVES, len(rows)) - 1].at
        recent = recent_reads.load({asset_id}, oldest - LOOKED_BACK).get(asset_id)
        detections = recent.detections if recent else []
        readers = ReaderOutages(asset_id, recent_reads.load_readers(), recent_reads.load_signs())
        names = dict(execute(_NAMES, (organization_id,)))
    reasons = []
    for row, before in zip(rows[:MOVES], [*rows[1:], None], strict=False):
        end = _decided(detections, row, before, readers)
        weighed = _weigh(detections[:end], before, names, readers)
        reasons.append(Reason(row.at, row.location_id, row.name, Rule(row.rule), weighed, row.by, row.delay, row.sled))
    now = _weigh(detections, rows[0], names, readers)
    return Why(
        reasons, now, rows[0].site, _waiting(detections, rows[0], names, readers), _rejected(detections, rows[0], names)
    )


def _decided(
    detections: Sequence[Detection], row: DecidedStay, before: DecidedStay | None, readers: ReaderOutages
) -> int:
    """Return the end of the detections that decided a row: a move is decided some seconds after it began."""
    end = first_from(detections, row.at // SECOND + 1)
    if not end or detections[end - 1].second != row.at // SECOND:
        return 0
    if before is None or row.rule not in (Rule.STRONGER, Rule.SILENT):
        return end
    until = end
    for _ in range(LOOKS):
        collected, needed = lead(
            detections, until, before.location_id, row.location_id, since_of(before.at, before.rule), readers
        )
        if collected is None or collected >= needed:
            return until
        if until == len(detections):
            break
        until = first_from(detections, detections[until].second + 1)
    return end


def _waiting(
    detections: Sequence[Detection], here: DecidedStay, names: dict[int, str], readers: ReaderOutages
) -> Waiting | None:
    since = since_of(here.at, here.rule)
    one = held_back(detections, len(detections), here.location_id, since) if detections else None
    if one is None or one.last_at <= here.at:
        return None
    due, _ = settles(detections, len(detections), here.location_id, one, 0, readers, None)
    last = last_at(detections, len(detections), here.location_id)
    is_out = last is not None and bool(readers.outages(last.source_no, one.second, clock.now() // SECOND))
    return Waiting(names.get(one.location_id, ""), one.last_at, due - one.second, is_out)


def _rejected(detections: Sequence[Detection], here: DecidedStay, names: dict[int, str]) -> list[str]:
    first = decided_from(detections, len(detections))
    strays = {
        detections[at].location_id for at in range(first, len(detections)) if is_stray(detections, at, here.location_id)
    }
    return sorted(names.get(location_id, "") for location_id in strays)


def _weigh(
    detections: Sequence[Detection], here: DecidedStay | None, names: dict[int, str], readers: ReaderOutages
) -> list[Competitor]:
    """Return the locations that read the asset in the last looks: its own first, then those with most reads."""
    if not detections:
        return []
    by_location: dict[int, list[Detection]] = {}
    for one in detections[decided_from(detections, len(detections)) :]:
        by_location.setdefault(one.location_id, []).append(one)
    competitors = []
    for location_id, times in by_location.items():
        known = [one.strongest for one in times if one.strongest is not None]
        is_here = here is not None and location_id == here.location_id
        ahead = Lead(None, 0.0)
        if here and not is_here:
            ahead = lead(
                detections, len(detections), here.location_id, location_id, since_of(here.at, here.rule), readers
            )
        competitors.append(
            Competitor(
                location_id,
                names.get(location_id, ""),
                len(times),
                max(known, default=None),
                sum(known) / len(known) if known else None,
                max(one.last_at for one in times),
                is_here,
                *ahead,
            )
        )
    return sorted(competitors, key=lambda one: (not one.is_here, -one.seconds, one.location_id))


_NAMES = "SELECT id, name FROM location WHERE organization_id = ?"
