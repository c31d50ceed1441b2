"""Mutation test: insert small faults into the code one at a time; the tests that call the code must fail.

    python -m tests.soak.mutants [--count 300] [--seed N] [--only edge/sync] [--callers FILE] [--part 1/2]

Works on a copy of the tree. First it runs the tests once to record the functions that each of them calls; `--callers`
keeps the result for later runs, also for parts of the same sample in parallel. Then each mutant is tested with the
tests that call the changed function, quick ones first, until one fails. The run fails if a mutant survives that
`survivors.toml` does not explain, or if fewer than 90 % are killed.

mutmut and cosmic-ray do not change SQL, do not drop statements or transactions, and start Python for each mutant. Here
the libraries are loaded once, and each mutant is a fork.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.soak.mutations import Mutation, is_another_program, mutations_of

ROOT = Path(__file__).parents[2]
REASONS = Path(__file__).with_name("survivors.toml")
COPIED = ("edge", "tests", "web", "data", "systemd", ".ci", "README.md", "pyproject.toml")
MODULES = (
    "edge/events/log.py",
    "edge/events/detection.py",
    "edge/events/progress.py",
    "edge/handhelds/scans.py",
    "edge/handhelds/stock_takes.py",
    "edge/ingest/held_messages.py",
    "edge/ingest/stored_receipts.py",
    "edge/readers/kept_messages.py",
    "edge/readers/matching.py",
    "edge/sync/store/change_feed.py",
    "edge/sync/store/epochs.py",
    "edge/sync/store/hub_link.py",
    "edge/sync/store/incoming.py",
    "edge/sync/store/mirrors.py",
    "edge/sync/store/outgoing.py",
    "edge/sync/store/recovered_history.py",
    "edge/tracking/carriers.py",
    "edge/tracking/decision_rule.py",
    "edge/tracking/late_reads.py",
    "edge/tracking/packed_reads.py",
    "edge/tracking/positions.py",
    "edge/tracking/recent_reads.py",
    "edge/tracking/retrace.py",
    "edge/tracking/stays.py",
    "edge/ingest/*.py",
    "edge/sync/*.py",
    "edge/events/*.py",
    "edge/pages/handhelds/scan.py",
)
TESTS = (
    *(f"tests/{name}" for name in ("database", "audit", "records", "tracking", "readers", "handhelds", "ingest",
    "sync", "events", "simulation")),
    "tests/pages/handhelds/test_scan.py",
    "tests/pages/handhelds/test_stock_takes.py",
    "tests/pages/readers/test_readers.py",
    "tests/pages/readers/test_inbox.py",
    "tests/pages/test_sync.py",
    "tests/pages/test_events.py",
    "tests/api/test_tracking.py",
)  # fmt: skip
LIBRARIES = (
    "hypothesis", "flask", "flask_babel", "waitress", "peewee", "msgspec",
    "paho.mqtt.client", "jwt", "pyrage", "biip", "epcpy", "jmespath", "yaml", "ulid", "prometheus_client",
    "reportlab.pdfgen.canvas", "segno", "PIL.Image", "babel.dates", "click", "jsonschema",
)  # fmt: skip
LEAST_CAUGHT = 0.9
FIRST_TESTS = 30  # run before the others, because they kill most mutants
QUICK_SECONDS = 0.5
GRACE_SECONDS = 60.0  # for start and collection
SLOWER = 8  # a test that takes this multiple of its recorded time hangs


class Test(NamedTuple):
    id: str
    seconds: float


class Verdict(NamedTuple):
    """Result of a test run: the first failed test, or empty."""

    failed: str
    is_late: bool = False


class Bench:
    """A copy of the tree that runs tests in forks."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        self._verdict = folder / "verdict"
        self._output = folder / "output"
        self.root.mkdir()
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.root / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
            else:
                shutil.copy(source, self.root / name)

    def run(self, arguments: Sequence[str], seconds: float | None) -> Verdict:
        self._verdict.unlink(missing_ok=True)
        process = multiprocessing.get_context("fork").Process(target=self._in_fork, args=(arguments,))
        process.start()
        try:
            process.join(seconds)
            is_late = process.is_alive()
        finally:
            _end_group(process)
        process.join()
        failed = self._verdict.read_text("utf-8") if self._verdict.exists() else "the process ended"
        return Verdict(failed or ("too slow" if is_late else ""), is_late)

    def output(self) -> str:
        return self._output.read_text("utf-8", "replace")

    def _in_fork(self, arguments: Sequence[str]) -> None:
        os.setsid()
        with self._output.open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.chdir(self.root)
        for name in [name for name in sys.modules if name.split(".")[0] in ("edge", "tests")]:
            del sys.modules[name]
        sys.path.insert(0, str(self.root))
        os.environ["PYTHONPATH"] = str(self.root)
        recorder = _Recorder()
        options = [
            "-o",
            "addopts=",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
        ]
        code = pytest.main([*options, *arguments], plugins=[recorder])
        if code and not recorder.failed:
            recorder.failed = f"pytest ended with {code}"
        self._verdict.write_text(recorder.failed, "utf-8")
        sys.stdout.flush()
        os._exit(0)


class _Recorder:
    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


class Callers:
    """Tests by called function, ordered: tests that killed a mutant of the module, then those of the module."""

    def __init__(self, tests: dict[str, Any]) -> None:
        self._by_function: dict[str, list[Test]] = {}
        self._by_module: dict[str, list[Test]] = {}
        self._catches: Counter[tuple[str, str]] = Counter()
        for test_id, recorded in tests.items():
            if not recorded.get("is_green"):
                continue
            test = Test(test_id, recorded["seconds"])
            for function in recorded["functions"]:
                self._by_function.setdefault(function, []).append(test)
            for module in {function.split("::")[0] for function in recorded["functions"]}:
                self._by_module.setdefault(module, []).append(test)

    def of(self, one: Mutation) -> list[Test]:
        selected = {test for name in one.functions for test in self._by_function.get(f"{one.path}::{name}", ())}
        selected = selected or set(self._by_module.get(one.path, ()))  # code run at import, or called by no test
        called_after = f"/test_{Path(one.path).stem}"
        return sorted(
            selected, key=lambda test: (-self._catches[one.path, test.id], called_after not in test.id, test.seconds)
        )

    def note_catch(self, one: Mutation, test_id: str) -> None:
        self._catches[one.path, test_id] += 1


class Outcome(NamedTuple):
    mutation: Mutation
    key: Key
    failed: str  # empty if it survived
    tests: int


def record_callers(bench: Bench, file: Path | None) -> Callers:
    if file and file.exists():
        return Callers(json.loads(file.read_text("utf-8")))
    kept = file.absolute() if file else bench.root.parent / "callers.json"
    os.environ["CALLERS"] = str(kept)
    began = time.monotonic()
    bench.run(["-p", "tests.soak.callers", "--maxfail=100000", *TESTS], None)
    if not kept.exists():
        sys.exit(f"The tests could not be run:\n{bench.output()[-3000:]}")
    recorded = json.loads(kept.read_text("utf-8"))
    red = [test_id for test_id, test in recorded.items() if not test.get("is_green")]
    print(f"{len(recorded)} tests in {time.monotonic() - began:.0f} s; not green, and not used: {red}", flush=True)
    return Callers(recorded)


def try_mutant(bench: Bench, callers: Callers, one: Mutation, most_seconds: float) -> Outcome:
    file = bench.root / one.path
    source, key = file.read_text("utf-8"), key_of(bench.root, one)
    tests = list(_within(callers.of(one), most_seconds))
    file.write_text(one.apply(source), "utf-8")
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    try:
        first, rest = tests[:FIRST_TESTS], tests[FIRST_TESTS:]
        failed = _first_failure(bench, first) or _first_failure(bench, rest)
    finally:
        file.write_text(source, "utf-8")
    if failed:
        callers.note_catch(one, failed)
    return Outcome(one, key, failed, len(tests))


def _first_failure(bench: Bench, tests: list[Test]) -> str:
    """Return the first failing test. A slow one must fail twice, because a busy machine may delay it."""
    while tests:
        verdict = bench.run([test.id for test in tests], GRACE_SECONDS + SLOWER * sum(test.seconds for test in tests))
        named = [test for test in tests if test.id == verdict.failed]
        if not named or named[0].seconds < QUICK_SECONDS:
            return verdict.failed
        again = bench.run([named[0].id], GRACE_SECONDS + SLOWER * named[0].seconds)
        if again.failed:
            return named[0].id
        tests = [test for test in tests if test is not named[0]]
    return ""


def _within(tests: Sequence[Test], seconds: float) -> Iterator[Test]:
    spent = 0.0
    for number, test in enumerate(tests):
        spent += test.seconds
        if number and spent > seconds:
            return
        yield test


def choose(root: Path, count: int, seed: int, only: str) -> list[Mutation]:
    paths = sorted({str(path.relative_to(root)) for pattern in MODULES for path in root.glob(pattern)})
    selected = [one for path in paths if path.startswith(only) for one in mutations_of(root, path)]
    random.Random(seed).shuffle(selected)
    chosen: list[Mutation] = []
    for one in selected:
        if len(chosen) == count:
            break
        if is_another_program(root, one):
            chosen.append(one)
    print(f"{len(chosen)} of {len(selected)} possible mutants of {len(paths)} modules, seed {seed}", flush=True)
    return chosen


class Key(NamedTuple):
    """Identifies a mutant independently of changes in other lines of the file."""

    file: str
    was: str
    becomes: str


def key_of(root: Path, one: Mutation) -> Key:
    was, becomes = one.lines((root / one.path).read_text("utf-8"))
    return Key(one.path, " ".join(was.split()), " ".join(becomes.split()))


def read_reasons() -> dict[Key, str]:
    listed = tomllib.loads(REASONS.read_text("utf-8")).get("survivor", [])
    return {Key(one["file"], one["was"], one["becomes"]): one["reason"] for one in listed}


def report(outcomes: Sequence[Outcome], reasons: dict[Key, str]) -> bool:
    """Print the result. Returns whether enough mutants were killed and every survivor is explained."""
    survivors = [outcome for outcome in outcomes if not outcome.failed]
    unexplained = [outcome for outcome in survivors if outcome.key not in reasons]
    share = 1 - len(survivors) / max(len(outcomes), 1)
    print(f"\n{len(outcomes)} mutants, {len(outcomes) - len(survivors)} caught ({share:.1%}), "
          f"{len(survivors)} survived, {len(unexplained)} of these without a reason in {REASONS.name}")  # fmt: skip
    return share >= LEAST_CAUGHT and not unexplained


def _show(number: int, outcome: Outcome, reasons: dict[Key, str]) -> None:
    one = outcome.mutation
    place = f"{number} {one.path}:{one.line} {one.operator}"
    if outcome.failed:
        print(f"caught   {place}: {outcome.failed}", flush=True)
        return
    changed = f"    - {outcome.key.was}\n    + {outcome.key.becomes}"
    print(
        f"SURVIVED {place} ({outcome.tests} tests)\n{changed}\n    {reasons.get(outcome.key, 'no reason')}", flush=True
    )


def _end_group(process: ForkProcess) -> None:
    """Kill a fork with the processes that its tests started."""
    with suppress(ProcessLookupError):
        if process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Do the tests notice small faults in the code?")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--only", default="", help="modules whose path begins with this")
    parser.add_argument("--callers", type=Path, help="keep which tests call what in this file, or use it if it exists")
    parser.add_argument("--part", default="1/1", help="of the sample, to try parts of it side by side: 1/2 and 2/2")
    parser.add_argument("--most-seconds", type=float, default=120, help="of tests for one mutant, as recorded")
    options = parser.parse_args(arguments)
    for name in LIBRARIES:
        importlib.import_module(name)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    reasons, outcomes = read_reasons(), []
    with tempfile.TemporaryDirectory(prefix="edge-mutants-") as folder:
        bench = Bench(Path(folder))
        part, shares = map(int, options.part.split("/"))
        chosen = choose(bench.root, options.count, options.seed, options.only)[part - 1 :: shares]
        callers = record_callers(bench, options.callers)
        for number, one in enumerate(chosen, start=1):
            outcomes.append(try_mutant(bench, callers, one, options.most_seconds))
            _show(number, outcomes[-1], reasons)
    return 0 if report(outcomes, reasons) else 1


if __name__ == "__main__":
    sys.exit(main())
