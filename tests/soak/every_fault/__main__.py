"""Let every call of the jobs that are named, or of all, fail in each way. An hour for all on two cores."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.soak.every_fault.disk import result_of
from tests.soak.every_fault.jobs import JOBS


def main() -> None:
    """Print the result of each job. Exits with 1 if a run ended wrong."""
    are_right = True
    for job in sys.argv[1:] or JOBS:
        with tempfile.TemporaryDirectory() as folder:
            result = result_of(Path(folder), job)
        print(f"{job}: {result.calls} calls, {result.runs} runs, {len(result.wrong)} wrong", flush=True)
        print("\n".join(result.wrong))
        are_right = are_right and not result.wrong
    sys.exit(not are_right)


if __name__ == "__main__":
    main()
