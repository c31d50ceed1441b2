"""Fragments of pages that browsers poll. An unchanged fragment answers 304.

Polling occupies no thread between requests; a stream would occupy one for each viewer.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from flask import Response, make_response, render_template, request

from edge.pages.translation import language


def version_of(content: object) -> str:
    data = content if isinstance(content, bytes) else repr(content).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=12).hexdigest()


def fragment(template: str, content: object, **values: Any) -> Response:
    """Render a fragment. While `content` and the language are unchanged, answer 304 and render nothing."""
    version = version_of((language(), content))
    if request.if_none_match.contains(version):
        response = Response(status=304)
    else:
        response = make_response(render_template(template, **values))
    response.set_etag(version)
    response.headers["Cache-Control"] = "private, no-cache"
    return response
