"""Problem documents (RFC 9457) of EPCIS, with the types of the standard."""

from __future__ import annotations

from flask import Response

from edge.api import envelope
from edge.database.connection import domain_error
from edge.epcis.documents import VERSIONS
from edge.epcis.query import TooComplex, TooLarge
from edge.validation import json_text

_EXCEPTIONS = {
    400: "QueryParameterException",
    401: "SecurityException",
    403: "SecurityException",
    404: "NoSuchResourceException",
    413: "QueryTooLargeException",
    429: "QueryTooComplexException",
}


class Problem(Exception):
    """A refused request: status, type and title of the standard, and what to do."""

    def __init__(self, status: int, name: str, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.name, self.title, self.detail = status, name, title, detail

    @classmethod
    def parameter(cls, detail: str) -> Problem:
        return cls(400, "QueryParameterException", "EPCIS query exception", detail)

    @classmethod
    def not_acceptable(cls, detail: str) -> Problem:
        return cls(406, "NotAcceptableException", "Not acceptable", detail)


def answer(error: Exception) -> Response:
    """Return the response to a request that raised `error`."""
    if isinstance(error, TooLarge):
        error = Problem(413, "QueryTooLargeException", "Too many events", str(error))
    if isinstance(error, TooComplex):
        error = Problem(413, "QueryTooComplexException", "Query too complex", str(error))
    if isinstance(error, Problem):
        response = Response(status=error.status)
        name, title, detail = error.name, error.title, error.detail
    else:
        response = envelope.error_response(domain_error(error))
        shown = json_text.decode(response.get_data())["error"]
        name = _EXCEPTIONS.get(response.status_code, "ImplementationException")
        title, detail = shown["title"], shown["detail"]
    problem = {"type": f"epcisException:{name}", "title": title, "status": response.status_code, "detail": detail}
    response.set_data(json_text.encode(problem))
    response.headers.update({"Content-Type": "application/problem+json", "Cache-Control": "no-store", **VERSIONS})
    return response
