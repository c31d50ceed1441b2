"""For schemathesis: what fits the document may be refused for a reason no schema can express, and for no other."""

from __future__ import annotations

from typing import Any

import schemathesis

from edge.api.operations import FORM
from edge.validation.bodies import ASSET_PATCH, LOCATION_PATCH

# Two parameters that exclude each other, a reference to a record that is not there, a window that ends too early, and
# the instants that stand for "no time".
REASONS = ("ambiguous_fields", "fk_not_found")
MESSAGES = ("valid_to must be later than valid_from", "must not be a zero time")


@schemathesis.hook
def before_load_schema(_: Any, raw_schema: dict[str, Any]) -> None:
    """A random echo always differs from the record: none is sent, so that a PATCH that fits the document is taken."""
    for patch in (ASSET_PATCH, LOCATION_PATCH):
        properties = raw_schema["components"]["schemas"][patch.name]["properties"]
        for field in patch.fields.values():
            if field.compare:
                properties[field.name]["readOnly"] = True


@schemathesis.check
def refused_for_an_expressible_reason(_: Any, response: Any, case: Any) -> None:
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    found = response.json()["error"]
    for fault in found.get("fields", [{"code": found["type"], "message": found["detail"]}]):
        # A form may lack what the header holds, and a blank value counts as absent (RFC 6749, 2.3.1 and 3.2).
        is_credential = case.media_type == FORM and fault["code"] == "required"
        known = is_credential or fault["code"] in REASONS or any(message in fault["message"] for message in MESSAGES)
        assert known, f"a request that fits the document was refused: {fault}"
