"""The organizations of credentials that were valid in earlier requests.

The server chooses among waiting requests before it can look up their credentials, so it learns them here.
"""

from __future__ import annotations

from collections import OrderedDict

MOST = 10_000

_organizations: OrderedDict[int, int] = OrderedDict()  # by the hash of a credential, with the seed of this process
_seen: set[int] = set()


def note(credential: str, organization_id: int) -> None:
    """Remember the organization of a valid credential: an Authorization header, or the token of a session."""
    key = hash(credential)
    _organizations.pop(key, None)  # another thread may drop the oldest one at any moment
    _organizations[key] = organization_id
    _seen.add(organization_id)
    if len(_organizations) > MOST:
        _organizations.popitem(last=False)


def find(credential: str) -> int | None:
    """Return the organization of a credential, None if it was never valid or not used for long."""
    return _organizations.get(hash(credential))


def are_several() -> bool:
    """Return True if several organizations use this box."""
    return len(_seen) > 1


def forget() -> None:
    """Forget all credentials. For tests."""
    _organizations.clear()
    _seen.clear()
