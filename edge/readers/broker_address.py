"""Address and topic to enter in a reader so that its messages reach the broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from edge.people.topic_owners import owners
from edge.rate_limits import is_loopback

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104  compared, not listened on


class BrokerAddress(NamedTuple):
    """Host and port from the settings."""

    host: str
    port: int
    is_embedded: bool

    @property
    def is_local_only(self) -> bool:
        """True if the embedded broker accepts connections from this box only."""
        return self.is_embedded and self.host in _LOOPBACK

    def host_for_readers(self, public_url: str, request_url: str) -> str:
        """Return the host to enter in a reader.

        If the broker runs on this box, that is the host of the pages. Many readers cannot resolve .local names, so the
        host in the browser's address is preferred to one.
        """
        if self.host not in (*_LOOPBACK, *_ANY_ADDRESS):
            return self.host
        public, requested = urlsplit(public_url).hostname or self.host, urlsplit(request_url).hostname or ""
        is_better = public.endswith(".local") and not requested.endswith(".local") and not is_loopback(request_url)
        return requested if is_better else public


def broker_address(broker: str, listen: str) -> BrokerAddress:
    """Parse the settings `mqtt.broker` and, for the embedded broker, `mqtt.listen`."""
    is_embedded = broker == "embedded"
    url = urlsplit(f"mqtt://{listen}" if is_embedded else broker)
    port = url.port or (8883 if url.scheme == "mqtts" else 1883)
    return BrokerAddress(url.hostname or "localhost", port, is_embedded)


def suggested_topic(organization_id: int, subscribed: Sequence[str]) -> str:
    """Return a topic that is subscribed and belongs to the organization, with `dock1` in place of wildcards."""
    prefix = next(owner.prefix for owner in owners() if owner.organization_id == organization_id)
    first = subscribed[0] if prefix is None else f"{prefix}/#"
    return first.replace("#", "dock1/reads").replace("+", "dock1")
