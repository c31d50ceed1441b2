"""The sender of a channel, by its kind."""

from __future__ import annotations

import ssl

from edge.events.delivery import Sender
from edge.rules.channels.channels import Channel, ChannelKind
from edge.rules.channels.compose import Outgoing
from edge.rules.channels.settings import mail_settings
from edge.rules.channels.web import ChatWebhook, Form, Ntfy


def new_sender(row: Channel, secret: str, tls: ssl.SSLContext) -> Sender[Outgoing]:
    """Return a sender. The secret is a password, a token, or the URL of a webhook, which is one itself."""
    if row.kind is ChannelKind.NTFY:
        return Ntfy(row.settings["url"], secret, row.network, tls)
    if row.kind is ChannelKind.WEBHOOK:
        return ChatWebhook(secret, Form(row.settings["form"]), row.network, tls)
    from edge.rules.channels.mail import MailServer  # only with a channel for email: its libraries take 1 MB

    return MailServer(mail_settings(row.settings), secret, row.network, tls)
