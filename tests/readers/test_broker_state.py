"""The settings of mosquitto."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.readers import broker_state


def test_files_that_only_root_may_read_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration of a bridge has a password."""
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "edge.conf").write_text("max_queued_messages 1000\n")
    (folder / "zz-edge-upstream-1.conf").write_text("max_queued_messages 5\n")
    read = Path.read_text

    def refuse(path: Path, *arguments: str) -> str:
        if path.name.startswith("zz-"):
            raise PermissionError(13, "Permission denied")
        return read(path, *arguments)

    monkeypatch.setattr(Path, "read_text", refuse)
    assert broker_state.settings(tmp_path) == {"max_queued_messages": "1000"}
