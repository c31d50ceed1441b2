"""Badges scanned on the scan page. A badge number is never recorded, not even as an unknown tag.

Handhelds recognize most badges by their marks, see `people.passwords`, and ask before storing such a code.
"""

from __future__ import annotations

from typing import Any

from flask import Response, abort, jsonify

from edge.pages.forms import json_object
from edge.pages.guard import current_session, operators, organization_id
from edge.people import passwords, people
from edge.rate_limits import Buckets
from edge.records import lookup

# Limit per session, which prevents guessing badge numbers. Beyond it, codes are treated as unknown tags.
_answers = Buckets(burst=100, per_second=1 / 10)


def marks() -> dict[str, Any]:
    """Return what handhelds know of badges. Only `epcs` are marks of badges that may look like the EPC of a tag."""
    marks = people.badge_marks(organization_id())
    marks_of_epcs = sorted({mark % 1024 for mark in marks if mark < 2048})
    return {
        "salt": passwords.badge_mark_salt(),
        "marks": sorted({mark % 1024 for mark in marks}),
        "epcs": marks_of_epcs,
    }


@operators.post("/scan/badge")
def scan_badge() -> Response:
    """Answer whether the code is the badge of a person in the organization, and of whom."""
    code = json_object().get("code")
    if not isinstance(code, str):
        abort(400, "code: the code that was scanned")
    if not may_answer():
        response = jsonify(error="Too many unknown codes")
        response.status_code = 429
        return response
    owner = owner_of(organization_id(), code)
    return jsonify(badge=owner is not None, person=owner)


def owner_of(organization_id: int, code: str) -> int | None:
    """Return the person with this badge who may sign in; None for a code that names an asset or a location."""
    if lookup.by_code(organization_id, code) is not None:
        return None
    person = people.find_by_badge(organization_id, passwords.hash_badge(code))
    if person is None:
        return None
    people.set_badge_mark(person, passwords.badge_mark(code))
    return person.id


def may_answer() -> bool:
    session = current_session()
    return _answers.take(f"{session.device_id}:{session.person_id}").allowed
