"""What can go wrong, as facts. How an error looks to a client is decided where it is answered.

EdgeError
├── NotFound          the record does not exist, is soft-deleted, or belongs to another organization
├── Conflict          the request contradicts what is stored (key taken, location in use, cycle)
├── Invalid           one or more fields are wrong; carries a FieldError for each
├── Unreadable        the request cannot be read at all: not JSON, or not the JSON that was asked for
├── TooLarge          the request needs more memory than one request may have
├── OverQuota         more was added in a short time than one person, key or organization may add
├── Corrupt           stored data contradicts itself (a cycle in the location tree)
├── Unavailable       the store cannot be used now (disk full, locked, read-only, failing); try again later
│   ├── Busy          not even begun, since somebody else writes for long
│   └── Damaged       the database file is damaged; only a person can mend that
└── SetupError        the installation is not usable as it is; the message says what to do
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class FieldError(NamedTuple):
    """One fault of one field (spec: Validation field codes)."""

    field: str
    code: str
    message: str
    params: Mapping[str, Any] | None = None


class EdgeError(Exception):
    """Base of every error this program raises on purpose."""


class NotFound(EdgeError):
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
        super().__init__("Too much was added in a short time; try again later")
        self.retry_after_seconds = retry_after_seconds


class Corrupt(EdgeError):
    pass


class Unavailable(EdgeError):
    def __init__(self, message: str, retry_after_seconds: int = 5) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class Busy(Unavailable):
    """Not even begun: a long transaction of somebody else is on its way."""


class Damaged(Unavailable):
    """Trying again does not help by itself, but nothing may be lost meanwhile: whoever waits keeps what it has."""


class SetupError(EdgeError):
    pass
