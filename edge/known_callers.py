"""The callers of credentials that were valid in earlier requests: people and API keys, and their organizations.

The server chooses among waiting requests before it can look up their credentials, so it learns them here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

MOST = 10_000
PERSON = "person:"  # begin of the name of somebody who uses the pages


class Caller(NamedTuple):
    """A person or API key, otherwise the network of the client, "" if that is not limited."""

    name: str
    organization_id: int | None


_callers: OrderedDict[int, Caller] = OrderedDict()  # by the hash of a credential, with the seed of this process
_seen: set[int] = set()


def note(credential: str, name: str, organization_id: int) -> bool:
    """Remember the caller of a valid credential: an Authorization header, or the token of a session.

    Returns True if several organizations use this box.
    """
    key = hash(credential)
    _callers.pop(key, None)  # another thread may drop the oldest one at any moment
    _callers[key] = Caller(name, organization_id)
    _seen.add(organization_id)
    if len(_callers) > MOST:
        _callers.popitem(last=False)
    return len(_seen) > 1


def find(credential: str) -> Caller | None:
    """Return the caller of a credential, None if it was never valid or not used for long."""
    return _callers.get(hash(credential))


def are_several() -> bool:
    """Return True if several organizations use this box."""
    return len(_seen) > 1


def forget() -> None:
    """Forget all credentials. For tests."""
    _callers.clear()
    _seen.clear()
