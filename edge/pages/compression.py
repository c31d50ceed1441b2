"""Compresses responses where the browser accepts it: a handheld's radio is slower than the box."""

from __future__ import annotations

import gzip

from flask import Response, request

WORTH_IT = 2000  # bytes


def compressed(content: bytes, mimetype: str) -> Response:
    """Only for content without secrets beside text that somebody else may choose: its length tells about both."""
    response = Response(content, mimetype=mimetype)
    response.headers["Vary"] = "Accept-Encoding"
    if len(content) > WORTH_IT and request.accept_encodings["gzip"] > 0:
        response.set_data(gzip.compress(content, 4))
        response.headers["Content-Encoding"] = "gzip"
    return response
