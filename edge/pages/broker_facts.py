"""What has to be entered in a reader so that its messages arrive here, supplied by the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from flask import request

from edge.audit.actors import Actor
from edge.limits import is_loopback
from edge.pages import record_links
from edge.pages.installation import installation
from edge.people.topic_owners import owners

LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104  what is compared with, not listened on


class NewAccount(NamedTuple):
    """The account of a reader at the broker; the password is shown once."""

    name: str
    password: str
    topic: str


class BrokerFacts(NamedTuple):
    """`host` as the settings name it, `topics` that are subscribed, `tls_port` 0 where there is none.

    `make_account` gives a reader an account of its own, or another password; None where anybody may publish.
    """

    host: str
    port: int
    tls_port: int = 0
    topics: Sequence[str] = ("#",)
    is_embedded: bool = False
    make_account: Callable[[Actor, int], NewAccount] | None = None


NONE = BrokerFacts("localhost", 1883)


def facts() -> BrokerFacts:
    return installation().broker


def address() -> str:
    """By which readers reach the broker: where it is on this box, the name by which people open the pages.

    Many readers do not know names that end with .local: then what this browser used, if that is none.
    """
    host = facts().host
    if host not in (*LOOPBACK, *EVERYWHERE):
        return host
    name, used = urlsplit(record_links.address()).hostname or host, urlsplit(request.host_url).hostname or ""
    is_better = name.endswith(".local") and not used.endswith(".local") and not is_loopback(request.host_url)
    return used if is_better else name


def is_for_this_box_only() -> bool:
    """Whether it is the embedded broker, listening on this box only."""
    return facts().is_embedded and facts().host in LOOPBACK


def topic_to_suggest(organization_id: int) -> str:
    """One that is subscribed and the organization's, with a name of the reader where any would do."""
    prefix = next(owner.prefix for owner in owners() if owner.organization_id == organization_id)
    first = facts().topics[0] if prefix is None else f"{prefix}/#"
    return first.replace("#", "dock1/reads").replace("+", "dock1")
