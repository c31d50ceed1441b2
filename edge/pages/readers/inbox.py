"""Lists of unassigned topics, unknown tags and dead letters, each with its messages in readable form."""

from __future__ import annotations

from typing import NamedTuple

from flask import abort, render_template, request

from edge.database.lists import Page
from edge.errors import Invalid
from edge.pages.forms import Errors, new_tag, whole
from edge.pages.guard import Answer, actor, administrators, editors, organization_id
from edge.pages.notices import done
from edge.pages.paging import offset_asked, pager
from edge.pages.readers.list import format_titles, grouped_topics
from edge.readers import dead_letters, dismissals, unknown_tags
from edge.records import assets, lookup
from edge.services import services
from edge.texts import N_

MOST_TOPICS = 200
PER_PAGE = 50


def _topics_page(errors: Errors) -> str:
    topics = [(topic, guess, readable(topic.sample, topic.size)) for topic, guess in grouped_topics()]
    return render_template(
        "readers/unassigned-topics.html",
        topics=topics[:MOST_TOPICS],
        titles=format_titles(),
        dismissed=dismissals.list_dismissed(organization_id(), "topic"),
        errors=errors,
    )


@administrators.form("/readers/topics", _topics_page, "readers#unassigned-topics")
def dismiss_topic() -> Answer:
    """Hide a topic permanently, or show it again."""
    if "bring_back" in request.form:
        dismissals.restore(actor(), "topic", request.form["bring_back"])
        return done("/readers/topics", "brought-back")
    dismissals.dismiss_topic(actor(), request.form.get("topic", ""))
    return done("/readers/topics", "dismissed")


def _tags_page(errors: Errors) -> str:
    reader_id = request.args.get("reader", type=whole)
    offset = offset_asked()
    address = "/readers/unknown-tags?" + (f"reader={reader_id}&" if reader_id is not None else "")
    return render_template(
        "readers/unknown-tags.html",
        page=Page(
            unknown_tags.list_tags(organization_id(), reader_id, PER_PAGE, offset),
            unknown_tags.count_tags(organization_id(), reader_id),
        ),
        **pager(PER_PAGE, lambda row: f"{address}offset={row}"),
        errors=errors,
        wrong=request.form.get("value", ""),
        dismissed=dismissals.list_dismissed(organization_id(), "tag"),
    )


@editors.form("/readers/unknown-tags", _tags_page, "readers#unmatched-tags")
def attach_unknown_tag() -> Answer:
    """Attach a tag to the asset with the entered key or tag, or hide it permanently."""
    form = request.form
    if "bring_back" in form:
        dismissals.restore(actor(), "tag", form["bring_back"])
        return done("/readers/unknown-tags", "brought-back")
    if "dismiss" in form:
        dismissals.dismiss_tag(actor(), form.get("tag_type", ""), form.get("match_key", ""))
        return done("/readers/unknown-tags", "dismissed")
    tag = new_tag({"tag_type": form.get("tag_type", ""), "value": form.get("value", "")})
    owner = lookup.by_code(organization_id(), form.get("asset", ""))
    if owner is None or owner.kind != "asset":
        raise Invalid.one("asset", "fk_not_found", N_("No asset has this key or tag"))
    assets.attach_tag(actor(), owner.id, tag)
    return done("/readers/unknown-tags", "tagged")


@administrators.get("/readers/dead-letters", manual="readers#unreadable-messages")
def show_dead_letters() -> str:
    letters = dead_letters.list_letters(organization_id(), SHOWN_BYTES)
    readable_letters = [(letter, readable(letter.payload, letter.size)) for letter in letters]
    return render_template(
        "readers/dead-letters.html", letters=readable_letters, can_retry=services().requeue is not None
    )


@administrators.post("/readers/dead-letters/<int:no>")
def treat_dead_letter(no: int) -> Answer:
    """Requeue a dead letter, or delete it. If parsing fails again, the letter stays."""
    requeue = services().requeue
    if "drop" in request.form:
        dead_letters.dismiss(actor(), no)
        return done("/readers/dead-letters", "dropped")
    if requeue is None:
        abort(503, N_("Ingest is not running."))
    letter = dead_letters.requeue(actor(), no)
    requeue(no, letter.topic, letter.payload, letter.received_at)
    return done("/readers/dead-letters", "retried")


SHOWN_BYTES = 2000


class Shown(NamedTuple):
    """Bytes for display: text if printable, else hexadecimal."""

    text: str
    is_text: bool
    size: int


def to_edit(payload: bytes) -> tuple[str, bool]:
    """Return a message for a form field, and True if it is hexadecimal."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return payload.hex(" "), True
    return (text, False) if _is_printable(text) else (payload.hex(" "), True)


def readable(payload: bytes, size: int) -> Shown:
    """Return bytes for display. `size` is the full size; `payload` may be only the beginning."""
    start = payload[:SHOWN_BYTES]
    try:
        text = start.decode("utf-8", "strict" if size <= SHOWN_BYTES else "ignore")
    except UnicodeDecodeError:
        return Shown(start.hex(" "), is_text=False, size=size)
    if _is_printable(text):
        return Shown(text, is_text=True, size=size)
    return Shown(start.hex(" "), is_text=False, size=size)


def _is_printable(text: str) -> bool:
    return all(letter.isprintable() or letter in "\r\n\t" for letter in text)
