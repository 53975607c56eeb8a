"""`python -m support.mutation ROOM [SEED] [DRAWS] [TESTS]`: do tests see random changes?

One operator, comparison, number or truth value of the room is changed in a copy of the tree, and
the tests of the room that call the changed function are run, the quickest first; where a fixture
calls it, all tests of the file. Prints a line for each change: where, what was changed, and the
test that saw it. A change with which nothing can be imported is not counted.

A room is a folder or file of a package (`evaluation`, `store`, `audits`,
`extraction/loop`), or a path; several are separated by commas. Its tests are in the folder or
the files of that name in tests/; a file without such tests is proven by the tests of its folder.
TESTS are others, separated by commas. Tests with a `check` mark are left out.
"""

from __future__ import annotations

import ast
import importlib
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PYTEST_OPTIONS = ("-q", "-p", "no:cacheprovider", "--tb=no", "-m", "not check")
PACKAGES = ("obygaze", "obygaze_features", "obygaze_models")
ERROR_AT_IMPORT = (2, 3, 4)
ALL_PASSED = (0, 5)  # 5: every test that calls it is left out
OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
# Messages, types, decorators and `strict=` compute nothing; Python 3.11 misplaces what is in an
# f-string.
LEFT_ALONE = (ast.Raise, ast.JoinedStr, ast.Assert)
LEFT_ALONE_FIELDS = ("annotation", "returns", "decorator_list")


@dataclass(frozen=True)
class Change:
    """Replace `old` by `new` at a place of a file; `function` is the line of its function."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str
    function: int


def changes_of(path: str, text: bytes) -> list[Change]:
    """Return every change of a file, in the order of its lines."""
    line_starts = [0]
    for line in text.splitlines(keepends=True):
        line_starts.append(line_starts[-1] + len(line))
    changes = []
    for node, function in _nodes(ast.parse(text), 0):
        changed = _changed(node)
        if changed is None:
            continue
        start = line_starts[node.lineno - 1] + node.col_offset
        end = line_starts[node.end_lineno - 1] + node.end_col_offset
        old = ast.unparse(node)
        changes.append(
            Change(path, node.lineno, start, end, old, f"({changed})", function)
        )
    return changes


def _nodes(node: ast.AST, function: int) -> Iterator[tuple[Any, int]]:
    is_strict = isinstance(node, ast.keyword) and node.arg == "strict"
    if is_strict or isinstance(node, LEFT_ALONE):
        return
    if isinstance(node, ast.FunctionDef):
        function = min(
            [node.lineno, *(decorator.lineno for decorator in node.decorator_list)]
        )
    yield node, function
    for name, value in ast.iter_fields(node):
        if name in LEFT_ALONE_FIELDS:
            continue
        children = value if isinstance(value, list) else [value]
        for child in children:
            if isinstance(child, ast.AST):
                yield from _nodes(child, function)


def _changed(node: Any) -> str | None:
    """Return the changed source of a node, or None where it has nothing to change."""
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        if any(_is_text(side) for side in (node.left, node.right)):
            return None
        return ast.unparse(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))
    if isinstance(node, ast.BoolOp):
        return ast.unparse(ast.BoolOp(OPERATORS[type(node.op)](), node.values))
    if isinstance(node, ast.Compare):
        operators = [OPERATORS[type(node.ops[0])](), *node.ops[1:]]
        return ast.unparse(ast.Compare(node.left, operators, node.comparators))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return ast.unparse(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return repr(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return repr(node.value + 1)
    return None


def _is_text(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr)


@dataclass(frozen=True)
class Unchanged:
    """A room without any change: the tests that call each function, their seconds, which fail.

    A file of tests stands for all of its tests.
    """

    tests: dict[tuple[str, int], set[str]]
    seconds: dict[str, float]
    failed: set[str]


class Callers:
    """A plugin of pytest that notes which tests call which function, which fail, and how long."""

    def __init__(self, files: Iterable[str]) -> None:
        self.names = {str(Path.cwd() / file): file for file in files}
        self.test = ""
        self.tests: dict[tuple[str, int], set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        self.process = os.getpid()
        self.log = Path.cwd() / "mutation-calls.txt"
        self.log.write_bytes(b"")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Follow the calls of one test."""
        # What a fixture computed may be read by other tests of the file.
        self.test = item.nodeid.split("::")[0]
        began = time.monotonic()
        threading.settrace(self._note)
        sys.settrace(self._note)
        yield
        sys.settrace(None)
        self.seconds[item.nodeid] = time.monotonic() - began

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Follow the calls of a test itself, after those of its fixtures."""
        self.test = item.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test that fails without any change."""
        if report.failed:
            self.failed.add(report.nodeid)

    def _note(self, frame: Any, event: str, _: Any) -> None:
        path = self.names.get(frame.f_code.co_filename)
        if path is None:
            return
        line = frame.f_code.co_firstlineno
        if self.test in self.tests[path, line]:
            return
        self._add(path, line, self.test)
        if os.getpid() != self.process:
            with self.log.open("a", encoding="utf-8") as log:
                log.write(f"{path}\t{line}\t{self.test}\n")

    def _add(self, path: str, line: int, test: str) -> None:
        self.tests[path, line].add(test)
        self.tests[path, 0].add(test)

    def add_calls_of_forks(self) -> None:
        """Add what forks of this process have called."""
        for entry in self.log.read_text("utf-8").splitlines():
            path, line, test = entry.split("\t", 2)
            self._add(path, int(line), test)


class QuickestFirst:
    """A plugin of pytest that runs the quickest tests first."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sort the tests."""
        items.sort(key=lambda item: self.seconds.get(item.nodeid, 0.0))


def in_child(work: Callable[[], Any], output: Path, limit_s: float) -> Any:
    """Return what `work` returns in a child that writes to a file, or None after the time limit."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        os.setsid()
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        try:
            sender.send(work())
        finally:
            sys.stdout.flush()
            os._exit(0)
    sender.close()
    answer = None
    if receiver.poll(limit_s):
        try:
            answer = receiver.recv()
        except EOFError:
            answer = -1
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return answer


def run_tests(calling: set[str], unchanged: Unchanged) -> int:
    """Run some tests, or whole files of them, to the first failure; return the exit status."""
    files = {name for name in calling if "::" not in name}
    tests = [name for name in calling if name.split("::")[0] not in files]
    deselected = [word for test in unchanged.failed for word in ("--deselect", test)]
    plugin = QuickestFirst(unchanged.seconds)
    names = sorted([*files, *tests])
    return int(
        pytest.main([*PYTEST_OPTIONS, "-x", *deselected, *names], plugins=[plugin])
    )


def run_unchanged(tests: Sequence[str], files: Sequence[str]) -> Unchanged:
    """Run all tests of some files in this process; return what the plugin noted."""
    callers = Callers(files)
    pytest.main([*PYTEST_OPTIONS, *tests], plugins=[callers])
    callers.add_calls_of_forks()
    return Unchanged(dict(callers.tests), dict(callers.seconds), callers.failed)


def copy_tree(target: Path) -> None:
    """Copy the files that git knows, as they are in the worktree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def room_files(room: str) -> tuple[list[str], list[str]]:
    """Return the files of a room without those of commands, and where its tests are."""
    for path in (Path(room), *(Path(package, room) for package in PACKAGES)):
        if path.is_dir():
            files = [
                file.as_posix()
                for file in path.rglob("*.py")
                if not file.name.startswith("commands")
            ]
            return sorted(files), [nearest_tests(path)]
        file = path.with_suffix(".py")
        if file.is_file():
            folder = nearest_tests(path.parent)
            if not Path(folder, f"test_{path.stem}.py").is_file():
                return [file.as_posix()], [folder]
            named = sorted(Path(folder).glob(f"test_{path.stem}*.py"))
            return [file.as_posix()], [test.as_posix() for test in named]
    raise SystemExit(
        f"no room {room!r}: name a folder or file of a package, such as evaluation, or a path"
    )


def nearest_tests(folder: Path) -> str:
    """Return the folder of tests of a folder, or of the nearest one above it that has tests."""
    for above in (folder, *folder.parents):
        tests = "tests" / above
        if tests.is_dir():
            return tests.as_posix()
    raise AssertionError("the root has tests")


def seen_by(change: Change, calling: set[str], unchanged: Unchanged, stamp: int) -> str:
    """Return which test fails with a change, or 'import' if nothing can be imported with it."""
    if not calling:
        return "NOT SEEN, no test calls it"
    limit_s = 60 + 3 * sum(
        seconds
        for test, seconds in unchanged.seconds.items()
        if not calling.isdisjoint({test, test.split("::")[0]})
    )
    path = Path(change.path)
    text = path.read_bytes()
    path.write_bytes(text[: change.start] + change.new.encode() + text[change.end :])
    # Python takes a compiled file for current when size and time agree.
    os.utime(path, (stamp, stamp))
    output = Path("mutation-output.txt")
    status = in_child(lambda: run_tests(calling, unchanged), output, limit_s)
    path.write_bytes(text)
    shutil.rmtree(".hypothesis", ignore_errors=True)
    if status is None:
        return "seen by the time limit"
    if status in ERROR_AT_IMPORT:
        return "import"
    failed = re.search(
        r"^(?:FAILED|ERROR) (\S+)",
        output.read_text("utf-8", errors="replace"),
        re.MULTILINE,
    )
    if failed:
        return f"seen by {failed[1]}"
    return "NOT SEEN" if status in ALL_PASSED else f"seen by exit status {status}"


def main(room: str, seed: int = 1, draws: int = 20, given: str = "") -> None:
    """Draw changes of a room, and print which of them its tests see."""
    with tempfile.TemporaryDirectory(prefix="obygaze-mutation-") as folder:
        copy_tree(Path(folder))
        os.chdir(folder)
        # Beside the copy there are no data.
        os.environ.setdefault("OBYGAZE_DATA", str(ROOT.parent / "shared" / "data"))
        os.environ.setdefault("OBYGAZE_GOLDEN", str(ROOT.parent / "shared" / "golden"))
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, f"{folder}/tests"])
        sys.path[:] = [folder, *(entry for entry in sys.path if Path(entry) != ROOT)]
        files: set[str] = set()
        tests: set[str] = set()
        for name in room.split(","):
            files_of_room, tests_of_room = room_files(name)
            files.update(files_of_room)
            tests.update(given.split(",") if given else tests_of_room)
        changes = [
            change
            for file in sorted(files)
            for change in changes_of(file, Path(file).read_bytes())
        ]
        where = " ".join(sorted(tests))
        print(
            f"{room}: {len(changes)} changes possible; running {where} once", flush=True
        )
        output = Path("mutation-output.txt")
        unchanged = in_child(
            lambda: run_unchanged(sorted(tests), sorted(files)), output, 3600
        )
        print(
            *output.read_text("utf-8", errors="replace").splitlines()[-1:], flush=True
        )
        for test in sorted(unchanged.failed):
            print(f"left out, fails without any change: {test}", flush=True)
        random.Random(seed).shuffle(changes)
        drawn = []
        for stamp, change in enumerate(changes, start=1_000_000_000):
            if len(drawn) == draws:
                break
            calling = unchanged.tests.get((change.path, change.function), set())
            seen = seen_by(change, calling, unchanged, stamp)
            if seen == "import":
                continue
            drawn.append(seen)
            place = f"{change.path}:{change.line}"
            print(f"{place}: {change.old} -> {change.new}: {seen}", flush=True)
        n_seen = sum(not seen.startswith("NOT SEEN") for seen in drawn)
        print(f"{room}, seed {seed}: {n_seen} of {len(drawn)} seen", flush=True)
        os.chdir(ROOT)


if __name__ == "__main__":
    # A child has these already.
    for module in ("numpy", "pandas", "scipy.stats", "sklearn.linear_model"):
        importlib.import_module(module)
    room, *words = sys.argv[1:]
    numbers = [int(word) for word in words if word.isdigit()]
    main(room, *numbers, given="".join(words[len(numbers) :]))
