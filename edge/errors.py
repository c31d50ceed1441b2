"""Exceptions for everything that can go wrong. The interface that catches one chooses the presentation.

EdgeError
├── NotFound          the record does not exist, is soft-deleted, or belongs to another organization
├── Forbidden         the role or key of the caller is not sufficient
├── Conflict          the request contradicts stored data (key in use, location in use, cycle)
├── Invalid           one or more fields are invalid; carries a FieldError for each
├── Unreadable        the request cannot be parsed: not JSON, or not the expected structure
├── TooLarge          the request needs more memory than one request may use
├── OverQuota         a person, key or organization added too much in a short time
├── Corrupt           stored data contradicts itself (a cycle in the location tree)
├── Unavailable       the database cannot be used now (disk full, locked, read-only, failing); retry later
│   ├── Damaged       the database file is damaged and needs manual repair
│   └── HistoryUnavailable  PostgreSQL has the history and cannot be reached; positions are current
│       └── HistoryTaken    another machine writes the history as this hub, until somebody decides
└── SetupError        the installation cannot run; the message says what to do
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class FieldError(NamedTuple):
    """An error in one field (interface: Code)."""

    field: str
    code: str
    message: str
    params: Mapping[str, Any] | None = None


class EdgeError(Exception):
    """Base class of all errors that this program raises deliberately."""


class NotFound(EdgeError):
    pass


class Forbidden(EdgeError):
    pass


class Conflict(EdgeError):
    pass


class Invalid(EdgeError):
    def __init__(self, fields: Sequence[FieldError]) -> None:
        super().__init__("; ".join(error.message for error in fields))
        self.fields = tuple(fields)

    @classmethod
    def one(cls, field: str, code: str, message: str, **params: Any) -> Invalid:
        return cls([FieldError(field, code, message, params or None)])


class Unreadable(EdgeError):
    pass


class TooLarge(EdgeError):
    pass


class OverQuota(EdgeError):
    def __init__(self, retry_after_seconds: int) -> None:
        super().__init__("Too many additions in a short time. Try again later")
        self.retry_after_seconds = retry_after_seconds


class Corrupt(EdgeError):
    pass


class Unavailable(EdgeError):
    def __init__(self, message: str, retry_after_seconds: int = 5) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Damaged(Unavailable):
    """Retrying does not help until somebody repairs the file. Senders must keep their data meanwhile."""


class HistoryUnavailable(Unavailable):
    """Pages that also show positions leave out the history."""


class HistoryTaken(HistoryUnavailable):
    pass


class SetupError(EdgeError):
    pass
