"""Reads in any order and any batches give the same history. Runs many more traces than the quick tests.

Usage: python -m tests.soak.orders [--traces 10000] [--seed 1000] [--smoothing auto]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from edge.audit.actors import shell
from edge.database import migrate
from edge.people import organizations
from tests.database.orders import differing, make_world

AT_ONCE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1_000)
    parser.add_argument("--smoothing", choices=("auto", "off"), default="auto")
    options = parser.parse_args()
    differing_traces = 0
    for seed in range(options.seed, options.seed + options.traces // AT_ONCE):
        with tempfile.TemporaryDirectory() as data_dir:
            migrate.migrate(Path(data_dir))
            world = make_world(organizations.add_organization(shell(), "Orders").id)
            wrong = differing(world, AT_ONCE, seed, is_smoothing=options.smoothing == "auto")
        differing_traces += len(wrong)
        print(f"seed {seed}: {len(wrong)} of {AT_ONCE} differ", *wrong, sep="\n", flush=True)
    print(f"{differing_traces} of {options.traces} traces differ")
    sys.exit(differing_traces > 0)


if __name__ == "__main__":
    main()
