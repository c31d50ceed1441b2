"""`edge sync recover`: downloads the site's data from the hub to a new or restored machine."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from edge.audit.actors import Actor
from edge.errors import Unreadable
from edge.sync import batch_format
from edge.sync.sender import Call, Sender, Stopped
from edge.sync.store import hub_link, recovered_history
from edge.sync.store.exchange import Batch
from edge.sync.store.recovered_history import Progress

_FIRST = {"locations": [0], "assets": [0], "tracks": [0], "history": [0, -(2**62), 0], "passages": [0]}
_OF_EVERY_HUB = ("locations", "assets", "tracks", "history")
_NEXT = {part: Progress(following, _FIRST[following]) for part, following in pairwise(_FIRST)}


def recover(actor: Actor, call: Call) -> Iterator[str]:
    """Download page by page and yield progress texts; resumes an interrupted run. Raises the errors of `call`."""
    counts = dict.fromkeys(_FIRST, 0)
    while at := recovered_history.progress(_here()):
        if at.part == "tracks":
            _fetch_assets_of_others(call)
        answer = _ask(call, at)
        batch = _batch(answer["batch"])
        recovered_history.reserve_tracks(int(answer["last_track"]))
        counts[at.part] += (
            sum(len(patch.stays) for patch in batch.patches) if at.part == "history" else len(getattr(batch, at.part))
        )
        yield f"{at.part}: {counts[at.part]}"
        following = Progress(at.part, answer["after"]) if answer["after"] else _NEXT.get(at.part)
        if following and following.part not in answer.get("parts", _OF_EVERY_HUB):
            following = None
        recovered_history.take(_here(), batch, following or at)
        if following is None:
            break
    recovered_history.finish(actor)


def _fetch_assets_of_others(call: Call) -> None:
    """Fetch the assets of the hub and of other sites; some were read here."""
    sender = Sender(call)
    sender.connect()
    sender.pull()


def _ask(call: Call, at: Progress) -> Any:
    return call("recover", batch_format.pack(at._asdict()))


def _batch(text: str) -> Batch:
    try:
        return batch_format.decode(base64.b64decode(text, validate=True))[1]
    except (binascii.Error, TypeError) as error:
        raise Unreadable("the response of the hub is invalid") from error


def _here() -> hub_link.Target:
    target = hub_link.find()
    if target is None:
        raise Stopped("This box reports to no hub")
    return target
