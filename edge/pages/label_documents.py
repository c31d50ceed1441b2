"""Documents of many labels, drawn in the background: a thousand take four seconds and more.

One label is drawn at a time, and organizations take turns after each. The last few documents of each are remembered for
a while: a page shows the progress and then opens the document.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from edge.errors import Unavailable
from edge.fair_turns import FairTurns, Turn
from edge.labels.label_content import Code, Label
from edge.labels.papers import Paper
from edge.pages.spilled import Spilled
from edge.people.secrets import new_token
from edge.texts import N_

log = logging.getLogger(__name__)

KEPT = 4  # of each organization
KEPT_SECONDS = 600.0
OTHERS_ARE_DRAWN = N_("Other labels are being created. Try again in a few seconds.")
MOST_AT_ONCE = 8  # organizations: each has a document in memory
WAIT_SECONDS = 5.0  # for the labels of others
DRAWING = FairTurns(most=MOST_AT_ONCE)  # each label takes some milliseconds of processor time


@dataclass
class Document:
    """Labels that are being drawn: `content` is the PDF once it `is_done`, and empty if drawing failed."""

    organization_id: int
    labels: int
    id: str = field(default_factory=new_token)
    drawn: int = 0
    content: Sequence[bytes] | Spilled[bytes] = field(default=(), repr=False)  # in pieces
    is_done: bool = False
    started_at: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event, repr=False)


_lock = threading.Lock()
_documents: OrderedDict[str, Document] = OrderedDict()


def start(organization_id: int, labels: Sequence[Label], paper: Paper, code: Code, skip: int) -> Document:
    """Draw labels in the background. Raises Unavailable while others of the organization are drawn."""
    turn = DRAWING.join(organization_id)
    if turn is None:
        raise Unavailable(OTHERS_ARE_DRAWN)
    document = Document(organization_id, len(labels))
    try:
        given = (document, turn, labels, paper, code, skip)
        threading.Thread(target=_draw, args=given, name="labels", daemon=True).start()
    except BaseException:
        DRAWING.leave(turn)
        raise
    with _lock:
        _documents[document.id] = document
        _forget(organization_id)
    return document


@contextmanager
def drawing(organization_id: int) -> Iterator[Callable[[int], None]]:
    """Wait for a turn to draw labels. Raises Unavailable while others of the organization are drawn.

    Call the yielded function after each label: it lets other organizations draw one.
    """
    with DRAWING.turn(organization_id, WAIT_SECONDS) as turn:
        if turn is None:
            raise Unavailable(OTHERS_ARE_DRAWN)
        yield lambda _drawn: DRAWING.give_way(turn)


def find(organization_id: int, document_id: str) -> Document | None:
    with _lock:
        _forget(organization_id)
        document = _documents.get(document_id)
    return document if document is not None and document.organization_id == organization_id else None


def _forget(organization_id: int) -> None:
    """Forget old documents, and the oldest ones of an organization beyond `KEPT`."""
    old = time.monotonic() - KEPT_SECONDS
    own = sum(document.organization_id == organization_id for document in _documents.values())
    for document in list(_documents.values()):
        is_extra = document.organization_id == organization_id and own > KEPT
        if document.is_done and (document.started_at < old or is_extra):
            del _documents[document.id]
            own -= document.organization_id == organization_id


def _draw(document: Document, turn: Turn, labels: Sequence[Label], paper: Paper, code: Code, skip: int) -> None:
    from edge.labels.pdf import labels_pdf  # its library takes 7 MB and 0.1 s

    def progress(drawn: int) -> None:
        document.drawn = drawn
        DRAWING.give_way(turn)

    try:
        DRAWING.wait(turn)
        document.content = Spilled([labels_pdf(labels, paper, code, skip=skip, progress=progress)])
    except Exception:
        log.exception("Drawing of labels failed")
    finally:
        document.is_done = True
        DRAWING.leave(turn)
        document.ended.set()
