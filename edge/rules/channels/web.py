"""Senders over HTTP: ntfy, and webhooks with the JSON that Slack, Microsoft Teams or another program expects.

Texts go where the receiver shows them as they are, without markup: names of assets may be hostile.
"""

from __future__ import annotations

import ssl
from enum import StrEnum
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from edge import clock
from edge.events.delivery import Outcome
from edge.events.webhook import Poster
from edge.outbound import Network
from edge.rules.channels.compose import Outgoing
from edge.validation import json_text

NTFY_BYTES = 3_800  # ntfy turns longer messages into attachments
SLACK_BYTES = 2_900  # characters of a block
TEAMS_LINES = 50
TEAMS_LINE = 300  # characters; a card has at most 28 KB


class Form(StrEnum):
    """JSON of a webhook."""

    SLACK = "slack"
    TEAMS = "teams"
    JSON = "json"


class Ntfy(Poster):
    """A topic of an ntfy server, such as https://ntfy.sh/topic. `token` may be empty."""

    def __init__(self, url: str, token: str, network: Network, tls: ssl.SSLContext) -> None:
        address = urlsplit(url)
        folder, _, topic = address.path.rpartition("/")
        self._topic = unquote(topic)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        super().__init__(urlunsplit(address._replace(path=f"{folder}/")), network, tls)

    def send(self, outgoing: Outgoing) -> Outcome:
        """Publish as JSON, because headers could not carry all titles."""
        sent = {"topic": self._topic, "title": outgoing.subject, "message": shortened(outgoing.text, NTFY_BYTES)}
        return self.post(json_text.encode(sent), self._headers)


class ChatWebhook(Poster):
    def __init__(self, url: str, form: Form, network: Network, tls: ssl.SSLContext) -> None:
        self._form = form
        super().__init__(url, network, tls)

    def send(self, outgoing: Outgoing) -> Outcome:
        bodies = {Form.SLACK: _slack, Form.TEAMS: _teams, Form.JSON: _json}
        return self.post(json_text.encode(bodies[self._form](outgoing)), {})


def shortened(text: str, size: int) -> str:
    """Return the lines that fit into `size` bytes, and how many are left out."""
    if len(text.encode()) <= size:
        return text
    lines = text.split("\n")
    kept: list[str] = []
    room = size - 40
    for line in lines:
        room -= len(line.encode()) + 1
        if room < 0:
            break
        kept.append(line)
    if not kept:
        return text.encode()[:size].decode("utf-8", "ignore")
    return "\n".join([*kept, f"and {len(lines) - len(kept)} more lines"])


def _slack(outgoing: Outgoing) -> dict[str, Any]:
    text = shortened(f"{outgoing.subject}\n{outgoing.text}", SLACK_BYTES)
    escaped = outgoing.subject.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    block = {"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}
    return {"text": escaped, "blocks": [block]}


def _teams(outgoing: Outgoing) -> dict[str, Any]:
    """Return an adaptive card. Text runs show no Markdown."""
    lines = [line[:TEAMS_LINE] for line in outgoing.text.split("\n") if line]
    if len(lines) > TEAMS_LINES:
        lines = [*lines[:TEAMS_LINES], f"and {len(lines) - TEAMS_LINES} more lines"]
    runs = [{"type": "TextRun", "text": outgoing.subject, "weight": "Bolder"}]
    runs += [{"type": "TextRun", "text": line} for line in lines]
    card = {
        "type": "AdaptiveCard",
        "version": "1.2",
        "body": [{"type": "RichTextBlock", "inlines": [run]} for run in runs],
    }
    return {
        "type": "message",
        "attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}],
    }


def _json(outgoing: Outgoing) -> dict[str, Any]:
    messages = [
        {
            "rule": one.message.rule_no,
            "alert": one.message.alert_no,
            "asset_id": one.message.asset_id,
            "occurred_at": clock.rfc3339(one.message.occurred_at),
            "subject": one.message.subject,
            "text": one.message.text,
            "is_over": one.message.is_over,
            "is_late": one.is_late or one.message.is_late,
        }
        for one in outgoing.entries
    ]
    return {"id": outgoing.id, "subject": outgoing.subject, "text": outgoing.text, "messages": messages}
