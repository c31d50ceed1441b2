"""A form that came after its session had ended is kept on the way through the sign-in, and can then be sent again."""

from __future__ import annotations

from typing import NamedTuple

import orjson
from flask import request

# What is never carried through another page.
SECRETS = {"csrf", "password", "again", "present", "pin", "badge", "code", "recovery"}
LONGEST = 100_000  # characters


class KeptForm(NamedTuple):
    path: str
    fields: list[tuple[str, str]]


def keep() -> str:
    """The form of this request, as text for a hidden field; empty where it is none of ours or too large.

    Only what a page of this site sent is kept: another site must not put words into somebody's mouth.
    """
    if not _is_from_here() or request.files:
        return ""
    fields = [(name, value) for name, value in request.form.items(multi=True) if name not in SECRETS]
    text = orjson.dumps([request.path, fields]).decode()
    return text if len(text) <= LONGEST else ""


def kept(text: str) -> KeptForm | None:
    """What `keep` wrote; None for anything else."""
    try:
        path, fields = orjson.loads(text)
        form = KeptForm(path, [(name, value) for name, value in fields])
    except (ValueError, TypeError):
        return None
    is_ours = isinstance(path, str) and path.startswith("/") and not path.startswith(("//", "/\\", "/sign-"))
    return form if is_ours and all(isinstance(part, str) for pair in form.fields for part in pair) else None


def _is_from_here() -> bool:
    return request.headers.get("Origin") in (f"http://{request.host}", f"https://{request.host}")
