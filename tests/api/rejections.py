"""A schemathesis check: valid requests may be refused only for reasons that a schema cannot express."""

from __future__ import annotations

from typing import Any

import schemathesis

from edge.api.operations import FORM
from edge.validation.bodies import ASSET_PATCH, LOCATION_PATCH

# Two parameters that exclude each other, a reference to a missing record, a window that ends too early, and
# the instants that mean "no time".
REASONS = ("ambiguous_fields", "fk_not_found")
MESSAGES = ("valid_to must be later than valid_from", "must not be a zero time")


@schemathesis.hook
def before_load_schema(_: Any, raw_schema: dict[str, Any]) -> None:
    """Remove random read-only fields from PATCH bodies, because they always differ from the record."""
    for patch in (ASSET_PATCH, LOCATION_PATCH):
        properties = raw_schema["components"]["schemas"][patch.name]["properties"]
        for field in patch.fields.values():
            if field.compare:
                properties[field.name]["readOnly"] = True


@schemathesis.check
def refused_for_an_expressible_reason(_: Any, response: Any, case: Any) -> None:
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    error = response.json()["error"]
    for fault in error.get("fields", [{"code": error["type"], "message": error["detail"]}]):
        # Credentials may be in the header instead of the form; blank values count as absent (RFC 6749, 2.3.1 and 3.2).
        is_credential = case.media_type == FORM and fault["code"] == "required"
        known = is_credential or fault["code"] in REASONS or any(message in fault["message"] for message in MESSAGES)
        assert known, f"a request that fits the document was refused: {fault}"
