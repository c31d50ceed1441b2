"""The commands of README and manual are run as they are written, each chapter's in one new database."""

from __future__ import annotations

import json
import shlex
from itertools import groupby
from pathlib import Path

import pytest

from edge.database.connection import close_database
from tests.commands.conftest import Shell, bare, edge
from tests.manual.documents import ROOT, Block, blocks

__all__ = ["bare", "edge"]

RUN = [block for block in blocks() if block.marker == "run:shell"]
CHAPTERS = [list(group) for _, group in groupby(RUN, key=lambda block: block.document)]
MESSAGE = {"reads": [{"tag": "3074257BF7194E4000001A85", "rssi": -58.5}]}
READERS = "name,topic,format,location,min_rssi\ndock7,site/dock7/reads,edge,,\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the commands name."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "message.json").write_text(json.dumps(MESSAGE))
    (here / "readers.csv").write_text(READERS)
    monkeypatch.chdir(here)
    (tmp_path / "password").write_text("secret")
    (tmp_path / "accounts").mkdir()
    monkeypatch.setenv("EDGE_MQTT_ACCOUNTS_DIR", str(tmp_path / "accounts"))
    monkeypatch.setenv("EDGE_MQTT_PASSWORD_FILE", str(tmp_path / "password"))
    return here


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: str(chapter[0].document.relative_to(ROOT)))
def test_the_commands_of_a_chapter_succeed(edge: Shell, folder: Path, chapter: list[Block]) -> None:
    for block in chapter:
        for line in block.lines:
            run(edge, folder, line)
            close_database()


def run(edge: Shell, folder: Path, line: str) -> None:
    typed = shlex.split(line.removeprefix("sudo "), comments=True)
    if not typed:
        return
    name, *arguments = typed
    assert name == "edge", f"{line}: only edge is run here"
    arguments, file = (arguments[:-2], arguments[-1]) if ">" in arguments else (arguments, "")
    said = edge.ok(*[one.replace("/var/lib/edge", str(folder)) for one in arguments])
    if file:
        (folder / file).write_text(said)


def test_some_are_run() -> None:
    assert len(CHAPTERS) >= 4
