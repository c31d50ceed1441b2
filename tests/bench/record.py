"""Run a benchmark and write its output into the manual, with date and machine.

    python -m tests.bench.record ingest --rounds 3

The output replaces that of the last run in the section of `web/manual/figures.md` that names the benchmark. Its table
stays: change it by hand after reading the output.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "web" / "manual" / "figures.md"
_LAST_RUN = re.compile(r"(?ms)^Last run, [^\n]*\n\n```text\n.*?^```\n?")


def machine() -> str:
    """Return a short description of this machine."""
    model = "unknown processor"
    if (cpuinfo := Path("/proc/cpuinfo")).exists() and (
        match := re.search(r"model name\s*: (.*)", cpuinfo.read_text("utf-8"))
    ):
        model = match[1].strip()
    return f"{os.cpu_count()} cores of {model}, {platform.system()}, Python {platform.python_version()}"


def with_run(text: str, benchmark: str, command: str, output: str, measured: str) -> str:
    """Return the chapter with this run in the section of its benchmark. Raises ValueError if it has none."""
    sections = re.split(r"(?m)^(?=## )", text)
    for number, section in enumerate(sections):
        if re.search(rf"python -m tests\.bench\.{benchmark}\b", section) and section.startswith("## "):
            kept = _LAST_RUN.sub("", section).rstrip("\n")
            sections[number] = f"{kept}\n\nLast run, {measured}: `{command}`\n\n```text\n{output.strip()}\n```\n\n"
            return "".join(sections).rstrip("\n") + "\n"
    raise ValueError(f"no section of {FIGURES.name} names python -m tests.bench.{benchmark}")


def main() -> None:
    benchmark, *arguments = sys.argv[1:] or sys.exit(__doc__)
    command = ["-m", f"tests.bench.{benchmark}", *arguments]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    if not done.stdout.strip():
        sys.exit(done.returncode or f"{benchmark} printed nothing")
    measured = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}"
    text = FIGURES.read_text("utf-8")
    FIGURES.write_text(with_run(text, benchmark, "python " + " ".join(command), done.stdout, measured), "utf-8")
    sys.exit(done.returncode)  # of a benchmark that missed its target


if __name__ == "__main__":
    main()
