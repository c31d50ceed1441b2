"""The two lists of versions: what an installation gets is what was tested."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD_ONLY = {"hatchling", "tomlkit", "trove-classifiers"}  # used while the package is built


def versions(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def test_what_is_installed_is_what_was_tested() -> None:
    tested, installed = versions("tests/constraints.txt"), versions("systemd/constraints.txt")
    wrong = {name: version for name, version in installed.items() if tested.get(name, version) != version}
    assert wrong == {}
    assert set(installed) - set(tested) <= BUILD_ONLY
