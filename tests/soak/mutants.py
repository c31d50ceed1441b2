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
import hashlib
import importlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from tests.soak.mutation_bench import ROOT, Bench, Program, Test, Verdict
from tests.soak.mutations import Mutation, is_another_program, mutations_of
from tests.soak.replaced_code import differs_at_import

REASONS = Path(__file__).with_name("survivors.toml")
MODULES = (
    "edge/events/log.py",
    "edge/events/detection.py",
    "edge/events/progress.py",
    "edge/handhelds/scans.py",
    "edge/handhelds/stock_takes.py",
    "edge/ingest/held_messages.py",
    "edge/ingest/receipts.py",
    "edge/readers/kept_messages.py",
    "edge/readers/matching.py",
    "edge/sync/store/change_feed.py",
    "edge/sync/store/epochs.py",
    "edge/sync/store/hub_link.py",
    "edge/sync/store/incoming.py",
    "edge/sync/store/incoming_stays.py",
    "edge/sync/store/mirrors.py",
    "edge/sync/store/outgoing.py",
    "edge/sync/store/recovered_history.py",
    "edge/tracking/carriers.py",
    "edge/tracking/decision_rule.py",
    "edge/tracking/portal_rule.py",
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
    "tests/pages/handhelds/test_sleds.py",
    "tests/pages/handhelds/test_stock_takes.py",
    "tests/pages/readers/test_readers.py",
    "tests/pages/readers/test_inbox.py",
    "tests/pages/test_sync.py",
    "tests/pages/test_events.py",
    "tests/api/test_tracking.py",
    "tests/operations/test_retention.py",
    "tests/security/test_hostile_site.py",
    "tests/security/test_positions_of_people.py",
    "tests/doors",
    "tests/feed",
    "tests/systemd/test_output_accounts.py",
    "tests/systemd/test_mosquitto.py",
    "tests/rules/outputs",
)  # fmt: skip
LIBRARIES = (
    "hypothesis", "flask", "waitress", "peewee", "msgspec",
    "paho.mqtt.client", "jwt", "pyrage", "biip", "epcpy", "jmespath", "yaml", "ulid", "prometheus_client",
    "reportlab.pdfgen.canvas", "segno", "PIL.Image", "babel.messages.pofile", "click", "jsonschema",
)  # fmt: skip
LEAST_CAUGHT = 0.9
NAMED_AFTER = 3  # a test of the module that is named after it goes first even if it takes three times as long


class Callers:
    """Tests by called function. Quick tests, and those that killed a mutant of the module, come first."""

    def __init__(self, tests: dict[str, Any]) -> None:
        self._by_function: dict[str, list[Test]] = {}
        self._by_module: dict[str, list[Test]] = {}
        self._of_constants: list[Test] = []  # they call no function
        self._catches: Counter[tuple[str, str]] = Counter()
        for test_id, recorded in tests.items():
            if not recorded.get("is_green"):
                continue
            test = Test(test_id, recorded["seconds"])
            if not recorded["functions"]:
                self._of_constants.append(test)
            for function in recorded["functions"]:
                self._by_function.setdefault(function, []).append(test)
            for module in {function.split("::")[0] for function in recorded["functions"]}:
                self._by_module.setdefault(module, []).append(test)

    def of(self, one: Mutation) -> list[Test]:
        selected = {test for name in one.functions for test in self._by_function.get(f"{one.path}::{name}", ())}
        selected = selected or set(self._by_module.get(one.path, ()))  # code run at import, or called by no test
        called_after = f"/test_{Path(one.path).stem}"
        selected |= {test for test in self._of_constants if imports(test, one.path)}

        variants: Counter[str] = Counter()
        prices = {}
        for test in sorted(selected, key=lambda test: test.seconds):
            name = test.id.partition("[")[0]
            variants[name] += 1  # of one test with several parameters, few kill what the first one does not
            bonus = NAMED_AFTER * (called_after in test.id) + 10 * self._catches[one.path, test.id]
            prices[test] = test.seconds * variants[name] / (1 + bonus)
        return sorted(selected, key=prices.__getitem__)

    def note_catch(self, one: Mutation, test_id: str) -> None:
        self._catches[one.path, test_id] += 1

    def first(self, one: Mutation, test_id: str) -> list[Test]:
        """Return the tests to run, with the one that caught this mutant earlier in the first place."""
        return sorted(self.of(one), key=lambda test: test.id != test_id)


def imports(test: Test, path: str) -> bool:
    """True if the file of the test imports this module."""
    *package, module = Path(path).with_suffix("").parts
    name = ".".join(package)
    pattern = rf"^from {re.escape(name)}(\.{module} import|\s+import [^#\n]*\b{module}\b)"
    return re.search(pattern, _source(test.id.partition("::")[0]), re.MULTILINE) is not None


@cache
def _source(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


class Outcome(NamedTuple):
    key: Key
    functions: list[str]
    place: str
    failed: str  # the test that caught it; empty if it survived
    why: str  # "failed", "hangs" or "ended its process"
    seconds: float
    passed: list[str]  # tests that a survivor passed


def record_callers(folder: Path, file: Path | None) -> Callers:
    """Run all tests once, unless the file has the result of an earlier run."""
    kept = file.absolute() if file else folder / "callers.json"
    if not kept.exists():
        began = time.monotonic()
        environment = os.environ | {"CALLERS": str(kept), "PYTHONPATH": f"{ROOT}:{ROOT / 'tests/soak'}"}
        options = ("-o", "addopts=", "-q", "-p", "callers", "-W", "ignore::pytest.PytestAssertRewriteWarning")
        subprocess.run([sys.executable, "-m", "pytest", *options, *TESTS], cwd=ROOT, env=environment, check=False)
        print(f"recorded in {time.monotonic() - began:.0f} s", flush=True)
    recorded = json.loads(kept.read_text("utf-8"))
    red = [test_id for test_id, test in recorded.items() if not test.get("is_green")]
    print(f"{len(recorded)} recorded tests; not green, and not used: {red}", flush=True)
    return Callers(recorded)


def refuse_unrecorded(callers: Callers, chosen: Sequence[Mutation]) -> None:
    """Stop if a module has no recorded caller: without tests each of its mutants would survive."""
    if missing := sorted({one.path for one in chosen if not callers.of(one)}):
        sys.exit(f"No recorded test calls {', '.join(missing)}. Delete the file of --callers and run again.")


def try_mutant(
    bench: Bench,
    callers: Callers,
    one: Mutation,
    most_seconds: float,
    before: Outcome | None = None,
    caught_by: str = "",
) -> Outcome:
    """Run the tests that call the mutated function, without those that the mutant passed `before`.

    `caught_by` is the test that caught it in an earlier run.
    """
    began = time.monotonic()
    source = (bench.root / one.path).read_text("utf-8")
    mutated = one.apply(source)
    program = Program(one.path, source, mutated, differs_at_import(source, mutated, one.functions))
    passed = before.passed if before else []
    tests = list(_within([test for test in callers.first(one, caught_by) if test.id not in passed], most_seconds))
    verdict = _first_failure(bench, tests, program)
    if verdict.test:
        callers.note_catch(one, verdict.test)
    else:
        passed = [*passed, *(test.id for test in tests)]
    seconds = round(time.monotonic() - began, 1)
    return Outcome(
        key_of(bench.root, one), list(one.functions), f"{one.path}:{one.line} {one.operator}", *verdict, seconds, passed
    )


def _first_failure(bench: Bench, tests: list[Test], program: Program) -> Verdict:
    """Return the first failing test. It must fail alone, too, and pass without the mutant."""
    while tests:
        verdict = bench.run(tests, program)
        place = next((number for number, test in enumerate(tests) if test.id == verdict.test), None)
        if place is None:
            return verdict
        if not bench.run([tests[place]], None).test:
            again = bench.run([tests[place]], program)
            if again.test:
                return again
        print(f"not used, because it fails without the mutant or not always: {verdict.test}", flush=True)
        tests = tests[place + 1 :]
    return Verdict()


def _within(tests: Sequence[Test], seconds: float) -> Iterator[Test]:
    spent = 0.0
    for number, test in enumerate(tests):
        spent += test.seconds
        if number and spent > seconds:
            return
        yield test


def choose(root: Path, count: int, seed: int, only: str) -> list[Mutation]:
    """Choose by a hash of the seed and the change, not by position: changes of other code keep the sample."""
    paths = sorted({str(path.relative_to(root)) for pattern in MODULES for path in root.glob(pattern)})
    possible = [one for path in paths if path.startswith(only) for one in mutations_of(root, path)]
    numbered: Counter[tuple[object, ...]] = Counter()
    ranked = []
    for one in possible:
        identity = (*key_of(root, one), one.functions, one.operator)
        numbered[identity] += 1
        text = repr((seed, identity, numbered[identity]))
        ranked.append((hashlib.sha256(text.encode()).digest(), one))
    ranked.sort(key=lambda pair: pair[0])
    chosen = list(islice((one for _, one in ranked if is_another_program(root, one)), count))
    print(f"{len(chosen)} of {len(possible)} possible mutants of {len(paths)} modules, seed {seed}", flush=True)
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


class Results:
    """Outcomes, kept in a file if there is one. A later run tries the survivors again, with the other tests."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        lines = file.read_text("utf-8").splitlines() if file and file.exists() else []
        kept = [Outcome(Key(*key), *rest) for key, *rest in map(json.loads, lines)]
        self._by_key = {self._key(one): one for one in sorted(kept, key=lambda one: bool(one.failed))}

    def of(self, root: Path, one: Mutation) -> Outcome | None:
        return self._by_key.get((*key_of(root, one), *one.functions))

    def keep(self, outcome: Outcome) -> None:
        self._by_key[self._key(outcome)] = outcome
        if self._file:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(outcome) + "\n")

    def _key(self, outcome: Outcome) -> tuple[str, ...]:
        return *outcome.key, *outcome.functions


def report(outcomes: Sequence[Outcome], chosen: int, reasons: dict[Key, str]) -> bool:
    """Print the result. Returns whether enough mutants were killed and every survivor is explained."""
    survivors = [outcome for outcome in outcomes if not outcome.failed]
    hanging = [outcome for outcome in outcomes if outcome.why == "hangs"]
    unexplained = [outcome for outcome in survivors if outcome.key not in reasons]
    share = 1 - len(survivors) / max(len(outcomes), 1)
    for outcome in unexplained:
        _show(0, outcome, reasons)
    print(
        f"\n{len(outcomes)} of {chosen} mutants tried, {len(outcomes) - len(survivors)} caught ({share:.1%}), "
        f"{len(hanging)} of these because a test hangs; {len(survivors)} survived, "
        f"{len(unexplained)} of these without a reason in {REASONS.name}"
    )
    return share >= LEAST_CAUGHT and not unexplained and len(outcomes) == chosen


def _show(number: int, outcome: Outcome, reasons: dict[Key, str]) -> None:
    place = f"{number} {outcome.place} {outcome.seconds} s"
    if outcome.failed:
        print(f"caught   {place}: {outcome.failed} ({outcome.why})", flush=True)
        return
    print(
        f"SURVIVED {place} ({len(outcome.passed)} tests)\n    - {outcome.key.was}\n    + {outcome.key.becomes}\n"
        f"    {reasons.get(outcome.key, 'no reason')}",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Do the tests notice small faults in the code?")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--only", default="", help="modules whose path begins with this")
    parser.add_argument("--callers", type=Path, help="keep which tests call what in this file, or use it if it exists")
    parser.add_argument("--part", default="1/1", help="of the sample, to try parts of it side by side: 1/2 and 2/2")
    parser.add_argument("--most-seconds", type=float, default=120, help="of tests for one mutant, as recorded")
    parser.add_argument("--results", type=Path, help="keep each result in this file, for `--report` and later runs")
    parser.add_argument("--earlier", type=Path, help="results of another run: its failing tests are tried first")
    parser.add_argument("--report", action="store_true", help="run nothing; report the results in the file")
    options = parser.parse_args(arguments)
    reasons, results = read_reasons(), Results(options.results)
    part, shares = map(int, options.part.split("/"))
    chosen = choose(ROOT, options.count, options.seed, options.only)[part - 1 :: shares]
    if not options.report:
        _try_all(chosen, options, reasons, results)
    outcomes = [outcome for one in chosen if (outcome := results.of(ROOT, one))]
    return 0 if report(outcomes, len(chosen), reasons) else 1


def _try_all(
    chosen: Sequence[Mutation], options: argparse.Namespace, reasons: dict[Key, str], results: Results
) -> None:
    """Try each mutant, those that were never tried first."""
    for name in LIBRARIES:
        importlib.import_module(name)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    earlier = Results(options.earlier)
    with tempfile.TemporaryDirectory(prefix="edge-mutants-") as folder:
        callers = record_callers(Path(folder), options.callers)
        refuse_unrecorded(callers, chosen)
        with Bench(Path(folder), TESTS) as bench:
            in_order = sorted(chosen, key=lambda one: results.of(bench.root, one) is not None)
            for number, one in enumerate(in_order, start=1):
                before = results.of(bench.root, one)
                if before and before.failed:
                    continue
                caught = earlier.of(bench.root, one)
                outcome = try_mutant(bench, callers, one, options.most_seconds, before, caught.failed if caught else "")
                results.keep(outcome)
                _show(number, outcome, reasons)


if __name__ == "__main__":
    sys.exit(main())
