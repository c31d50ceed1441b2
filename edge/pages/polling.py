"""Parts of a page that poll for updates: the fragment, or 304 while it has not changed.

Polling holds no thread between two questions, where a stream would hold one of a few for each viewer.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from flask import Response, make_response, render_template, request


def version_of(content: object) -> str:
    return blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def fragment(template: str, content: object, **values: Any) -> Response:
    """`content` are what the fragment is made of; while they are equal it is not even rendered."""
    version = version_of(content)
    if request.if_none_match.contains(version):
        response = Response(status=304)
    else:
        response = make_response(render_template(template, **values))
    response.set_etag(version)
    response.headers["Cache-Control"] = "no-cache"
    return response
