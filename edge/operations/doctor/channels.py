"""Check of the channels that notify people."""

from __future__ import annotations

from edge.operations.doctor.findings import Finding, Subject, ok, some, warning
from edge.rules.channels import channels


def channels_send(_: Subject) -> Finding:
    troubles = channels.troubles()
    if troubles:
        return warning(
            f"people are not notified: {some(troubles)}",
            "correct the channel under Channels, or the mail server; then: edge channel test NAME",
        )
    number = len(channels.all_channels())
    return ok(f"all channels work ({number})" if number else "there are no channels")
