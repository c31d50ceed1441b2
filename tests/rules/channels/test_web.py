"""ntfy and webhooks: JSON that the receiver shows as plain text."""

from __future__ import annotations

import json
import ssl
from contextlib import closing
from typing import Any

import pytest

from edge.events.delivery import Outcome, Result
from edge.outbound import Network
from edge.rules.channels.compose import Entry, Outgoing, shortened
from edge.rules.channels.kinds.ntfy import Ntfy
from edge.rules.channels.kinds.webhook import ChatWebhook, Form
from edge.rules.channels.outbox import Message
from tests.events.conftest import receiver
from tests.events.receiver import Receiver

__all__ = ["receiver"]
TLS = ssl.create_default_context()
MESSAGE = Message("Pallet <!channel> left", "Pallet left *hall 2*", 1, 7, 12, 0, is_over=False, is_late=False)
OUTGOING = Outgoing("edge.1", "Pallet <!channel> left", "Pallet left *hall 2*", [Entry(MESSAGE, is_late=True)])


def chat(receiver: Receiver, form: Form) -> Any:
    with closing(ChatWebhook(receiver.url, form, Network.LOOPBACK, TLS)) as sender:
        assert sender.send(OUTGOING) == Outcome(Result.DELIVERED, "204 No Content")
    return json.loads(receiver.received[0].body)


def test_ntfy_gets_topic_title_and_token(receiver: Receiver) -> None:
    url = receiver.url.replace("/hook?from=edge", "/dock-alerts")
    with closing(Ntfy(url, "tk_1", Network.LOOPBACK, TLS)) as sender:
        assert sender.send(OUTGOING).result is Result.DELIVERED
    (one,) = receiver.received
    assert one.headers["authorization"] == "Bearer tk_1"
    assert json.loads(one.body) == {"topic": "dock-alerts", "title": OUTGOING.subject, "message": OUTGOING.text}


def test_slack_shows_plain_text_and_notifies_no_channel(receiver: Receiver) -> None:
    sent = chat(receiver, Form.SLACK)
    assert sent["text"] == "Pallet &lt;!channel&gt; left"
    assert sent["blocks"][0]["text"]["type"] == "plain_text"
    assert sent["blocks"][0]["text"]["text"] == "Pallet <!channel> left\nPallet left *hall 2*"


def test_teams_shows_runs_of_text_without_markdown(receiver: Receiver) -> None:
    sent = chat(receiver, Form.TEAMS)
    blocks = sent["attachments"][0]["content"]["body"]
    assert [block["type"] for block in blocks] == ["RichTextBlock", "RichTextBlock"]
    assert [block["inlines"][0]["text"] for block in blocks] == [OUTGOING.subject, OUTGOING.text]


def test_another_program_gets_each_message(receiver: Receiver) -> None:
    sent = chat(receiver, Form.JSON)
    assert (sent["id"], sent["subject"]) == ("edge.1", OUTGOING.subject)
    (one,) = sent["messages"]
    assert (one["alert"], one["occurred_at"], one["is_late"]) == (7, "1970-01-01T00:00:00.000Z", True)


@pytest.mark.parametrize(("status", "result"), [(400, Result.REFUSED), (404, Result.FAILED), (503, Result.FAILED)])
def test_the_status_of_the_receiver_is_reported(receiver: Receiver, status: int, result: Result) -> None:
    receiver.answer = lambda _: status
    with closing(ChatWebhook(receiver.url, Form.JSON, Network.LOOPBACK, TLS)) as sender:
        outcome = sender.send(OUTGOING)
    assert (outcome.result, str(status) in outcome.detail) == (result, True)


def test_a_private_address_needs_permission(receiver: Receiver) -> None:
    with closing(ChatWebhook(receiver.url, Form.JSON, Network.PRIVATE, TLS)) as sender:
        assert "this box itself" in sender.send(OUTGOING).detail
    assert receiver.received == []


def test_a_long_digest_says_how_much_is_left_out() -> None:
    text = "\n".join(f"Pallet {number} left" for number in range(300))
    short = shortened(text, 3_000)
    kept = short.splitlines()
    assert len(short.encode()) <= 3_000
    assert kept[-1] == f"and {300 - (len(kept) - 1)} more lines"
    assert len(shortened("ä" * 3_000, 3_000).encode()) <= 3_000
