"""Keeps a form that was submitted after the session expired, to submit it again after sign-in."""

from __future__ import annotations

from typing import NamedTuple

from flask import request

from edge.validation import json_text

# Fields that are never kept.
SECRETS = {"csrf", "password", "again", "present", "pin", "badge", "code", "recovery"}
LONGEST = 100_000  # characters


class KeptForm(NamedTuple):
    path: str
    fields: list[tuple[str, str]]


def keep() -> str:
    """Return the form of this request as text for a hidden field, "" if it is not from this site or too large.

    Forms of other sites are not kept, because the user would submit their content.
    """
    if not _is_from_here() or request.files:
        return ""
    fields = [(name, value) for name, value in request.form.items(multi=True) if name not in SECRETS]
    text = json_text.text([request.path, fields])
    return text if len(text) <= LONGEST else ""


def kept(text: str) -> KeptForm | None:
    """Parse the text written by `keep`. None for anything else."""
    try:
        path, fields = json_text.decode(text)
        form = KeptForm(path, [(name, value) for name, value in fields])
    except (ValueError, TypeError):
        return None
    is_ours = isinstance(path, str) and path.startswith("/") and not path.startswith(("//", "/\\", "/sign-"))
    return form if is_ours and all(isinstance(part, str) for pair in form.fields for part in pair) else None


def _is_from_here() -> bool:
    return request.headers.get("Origin") in (f"http://{request.host}", f"https://{request.host}")
