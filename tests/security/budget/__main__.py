"""Run memory attacks against a box in a cgroup of the unit's size: `python -m tests.security.budget`.

Prints one line per attack: the responses, the longest time of /healthz and of creating an asset, the memory peak, and
whether the service survived. With --only, runs one attack. With --box and --folder, attacks the unit of an installed
system, see `tests.security.budget.unit`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.security.budget.attacks import ATTACKS, Statuses
from tests.security.budget.box import Box, Watch, box
from tests.security.budget.unit import installed
from tests.soak.box import Box as Computer
from tests.soak.installed_site import Ports


def run(name: str, seconds: float) -> bool:
    with tempfile.TemporaryDirectory() as folder, box(Path(folder)) as attacked:
        return measure(attacked, name, seconds)


def run_on_unit(names: Iterable[str], seconds: float, computer: Computer, port: int) -> bool:
    """Run the attacks on the unit of an installed system, one after the other."""
    with installed(computer, Ports(port)) as attacked:
        results = [measure(attacked, name, seconds) for name in names]
    return all(results)


def measure(attacked: Box, name: str, seconds: float) -> bool:
    before = attacked.peak_megabytes()
    problem, statuses = "", Statuses()
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", choices=ATTACKS)
    parser.add_argument("--box", help="program that boots a system, see tests.soak.box")
    parser.add_argument("--folder", type=Path, help="folder of that system")
    parser.add_argument("--port", type=int, default=18800, help="the first of its five free ports")
    options = parser.parse_args()
    names = [options.only] if options.only else list(ATTACKS)
    if options.box:
        return 0 if run_on_unit(names, options.seconds, Computer(options.box, options.folder), options.port) else 1
    results = [run(name, options.seconds) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
