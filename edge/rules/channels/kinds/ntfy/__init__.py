"""A topic of an ntfy server, such as https://ntfy.sh/topic, which pushes messages to phones."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from edge.events import validation
from edge.events.delivery import Outcome
from edge.events.validation import invalid
from edge.events.webhook import Poster
from edge.outbound import Network
from edge.rules.channels.compose import Outgoing, shortened
from edge.rules.channels.kind import ChannelKind
from edge.texts import N_
from edge.validation import json_text

MOST_BYTES = 3_800  # ntfy turns longer messages into attachments
_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")


class Ntfy(Poster):
    """A topic of an ntfy server. `token` may be empty."""

    def __init__(self, url: str, token: str, network: Network, tls: ssl.SSLContext) -> None:
        address = urlsplit(url)
        folder, _, topic = address.path.rpartition("/")
        self._topic = unquote(topic)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        super().__init__(urlunsplit(address._replace(path=f"{folder}/")), network, tls)

    def send(self, outgoing: Outgoing) -> Outcome:
        """Publish as JSON, because headers could not carry all titles."""
        sent = {"topic": self._topic, "title": outgoing.subject, "message": shortened(outgoing.text, MOST_BYTES)}
        return self.post(json_text.encode(sent), self._headers)


def _checked(entered: Mapping[str, str], _token: str, network: Network) -> dict[str, Any]:
    url = validation.webhook_url(entered.get("url", "").strip(), is_on_internet=network is Network.INTERNET)
    address = urlsplit(url)
    if not _TOPIC.fullmatch(address.path.rpartition("/")[2]) or address.query:
        raise invalid("url", N_("enter the server and the topic, such as https://ntfy.sh/dock-alerts"))
    return {"url": url}


KIND = ChannelKind(
    N_("New ntfy topic"),
    "token",
    _checked,
    lambda stored: [(N_("ntfy topic"), stored["url"])],
    lambda stored, token, network, tls: Ntfy(stored["url"], token, network, tls),
    secret_for=["url"],
)
