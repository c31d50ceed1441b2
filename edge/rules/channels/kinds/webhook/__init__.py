"""A webhook with the JSON that Slack, Microsoft Teams or another program expects.

Texts go where the receiver shows them as they are, without markup: names of assets may be hostile.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from edge import clock
from edge.events import validation
from edge.events.delivery import Outcome
from edge.events.validation import invalid
from edge.events.webhook import Poster
from edge.outbound import Network
from edge.rules.channels.compose import Outgoing, shortened
from edge.rules.channels.kind import ChannelKind
from edge.texts import N_
from edge.validation import json_text

SLACK_BYTES = 2_900  # characters of a block
TEAMS_LINES = 50
TEAMS_LINE = 300  # characters; a card has at most 28 KB


class Form(StrEnum):
    """JSON of a webhook."""

    SLACK = "slack"
    TEAMS = "teams"
    JSON = "json"


class ChatWebhook(Poster):
    def __init__(self, url: str, form: Form, network: Network, tls: ssl.SSLContext) -> None:
        self._form = form
        super().__init__(url, network, tls)

    def send(self, outgoing: Outgoing) -> Outcome:
        bodies = {Form.SLACK: _slack, Form.TEAMS: _teams, Form.JSON: _json}
        return self.post(json_text.encode(bodies[self._form](outgoing)), {})


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


def _checked(entered: Mapping[str, str], url: str, network: Network) -> dict[str, Any]:
    """Return the settings. The URL is not one of them but the secret: who knows it can post."""
    form = entered.get("form", "")
    if form not in list(Form):
        raise invalid("form", N_("choose one from the list"))
    checked = validation.webhook_url(url, is_on_internet=network is Network.INTERNET)
    return {"form": form, "host": urlsplit(checked).hostname or ""}


_NAMES = {Form.SLACK: "Slack", Form.TEAMS: "Microsoft Teams", Form.JSON: "JSON"}
KIND = ChannelKind(
    N_("New webhook"),
    "url",
    _checked,
    lambda stored: [(N_("Webhook"), f"{_NAMES[stored['form']]}, {stored['host']}")],
    lambda stored, url, network, tls: ChatWebhook(url, Form(stored["form"]), network, tls),
    longest_secret=validation.MAX_URL,
)
