"""The table of API operations, filled by the resource modules.

Routes, request checks and the OpenAPI document are all generated from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
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
_ANSWER_NAMES = {
    "createToken": "Token",
    "listAssetHistory": "AssetHistory",
    "listAssetLocations": "AssetLocations",
}


class Call(NamedTuple):
    """The checked and parsed values of one request."""

    principal: Principal
    path: Mapping[str, int]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    record_id: int  # the first one in the path
    idempotent: idempotency.Create | None = None

    @property
    def organization_id(self) -> int:
        return self.principal.organization_id

    @property
    def actor(self) -> Actor:
        """The actor that writing functions record in the audit log."""
        return self.principal.actor


@dataclass(frozen=True)
class Operation:
    """One method on one path.

    `answer` names the schema of a successful response, a key of `schemas.ANSWERS`. `errors` are the error statuses in
    addition to those of every operation.
    """

    method: str
    path: str
    name: str
    handler: Callable[[Call], Response]
    summary: str
    tag: str
    scope: str | None
    query: Query
    body: Body | None
    status: int
    answer: str | None
    errors: tuple[int, ...]
    is_open: bool
    is_api_key_only: bool
    sunset: datetime | None = None
    path_names: tuple[str, ...] = field(default=())
    is_form_allowed: bool = False
    description: str = ""
    max_body: int | None = None

    @property
    def id(self) -> str:
        """Name in the document, such as `listAssets`."""
        first, *rest = self.name.split("_")
        return first + "".join(map(str.title, rest))

    @property
    def answer_name(self) -> str:
        """Schema of a successful response in the document, such as `ListAssetsResponse`."""
        name = _ANSWER_NAMES.get(self.id) or self.id[0].upper() + self.id[1:]
        return f"{name}Response"

    @cached_property
    def is_create(self) -> bool:
        return self.status == 201

    @cached_property
    def media_types(self) -> tuple[str, ...]:
        """Accepted media types of the request body, the default first."""
        if self.body is None:
            return ()
        usual = MERGE_PATCH if self.method == "PATCH" else JSON
        return (usual, FORM) if self.is_form_allowed else (usual,)


OPERATIONS: list[Operation] = []


def operation(
    method: str,
    path: str,
    *,
    tag: str,
    name: str = "",
    summary: str = "",
    answer: str | None = None,
    scope: str | None = None,
    takes: Query = query.NOTHING,
    body: Body | None = None,
    status: int = 200,
    errors: tuple[int, ...] = (),
    is_open: bool = False,
    is_api_key_only: bool = False,
    sunset: datetime | None = None,
    is_form_allowed: bool = False,
    max_body: int | None = None,
    into: list[Operation] = OPERATIONS,
) -> Callable[[Callable[[Call], Response]], Callable[[Call], Response]]:
    """Register a handler as an operation.

    `name` and `summary` default to the name and docstring of the function; the second paragraph of the docstring is the
    description in the OpenAPI document.
    `is_open` operations need no token, `is_api_key_only` ones refuse session tokens, `is_form_allowed` ones also
    accept a form as the body. `max_body`: bytes, if less than usual. An operation with `sunset` announces it
    and answers 410 afterwards (interface: Versioning 5).
    """

    def declare(handler: Callable[[Call], Response]) -> Callable[[Call], Response]:
        names = tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))
        about = summary or handler.__doc__ or ""
        first, _, description = (" ".join(part.split()) for part in about.partition("\n\n"))
        into.append(
            Operation(
                *(method, path, name or handler.__name__, handler, first, tag, scope, takes, body, status, answer),
                *(errors, is_open, is_api_key_only, sunset, names, is_form_allowed, description, max_body),
            )
        )
        return handler

    return declare
