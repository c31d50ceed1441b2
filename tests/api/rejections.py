"""For schemathesis: what fits the document may be refused for a reason no schema can express, and for no other."""

from __future__ import annotations

from typing import Any

import schemathesis

# Two parameters that exclude each other, a reference to a record that is not there, a window that ends too early, and
# the instants that stand for "no time".
REASONS = ("ambiguous_fields", "fk_not_found")
MESSAGES = ("valid_to must be later than valid_from", "must not be a zero time")


@schemathesis.check
def refused_for_an_expressible_reason(_: Any, response: Any, case: Any) -> None:
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    found = response.json()["error"]
    for fault in found.get("fields", [{"code": found["type"], "message": found["detail"]}]):
        known = fault["code"] in REASONS or any(message in fault["message"] for message in MESSAGES)
        assert known, f"a request that fits the document was refused: {fault}"
