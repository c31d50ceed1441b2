"""Check of the outputs that rules switch."""

from __future__ import annotations

from edge.operations.doctor.findings import Finding, Subject, ok, some, warning
from edge.rules.outputs import outputs


def outputs_switch(_: Subject) -> Finding:
    troubles = outputs.troubles()
    if troubles:
        return warning(
            f"outputs cannot be switched: {some(troubles)}",
            "check the broker, and its ACL if edge does not write it; then: edge output test NAME",
        )
    number = len(outputs.all_outputs())
    return ok(f"all outputs can be switched ({number})" if number else "there are no outputs")
