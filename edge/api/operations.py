"""What the API offers: one table of operations, filled by the resource modules.

The routes, the checks of every request and the OpenAPI document are all made from it, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from flask import Response

from edge.audit.actors import Actor
from edge.people.tokens import Principal
from edge.records import idempotency
from edge.validation import query
from edge.validation.body import Body
from edge.validation.query import Query

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
FORM = "application/x-www-form-urlencoded"


class Call(NamedTuple):
    """One request, checked as its operation declares; everything in it is a plain value."""

    principal: Principal
    path: Mapping[str, int]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    idempotent: idempotency.Create | None = None

    @property
    def organization_id(self) -> int:
        return self.principal.organization_id

    @property
    def actor(self) -> Actor:
        """Who makes the change, for the functions that write."""
        return self.principal.actor


@dataclass(frozen=True)
class Operation:
    """One method on one path. `answer` names the schema of the body on success; `errors` are its own statuses."""

    method: str
    path: str
    handler: Callable[[Call], Response]
    about: str
    tag: str
    scope: str | None
    query: Query
    body: Body | None
    status: int
    answer: str | None
    errors: tuple[int, ...]
    is_open: bool
    keys_only: bool
    sunset: datetime | None = None
    path_names: tuple[str, ...] = field(default=())
    takes_form: bool = False
    more: str = ""

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def creates(self) -> bool:
        return self.status == 201

    @property
    def media_types(self) -> tuple[str, ...]:
        """Of the request's body; the first is the usual one."""
        if self.body is None:
            return ()
        usual = MERGE_PATCH if self.method == "PATCH" else JSON
        return (usual, FORM) if self.takes_form else (usual,)


OPERATIONS: list[Operation] = []


def operation(
    method: str,
    path: str,
    *,
    tag: str,
    answer: str | None = None,
    scope: str | None = None,
    takes: Query = query.NOTHING,
    body: Body | None = None,
    status: int = 200,
    errors: tuple[int, ...] = (),
    is_open: bool = False,
    keys_only: bool = False,
    sunset: datetime | None = None,
    takes_form: bool = False,
    into: list[Operation] = OPERATIONS,
) -> Callable[[Callable[[Call], Response]], Callable[[Call], Response]]:
    """Declare a handler. Its docstring is the summary and, after a blank line, the description in the document.

    `is_open` needs no token, `keys_only` refuses session tokens, `takes_form` also accepts a form as the body. With
    `sunset` the operation is deprecated: it says so until then and answers 410 afterwards (spec: Versioning 5).
    """

    def declare(handler: Callable[[Call], Response]) -> Callable[[Call], Response]:
        names = tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))
        about, _, more = (" ".join(part.split()) for part in (handler.__doc__ or "").partition("\n\n"))
        into.append(
            Operation(
                *(method, path, handler, about, tag, scope, takes, body, status, answer, errors, is_open, keys_only),
                *(sunset, names, takes_form, more),
            )
        )
        return handler

    return declare
