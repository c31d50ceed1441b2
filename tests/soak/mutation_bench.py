"""Run tests against a mutated copy of the tree, in forks of a process that has already collected all tests.

A fork takes some milliseconds; starting Python, importing edge and collecting tests takes seconds. The mutant is put
into the fork by replacing the code of its functions. Changes of code that runs at import need their own process.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("edge", "tests", "web", "data", "systemd", ".ci", "README.md", "pyproject.toml")
SLOWER = 6  # a test that takes this multiple of its recorded time hangs
LEAST_SECONDS = 5.0  # for each test
IMPORT_SECONDS = 300.0
WARM_UP_FIXTURE = "cast"  # makes the database that the other tests copy


class Test(NamedTuple):
    id: str
    seconds: float

    @property
    def most_seconds(self) -> float:
        """Time limit, longer if the machine is busy."""
        return (LEAST_SECONDS + SLOWER * self.seconds) * max(os.getloadavg()[0] / (os.cpu_count() or 1), 1)


class Verdict(NamedTuple):
    """First test that did not pass, and why: it failed, hangs, or ended its process. Empty if all passed."""

    test: str = ""
    why: str = ""


class Program(NamedTuple):
    """A module of the tree with its original and its mutated text."""

    path: str
    original: str
    mutated: str
    runs_at_import: bool


class Bench:
    """A copy of the tree, and a process that runs tests in it. Use as a context manager."""

    def __init__(self, folder: Path, tests: Sequence[str]) -> None:
        self.root = folder / "tree"
        self.output = folder / "output"
        self._folder = folder
        self._tests = tests
        self.root.mkdir()
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.root / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
            else:
                shutil.copy(source, self.root / name)

    def __enter__(self) -> Bench:
        self._requests, theirs = multiprocessing.get_context("fork").Pipe()
        self._collector = os.fork()
        if not self._collector:
            self._requests.close()
            self._prepare()
            pytest.main(
                [*_OPTIONS, f"--basetemp={self._folder / 'collector'}", *self._tests],
                plugins=[_Collector(theirs, self._folder)],
            )
            os._exit(0)
        theirs.close()
        self._requests.recv()  # before that, it would import a mutated module
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._requests.close()
        with suppress(ProcessLookupError):
            os.kill(self._collector, signal.SIGTERM)
        os.waitpid(self._collector, 0)

    def run(self, tests: Sequence[Test], program: Program | None) -> Verdict:
        """Run the tests in this order until one does not pass."""
        if program is None:
            return self._ask(tests, None) or Verdict()
        file = self.root / program.path
        file.write_text(program.mutated, "utf-8")  # for processes that tests start
        try:
            verdict = None if program.runs_at_import else self._ask(tests, program)
            return verdict if verdict is not None else self._run_in_new_process(tests)
        finally:
            file.write_text(program.original, "utf-8")

    def _ask(self, tests: Sequence[Test], program: Program | None) -> Verdict | None:
        self._requests.send(([tuple(test) for test in tests], program and tuple(program)))
        answer = self._requests.recv()
        return Verdict(*answer) if answer is not None else None

    def _run_in_new_process(self, tests: Sequence[Test]) -> Verdict:
        def run(report: Callable[..., None]) -> None:
            self._prepare()
            files = sorted({test.id.split("::")[0] for test in tests})
            arguments = [*_OPTIONS, f"--basetemp={self._folder / 'single'}", *files]
            code = pytest.main(arguments, plugins=[_InOrder(tests, report)])
            if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
                report(begins="import")
                report(fails="import")

        return _supervise(run, tests) or Verdict()

    def _prepare(self) -> None:
        with self.output.open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os.chdir(self.root)
        for name in [name for name in sys.modules if name.split(".")[0] in ("edge", "tests")]:
            del sys.modules[name]
        sys.path.insert(0, str(self.root))
        os.environ["PYTHONPATH"] = str(self.root)
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


_OPTIONS = ("-o", "addopts=", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")


class _Collector:
    """Answers requests in place of running the collected tests."""

    def __init__(self, requests: Connection, folder: Path) -> None:
        self._requests = requests
        self._folder = folder

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        with_database = [item for item in session.items if WARM_UP_FIXTURE in getattr(item, "fixturenames", ())]
        if len(with_database) > 1:
            first, second = with_database[:2]
            first.config.hook.pytest_runtest_protocol(item=first, nextitem=second)
        self._requests.send("ready")
        with suppress(EOFError):
            while True:
                tests, program = self._requests.recv()
                answer = self._answer(items, [Test(*one) for one in tests], program and Program(*program))
                self._requests.send(None if answer is None else tuple(answer))
        return True

    def _answer(self, items: dict[str, pytest.Item], tests: Sequence[Test], program: Program | None) -> Verdict | None:
        """Return None if the program cannot be put into a process that runs already."""
        from tests.soak.replaced_code import replace_code

        known = [test for test in tests if test.id in items]

        def run(report: Callable[..., None]) -> None:
            if program and not replace_code(str(Path.cwd() / program.path), program.original, program.mutated):
                report(is_refused=True)
                return
            chosen = [items[test.id] for test in known]
            factory = chosen[0].config._tmp_path_factory  # type: ignore[attr-defined]
            factory._basetemp = self._folder / "fork"
            chosen[0].session._setupstate.teardown_exact(chosen[0])  # what only the warm-up needs
            chosen[0].config.pluginmanager.register(recorder := _Recorder())
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                report(begins=item.nodeid)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if recorder.failed:
                    report(fails=item.nodeid)
                    return

        shutil.rmtree(self._folder / "fork", ignore_errors=True)
        (self._folder / "fork").mkdir()
        return _supervise(run, known) if known else Verdict()


class _Recorder:
    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed


class _InOrder(_Recorder):
    """Runs the given tests in their order and reports the first failure."""

    def __init__(self, tests: Sequence[Test], report: Callable[..., None]) -> None:
        super().__init__()
        self._place = {test.id: number for number, test in enumerate(tests)}
        self._report = report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._place), key=lambda item: self._place[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._report(begins=nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if self.failed:
            self._report(fails=nodeid)
            os._exit(0)


def _supervise(run: Callable[[Callable[..., None]], None], tests: Sequence[Test]) -> Verdict | None:
    """Run in a fork that reports the test that begins and the one that fails. Each test has its own time limit."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.setsid()

        def report(**line: object) -> None:
            os.write(writing, json.dumps(line).encode() + b"\n")

        try:
            run(report)
            report(ends=True)
        finally:
            sys.stdout.flush()
            os._exit(0)
    os.close(writing)
    try:
        return _follow(reading, {test.id: test for test in tests})
    finally:
        os.close(reading)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # with the processes that its tests started
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _follow(reading: int, tests: dict[str, Test]) -> Verdict | None:
    test, buffer, deadline = "", b"", time.monotonic() + IMPORT_SECONDS
    while True:
        ready, _, _ = select.select([reading], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return Verdict(test or "import", "hangs")
        data = os.read(reading, 65536)
        if not data:
            return Verdict(test or "import", "ended its process")
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in map(json.loads, lines):
            if "is_refused" in line:
                return None
            if "ends" in line:
                return Verdict()
            if "fails" in line:
                return Verdict(line["fails"], "failed")
            test = line["begins"]
            deadline = time.monotonic() + (tests[test].most_seconds if test in tests else IMPORT_SECONDS)
