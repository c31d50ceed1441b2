"""Checks of what edge sends: notices to people, events to other programs, and commands to outputs."""

from __future__ import annotations

from collections.abc import Sequence

from edge.events import destinations
from edge.operations.doctor.findings import Finding, Subject, ok, some, warning
from edge.rules.channels import channels
from edge.rules.outputs import outputs


def channels_send(_: Subject) -> Finding:
    return _finding(
        channels.troubles(),
        ("people are not notified", "all channels work ({})", "there are no channels"),
        "correct the channel under Channels, or the mail server; then: edge channel test NAME",
        channels.all_channels(),
    )


def events_delivered(_: Subject) -> Finding:
    return _finding(
        destinations.troubles(),
        ("events are not accepted", "{} event destinations, all working", "0 event destinations, all working"),
        "fix the receiver; then: edge events test NAME, and edge events enable NAME",
        destinations.all_destinations(),
    )


def outputs_switch(_: Subject) -> Finding:
    return _finding(
        outputs.troubles(),
        ("outputs cannot be switched", "all outputs can be switched ({})", "there are no outputs"),
        "check the broker, and its ACL if edge does not write it; then: edge output test NAME",
        outputs.all_outputs(),
    )


def _finding(troubles: list[str], texts: tuple[str, str, str], advice: str, rows: Sequence[object]) -> Finding:
    """Return the finding for the names in `troubles`. `texts`: of the fault, of working rows, and of none."""
    fault, working, none = texts
    if troubles:
        return warning(f"{fault}: {some(troubles)}", advice)
    return ok(working.format(len(rows)) if rows else none)
