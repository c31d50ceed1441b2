"""Documents of many labels, drawn in the background, one at a time: a thousand take four seconds and more.

The last few are remembered for a while: a page shows the progress and then opens the document.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from edge.errors import Unavailable
from edge.labels.label_content import Code, Label
from edge.labels.papers import Paper
from edge.people.secrets import new_token
from edge.texts import N_

log = logging.getLogger(__name__)

KEPT = 4
KEPT_SECONDS = 600.0
OTHERS_ARE_DRAWN = N_("Other labels are being created. Try again in a few seconds.")
DRAWING = threading.Lock()  # held while labels are drawn: each takes some milliseconds of processor time


@dataclass
class Document:
    """Labels that are being drawn: `content` is the PDF once it `is_done`, and empty if drawing failed."""

    organization_id: int
    labels: int
    id: str = field(default_factory=new_token)
    drawn: int = 0
    content: bytes = field(default=b"", repr=False)
    is_done: bool = False
    started_at: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event, repr=False)


_lock = threading.Lock()
_documents: OrderedDict[str, Document] = OrderedDict()


def start(organization_id: int, labels: Sequence[Label], paper: Paper, code: Code, skip: int) -> Document:
    """Draw labels in the background. Raises Unavailable while others are drawn."""
    if not DRAWING.acquire(blocking=False):
        raise Unavailable(OTHERS_ARE_DRAWN)
    document = Document(organization_id, len(labels))
    try:
        thread = threading.Thread(target=_draw, args=(document, labels, paper, code, skip), name="labels", daemon=True)
        thread.start()
    except BaseException:
        DRAWING.release()
        raise
    with _lock:
        _documents[document.id] = document
        _forget()
    return document


def find(organization_id: int, document_id: str) -> Document | None:
    with _lock:
        _forget()
        document = _documents.get(document_id)
    return document if document is not None and document.organization_id == organization_id else None


def _forget() -> None:
    """Forget old documents, and the oldest beyond `KEPT`."""
    old = time.monotonic() - KEPT_SECONDS
    for document in list(_documents.values()):
        if document.is_done and (document.started_at < old or len(_documents) > KEPT):
            del _documents[document.id]


def _draw(document: Document, labels: Sequence[Label], paper: Paper, code: Code, skip: int) -> None:
    from edge.labels.pdf import labels_pdf  # its library takes 7 MB and 0.1 s

    def progress(drawn: int) -> None:
        document.drawn = drawn

    try:
        document.content = labels_pdf(labels, paper, code, skip=skip, progress=progress)
    except Exception:
        log.exception("Drawing of labels failed")
    finally:
        document.is_done = True
        DRAWING.release()
        document.ended.set()
