"""`tests.bench.record` writes a run into the chapter Figures."""

from __future__ import annotations

import re

import pytest

from tests.bench.record import FIGURES, machine, with_run

BENCHMARKS = sorted(
    path.stem
    for path in (FIGURES.parents[2] / "tests" / "bench").glob("*.py")
    if "def main()" in path.read_text("utf-8") and path.stem != "record"
)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_benchmark_has_a_section_and_a_run_replaces_the_one_before(benchmark: str) -> None:
    text = FIGURES.read_text("utf-8")
    once = with_run(text, benchmark, "python -m x", "12 ms\n34 ms", f"2026-01-01, {machine()}")
    assert "12 ms\n34 ms\n```\n" in once
    assert "2026-01-01" in once
    again = with_run(once, benchmark, "python -m x", "56 ms", "2026-01-02")
    assert "12 ms\n34 ms" not in again
    assert len(re.findall("(?m)^## ", again)) == len(re.findall("(?m)^## ", text))
    assert len(re.findall(r"(?m)^\|", again)) == len(re.findall(r"(?m)^\|", text))


def test_a_benchmark_without_a_section_is_refused() -> None:
    with pytest.raises(ValueError, match="no section"):
        with_run("## A\n", "nothing", "", "", "")
