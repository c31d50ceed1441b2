"""Declaration of a kind of channel: its form, the check of its fields, and its sender. See `kinds`."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge.events.delivery import Sender
from edge.outbound import Network
from edge.rules.channels.compose import Outgoing

Settings = Mapping[str, Any]
Facts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class ChannelKind:
    """A kind of channel; its template has the fields of its form. `secret`: the field that is sealed and never shown.

    `check` gets the form, the secret and the allowed network, returns the settings, and raises Invalid by field.
    `facts`: label and value of the recipient first, then those of other lines on the page. `address`: the fields
    with the receiver's address, the host first. A saved secret is kept while the fields `secret_for` stay the same.
    `is_secret_typed`: the secret may have any characters. `takes_files`: it sends attachments.
    """

    title: str
    secret: str
    check: Callable[[Mapping[str, str], str, Network], dict[str, Any]]
    facts: Callable[[Settings], Facts]
    new_sender: Callable[[Settings, str, Network, ssl.SSLContext], Sender[Outgoing]]
    address: Sequence[str] = ("url",)
    secret_for: Sequence[str] = ()
    is_secret_typed: bool = False
    longest_secret: int = 200
    takes_files: bool = False
