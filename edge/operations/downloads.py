"""Audit of backup downloads."""

from __future__ import annotations

from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting


def record_download(actor: Actor, name: str) -> None:
    with acting(actor) as act:
        act.note("backup.downloaded", Subject("backup", name, name))
