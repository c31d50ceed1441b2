"""What waits for a technician: topics of nobody, unknown tags, messages that could not be read."""

from __future__ import annotations

from typing import NamedTuple

from flask import abort, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from edge.errors import EdgeError
from edge.pages.forms import errors_of, values_of, whole
from edge.pages.guard import actor, current_session, pages, require_role
from edge.pages.notices import done
from edge.pages.readers import formats
from edge.store import assets, audit, dead_letters, handheld, lookup, unassigned_topics, unknown_tags
from edge.store.database import writing
from edge.store.people import Role
from edge.store.tags import NewTag
from edge.validation import bodies

SHOWN_BYTES = 2000


class Shown(NamedTuple):
    """Bytes as a person can read them: text where it is text, else hexadecimal."""

    text: str
    is_text: bool
    size: int


def readable(payload: bytes, size: int) -> Shown:
    """`size` is that of the whole, of which `payload` may be the beginning only."""
    start = payload[:SHOWN_BYTES]
    try:
        text = start.decode("utf-8", "strict" if size <= SHOWN_BYTES else "ignore")
    except UnicodeDecodeError:
        return Shown(start.hex(" "), is_text=False, size=size)
    if all(letter.isprintable() or letter in "\r\n\t" for letter in text):
        return Shown(text, is_text=True, size=size)
    return Shown(start.hex(" "), is_text=False, size=size)


@pages.get("/readers/topics")
@require_role(Role.ADMINISTRATOR)
def show_topics() -> str:
    found = [
        (topic, formats().recognise(topic.topic, topic.sample), readable(topic.sample, len(topic.sample)))
        for topic in unassigned_topics.list_topics()
    ]
    return render_template("unassigned-topics.html", topics=found, titles=formats().titles)


@pages.get("/readers/unknown-tags")
@require_role(Role.EDITOR)
def show_unknown_tags() -> str:
    return _tags_page({}, "")


@pages.post("/readers/unknown-tags")
@require_role(Role.EDITOR)
def attach_unknown_tag() -> AnyResponse | tuple[str, int]:
    """To the asset that is named by its key, or by another of its tags."""
    form = request.form
    if "drop" in form:
        unknown_tags.drop(
            current_session().organization_id,
            form.get("tag_type", ""),
            form.get("match_key", ""),
            form.get("reader_id", 0, type=whole),
        )
        return done("/readers/unknown-tags", "dropped")
    try:
        tag = NewTag(**values_of(bodies.TAG, {"tag_type": form.get("tag_type", ""), "value": form.get("value", "")}))
        owner = lookup.by_code(current_session().organization_id, form.get("asset", ""))
        if owner is None or owner.kind != "asset":
            return _tags_page({"asset": "No asset has this key or tag"}, tag.value), 400
        with writing():
            assets.attach_tag(current_session().organization_id, owner.id, tag)
            handheld.adopt(current_session().organization_id, tag)
            audit.note(current_session().organization_id, actor(), "tag attached", asset=owner.id, value=tag.value)
    except EdgeError as error:
        return _tags_page(errors_of(error), form.get("value", "")), 400
    return done("/readers/unknown-tags", "tagged")


@pages.get("/readers/dead-letters")
@require_role(Role.ADMINISTRATOR)
def show_dead_letters() -> str:
    letters = dead_letters.list_letters(current_session().organization_id, SHOWN_BYTES)
    found = [(letter, readable(letter.payload, letter.size)) for letter in letters]
    return render_template("dead-letters.html", letters=found, can_retry=formats().requeue is not None)


@pages.post("/readers/dead-letters/<int:no>")
@require_role(Role.ADMINISTRATOR)
def treat_dead_letter(no: int) -> AnyResponse:
    """Try again after the cause was fixed: it goes the whole way anew, and comes back here if it fails anew."""
    letter = dead_letters.find(current_session().organization_id, no)
    requeue = formats().requeue
    if "drop" in request.form:
        dead_letters.drop(current_session().organization_id, no)
        return done("/readers/dead-letters", "dropped")
    if requeue is None:
        abort(503, "Ingest does not run here.")
    audit.note(current_session().organization_id, actor(), "dead letter tried again", topic=letter.topic)
    requeue(no, letter.topic, letter.payload, letter.received_at)
    return done("/readers/dead-letters", "retried")


def _tags_page(errors: dict[str, str], value: str) -> str:
    reader_id = request.args.get("reader", type=whole)
    found = unknown_tags.list_tags(current_session().organization_id, reader_id)
    return render_template("unknown-tags.html", tags=found, errors=errors, wrong=value)
