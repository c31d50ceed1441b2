"""Fixtures that run the `edge` command on a temporary data directory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge import cli
from edge.database.connection import close_database
from tests import chance
from tests.databases import Files, copy_files, files_of

PASSWORD = "correct horse battery"
_INITIALIZED: Files = {}


class Shell:
    """Runs `edge` on one data directory and returns its output and exit code."""

    def __init__(self, data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._data_dir, self._capsys, self._patch = data_dir, capsys, monkeypatch

    def __call__(self, *arguments: str, typed: str = "") -> tuple[int, str]:
        script = self._data_dir / "stdin"
        script.write_text(typed)
        code = 0
        with script.open() as stdin, self._patch.context() as patch:
            patch.setattr(sys, "argv", ["edge", "--set", f"data_dir={self._data_dir}", *arguments])
            patch.setattr(sys, "stdin", stdin)
            try:
                cli.main()
            except SystemExit as stop:
                code = int(stop.code or 0)
        out, err = self._capsys.readouterr()
        return code, out + err

    def ok(self, *arguments: str, typed: str = "") -> str:
        code, text = self(*arguments, typed=typed)
        assert code == 0, text
        return text


@pytest.fixture
def bare(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    yield Shell(tmp_path, capsys, monkeypatch)
    close_database()


@pytest.fixture
def edge(bare: Shell, tmp_path: Path) -> Shell:
    """`edge` on a data directory after `edge init`, which is run once and then copied."""
    if not _INITIALIZED:
        with chance.of("initialized", chance.SESSION):
            bare.ok("init", "--org", "Acme", "--email", "boss@acme.test", typed=PASSWORD)
        _INITIALIZED.update(files_of(tmp_path))
    copy_files(_INITIALIZED, tmp_path)
    return bare
