"""List of readers, unassigned topics, and settings to enter in a reader."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from flask import abort, render_template, request

from edge import clock
from edge.formats import registry
from edge.formats.reads import Guess
from edge.pages import record_links
from edge.pages.actions import add_fragment
from edge.pages.guard import actor, administrators, editors, has_role, organization_id
from edge.pages.translation import gettext
from edge.people.people import Role
from edge.readers import broker_files, readers, status, unassigned_topics
from edge.readers.broker_address import broker_address, suggested_topic
from edge.readers.unassigned_topics import Topic
from edge.services import services

SILENT_AFTER = 15 * 60 * clock.SECOND
MOST_TOPICS_OFFERED = 5  # shown while waiting for the first reader
MANY_TAGS = 10  # topics with the same parent and a MAC address as last level; fewer may be readers
_ADDRESS = re.compile("[0-9A-Fa-f]{2}([:-]?[0-9A-Fa-f]{2}){5,}")


@editors.get("/readers", manual="readers#first-reader")
def show_readers() -> str:
    return render_template(
        "readers/readers.html",
        readers=status.list_states(organization_id()),
        waiting=status.inbox_counts(organization_id()),
        titles=format_titles(),
        silent_before=clock.now() - SILENT_AFTER,
        **_first_messages(),
        topic=suggested_topic(organization_id(), services().config.mqtt_topics),
        **_broker(),
    )


def format_titles() -> dict[str, str]:
    """Return the titles of all formats in the language of the page."""
    return {name: gettext(title) for name, title in registry.titles().items()}


def _broker() -> dict[str, Any]:
    """Return the broker for a template, and the host to enter in a reader."""
    config = services().config
    broker = broker_address(config.mqtt_broker, config.mqtt_listen)
    return {"broker": broker, "broker_host": broker.host_for_readers(record_links.address(), request.host_url)}


def _first_messages() -> dict[str, Any]:
    """Return topics without a reader, for the page that waits for the first message."""
    return {"topics": _offered_topics()}


add_fragment(editors, "/readers/heard", "readers/_readers.html", _first_messages, "topics")


def _offered_topics() -> list[str]:
    """Return topics to set up. Empty for roles that cannot set up readers."""
    if not has_role(Role.ADMINISTRATOR):
        return []
    topics = [topic.topic for topic, _ in grouped_topics()]
    return topics[:MOST_TOPICS_OFFERED]


def grouped_topics() -> list[tuple[Topic, Guess]]:
    """Return unassigned topics, latest message first. Topics of a gateway with one topic per tag are grouped as
    `…/+`.
    """
    groups: dict[str, tuple[Topic, Guess]] = {}
    topics = unassigned_topics.list_topics(organization_id())
    tag_parents = {parent for parent, count in Counter(map(_parent_of_tag, topics)).items() if count >= MANY_TAGS}
    for topic in topics:
        guess = registry.recognize(topic.topic, topic.sample)
        group = registry.filter_for(guess.name, topic.topic)
        if guess.name is None and (parent := _parent_of_tag(topic)) and parent in tag_parents:
            group = f"{parent}/+"
        if group in groups:
            newest, guess = groups[group]
            first = min(newest.first_received_at, topic.first_received_at)
            newest = newest._replace(first_received_at=first, messages=newest.messages + topic.messages)
        else:
            newest = topic._replace(topic=group)
        groups[group] = (newest, guess)
    return list(groups.values())


def _parent_of_tag(topic: Topic) -> str:
    """Return the parent of a topic with a MAC address as its last level, else ""."""
    parent, _, last = topic.topic.rpartition("/")
    return parent if _ADDRESS.fullmatch(last) else ""


@administrators.post("/readers/<int:reader_id>/account")
def make_reader_account(reader_id: int) -> str:
    """Create an account at the broker for the reader. Its password is shown once."""
    reader = readers.get_reader(organization_id(), reader_id)
    config = services().config
    if not config.has_reader_accounts:
        abort(404)
    account, password = broker_files.issue_account(actor(), reader_id, config.mqtt_broker)
    return render_template("readers/account.html", reader=reader, account=account, password=password, **_broker())
