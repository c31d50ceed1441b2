"""Form-encoded bodies, parsed as strictly as JSON (RFC 6749, 3.2 and appendix B)."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qsl

from edge.errors import Unreadable

MAX_FIELDS = 100


def parse(body: bytes, known: Collection[str]) -> dict[str, str]:
    """Return the known fields that have a value; unknown fields are ignored. Raises Unreadable."""
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError as error:
        raise Unreadable("The body is not a valid form: encode non-ASCII characters as %XX in UTF-8") from error
    except ValueError as error:
        raise Unreadable(f"The form has more than {MAX_FIELDS} fields") from error
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name not in known or not value:
            continue
        if name in fields:
            raise Unreadable(f"The form has {name} twice")
        fields[name] = value
    return fields
