"""Run memory attacks against a box in a cgroup of the unit's size: `python -m tests.security.budget`.

Prints one line per attack: the responses, the longest time of /healthz and of creating an asset, the memory peak, and
whether the service survived. With --only, runs one attack.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.security.budget.attacks import ATTACKS
from tests.security.budget.box import Watch, box


def run(name: str, seconds: float) -> bool:
    with tempfile.TemporaryDirectory() as folder, box(Path(folder)) as attacked:
        before = attacked.peak_megabytes()
        problem, statuses = "", {}
        with Watch(attacked) as watch:
            try:
                statuses = ATTACKS[name](attacked, seconds)
            except OSError as error:
                problem = f"; {error}"
        try:
            watch.check()
        except (AssertionError, OSError, TimeoutError) as error:
            problem += f"; FAILED: {str(error).splitlines()[0]}"
        answers = ", ".join(f"{count} x {status}" for status, count in sorted(statuses.items()))
        peak = attacked.peak_megabytes() if attacked.is_alive() else 0
        wait, create = max(watch.waits, default=0), max(watch.creates, default=0)
        figures = f"{before} -> {peak} MB, /healthz {wait:.2f} s, create {create:.2f} s"
        print(f"{name:20} {figures}, {answers}{problem} ({attacked.group.version})", flush=True)
        return not problem


def run_together(seconds: float, prompt: float) -> bool:
    """Run all attacks on one box. Raises AssertionError at the first attack that the box does not survive."""
    with tempfile.TemporaryDirectory() as folder, box(Path(folder), history=20_000) as attacked:
        for name, attack in ATTACKS.items():
            with Watch(attacked) as watch:
                statuses = attack(attacked, seconds)
            watch.check(prompt)
            assert not statuses["500"], f"{name} was answered with 500"
            print(f"{name:20} survived, at most {attacked.peak_megabytes()} MB so far", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", choices=ATTACKS)
    parser.add_argument("--together", action="store_true", help="on one box, without figures: for CI")
    parser.add_argument("--prompt", type=float, default=1.0, help="in which /healthz must answer, with --together")
    options = parser.parse_args()
    if options.together:
        return 0 if run_together(options.seconds, options.prompt) else 1
    results = [run(name, options.seconds) for name in ([options.only] if options.only else ATTACKS)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
