"""Values in temporary files are the same as before, for several threads at once, and end with their object."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.errors import Unavailable
from edge.pages import spilled
from edge.pages.spilled import TOGETHER, Spilled


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_values_are_read_as_often_as_needed() -> None:
    values = [(number, f"Gerät {number}") for number in range(2 * TOGETHER + 1)]
    kept = Spilled(iter(values))
    first, second = iter(kept), iter(kept)
    assert [one for pair in zip(first, second, strict=True) for one in pair[:1]] == values
    assert (len(kept), list(kept), (1, "x") in kept, (3, "Gerät 3") in kept) == (len(values), values, False, True)


def test_the_file_has_no_name_and_ends_with_the_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = open_files()
    kept = Spilled([b"secret"])
    assert (list(tmp_path.iterdir()), open_files()) == ([], before + 1)
    rest = iter(kept)
    del kept
    assert next(rest) == b"secret"  # who reads it keeps it
    del rest
    assert open_files() == before


def test_a_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def values() -> Iterator[int]:
        yield 1
        raise OSError(28, "No space left on device")

    with pytest.raises(Unavailable, match="The disk is full"):
        Spilled(values())
    monkeypatch.setattr(spilled, "TemporaryFile", lambda **_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(Unavailable):
        Spilled([1])
