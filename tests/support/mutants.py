"""Draw small mistakes for each room, and find out which of them the tests see.

`PYTHONPATH=tests python -m support.mutants draw` writes `tests/data/mutants.csv`, 40 mutants of a
room. In a clone of its own, whose sources it changes, `plant` puts all of them into the code, each
with a switch; `reach` runs all tests and notes which of them come to which mutant; `kill` runs, for
each mutant, tests that come to it, until one fails.

The list is of the code of commit 31fb97370, with the tests of that commit. Mutants without
`n_tests` have not been tried yet: in a clone of that commit, `kill` goes on with them after `plant`
and `reach`.
"""

from __future__ import annotations

import ast
import copy
import csv
import json
import os
import random
import site
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "data" / "mutants.csv"
REACHED = ROOT / "build" / "mutants"
PACKAGES = ("obygaze_features", "obygaze_models", "obygaze")
N_OF_A_ROOM = 40
SEED = 12
# Tests of so many seconds are tried first for a mutant, then of so many more.
FIRST_S, MORE_S = 8.0, 24.0
# A mutant that never ends is killed.
HANGS_AFTER_S = 300
# They read the sources, or compare times; a planted source is another one.
NOT_ASKED = ("tests/test_", "tests/benchmarks", "tests/golden")

SWITCH = '''
"""Say which mutant is on, and note which of them a test comes to."""
import builtins, os
ON = int(os.environ.get("MUTANT", "-1"))
INTO = os.environ.get("MUTANTS_REACHED")
SEEN = set()
def mutant(number):
    if INTO:
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        if (number, test) not in SEEN:
            SEEN.add((number, test))
            with open(os.path.join(INTO, str(os.getpid())), "a") as file:
                file.write(f"{number}\\t{test}\\n")
    return number == ON
builtins._mutant_ = mutant
'''


@dataclass(frozen=True)
class Mutant:
    """A mistake at one place of a function, and what is known of it."""

    room: str
    file: str
    function: str
    line: int
    before: str
    after: str
    n_tests: str = ""
    killed_by: str = ""


COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}


def changed(node: ast.AST) -> ast.expr | None:
    """Return an expression with a mistake; None where this tool makes none."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        other: ast.Compare = copy.deepcopy(node)
        other.ops[0] = COMPARED[type(node.ops[0])]()
        return other
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        return ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right)
    if isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return ast.BoolOp(other_op, node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return ast.Constant(node.value + 1)
    return None


@dataclass
class Place:
    """An expression that can be changed: where it hangs in the tree."""

    function: str
    parent: ast.AST
    field: str
    index: int | None
    before: ast.expr
    after: ast.expr


def places(tree: ast.Module) -> Iterator[Place]:
    """Return all places in the functions of a module."""
    for node, name in _functions(tree, ""):
        if "compiled" not in ast.dump(node):
            for statement in node.body:
                yield from _places(statement, name)


def _functions(tree: ast.AST, outer: str) -> Iterator[tuple[ast.FunctionDef, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node, outer + node.name
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{outer}{node.name}.")


# What is in them is no expression that runs when the function does.
_APART = (ast.AnnAssign, ast.JoinedStr, ast.arguments, ast.Match, ast.ClassDef)


def _places(parent: ast.AST, function: str) -> Iterator[Place]:
    for field, value in ast.iter_fields(parent):
        if field in ("decorator_list", "returns", "annotation", "type_params"):
            continue
        nodes = value if isinstance(value, list) else [value]
        for index, node in enumerate(nodes):
            if not isinstance(node, ast.AST) or isinstance(node, _APART):
                continue
            after = changed(node)
            if (
                after is None
                and isinstance(parent, ast.If | ast.IfExp)
                and field == "test"
            ):
                after = ast.UnaryOp(ast.Not(), node)  # type: ignore[arg-type]
            if isinstance(parent, ast.Expr) and isinstance(node, ast.Call):
                after = ast.Constant(None)
            if after is not None and isinstance(node, ast.expr):
                at = index if isinstance(value, list) else None
                yield Place(function, parent, field, at, node, after)
            yield from _places(node, function)


def rooms() -> dict[str, list[Path]]:
    """Return the modules of each room."""
    found = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            room = "/".join(parts[:2]) if len(parts) > 2 else "other"
            found["other" if room == "obygaze/demo" else room].append(path)
    return found


def draw() -> list[Mutant]:
    """Return the mutants of all rooms, the same for the same sources."""
    mutants = []
    for room, paths in rooms().items():
        candidates = []
        for path in paths:
            file = path.relative_to(ROOT).as_posix()
            for place in places(ast.parse(path.read_text("utf-8"))):
                candidates.append(Mutant(room, file, *_texts(place)))
        random.Random(SEED).shuffle(candidates)
        mutants += sorted(
            candidates[:N_OF_A_ROOM], key=lambda one: (one.file, one.line)
        )
    return mutants


def read_list() -> list[Mutant]:
    """Return the mutants of the list."""
    with LIST.open(encoding="utf-8", newline="") as file:
        return [
            Mutant(**(row | {"line": int(row["line"])})) for row in csv.DictReader(file)
        ]  # type: ignore[arg-type]


def write_list(mutants: Sequence[Mutant]) -> None:
    """Write the list."""
    with LIST.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(asdict(mutants[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, mutants))


def plant() -> None:
    """Put all mutants into the sources of this checkout, each with a switch."""
    of_file = defaultdict(list)
    for number, mutant in enumerate(read_list()):
        of_file[mutant.file].append((number, mutant))
    for name, mutants in of_file.items():
        path = ROOT / name
        tree = ast.parse(path.read_text("utf-8"))
        there = defaultdict(list)
        for place in places(tree):
            there[_texts(place)].append(place)
        planted = [
            (
                number,
                there[mutant.function, mutant.line, mutant.before, mutant.after].pop(0),
            )
            for number, mutant in mutants
        ]
        for number, place in planted:
            _plant(place, number)
        text = ast.unparse(ast.fix_missing_locations(tree))
        path.write_text(text + "\n", "utf-8")
    packages = Path(site.getsitepackages()[0])
    (packages / "_mutants.py").write_text(SWITCH, "utf-8")
    (packages / "_mutants.pth").write_text("import _mutants\n", "utf-8")


def _texts(place: Place) -> tuple[str, int, str, str]:
    after = ast.unparse(ast.fix_missing_locations(place.after))
    return place.function, place.before.lineno, ast.unparse(place.before), after


def _plant(place: Place, number: int) -> None:
    call = ast.Call(ast.Name("_mutant_", ast.Load()), [ast.Constant(number)], [])
    # The places inside it stay those of the tree: they may be planted later.
    both = ast.IfExp(call, copy.deepcopy(place.after), place.before)
    if place.index is None:
        setattr(place.parent, place.field, both)
    else:
        getattr(place.parent, place.field)[place.index] = both


def reach() -> None:
    """Run all tests once, and note which of them come to which mutant."""
    into = REACHED / "reached"
    into.mkdir(parents=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-q"),
            *("-p", "support.mutants_plugin"),
        ],
        cwd=ROOT,
        env=os.environ | {"MUTANTS_REACHED": str(into)},
        check=False,
    )


def tests_of_mutants() -> dict[int, dict[str, float]]:
    """Return the tests that come to each mutant, and pass without it, with their seconds."""
    seconds = {}
    for path in REACHED.glob("seconds-*"):
        for line in path.read_text("utf-8").splitlines():
            test, took = line.split("\t")
            seconds[test] = float(took)
    of_file = defaultdict(list)
    for test in seconds:
        of_file[test.partition("::")[0]].append(test)
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for path in (REACHED / "reached").iterdir():
        for line in path.read_text("utf-8").splitlines():
            number, _, test = line.partition("\t")
            test, _, stage = test.rpartition(" (")
            # What a fixture of a module comes to, is of all its tests.
            tests = of_file[test.partition("::")[0]] if stage == "setup)" else [test]
            found[int(number)].update(
                {one: seconds[one] for one in tests if one in seconds}
            )
    return found


def kill() -> None:
    """Run tests for each mutant until one fails, and write what was found into the list.

    Mutants that were tried before are left out, so that a stopped search goes on.
    """
    mutants = read_list()
    tests = tests_of_mutants()
    n_processes = int(os.environ.get("JOBS", "2"))
    with ThreadPoolExecutor(n_processes) as pool:
        jobs = {}
        for number, mutant in enumerate(mutants):
            if not mutant.n_tests:
                job = pool.submit(_killer, number, mutant, tests.get(number, {}))
                jobs[job] = number
        for job in as_completed(jobs):
            number = jobs[job]
            n_tests = str(len(tests.get(number, {})))
            found = replace(mutants[number], n_tests=n_tests, killed_by=job.result())
            mutants[number] = found
            write_list(mutants)


def _killer(number: int, mutant: Mutant, tests: dict[str, float]) -> str:
    """Return the test that fails with a mutant; "" if none of those that were tried does."""
    # Those of its own room first, then quick ones.
    own = "tests/" + mutant.room + "/"
    order = sorted(tests, key=lambda test: (not test.startswith(own), tests[test]))
    at_most = FIRST_S
    while order:
        taken, spent = [], 0.0
        while order and (not taken or spent + tests[order[0]] <= at_most):
            spent += tests[order[0]]
            taken.append(order.pop(0))
        found = _failing(number, taken)
        if found or at_most == MORE_S:
            return found
        at_most = MORE_S
    return ""


def _failing(number: int, tests: Sequence[str]) -> str:
    names = REACHED / f"tests-{number}"
    names.write_text("\n".join(tests), "utf-8")
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--tb=no"),
                *("-p", "no:cacheprovider", f"@{names}"),
            ],
            cwd=ROOT,
            env=os.environ | {"MUTANT": str(number)},
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no end"
    for line in done.stdout.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" - ")[0].split(" ", 1)[1]
    lost = [test for test in tests if f"/{test}\n" in done.stderr]
    if lost:
        # Where one of them is not found, pytest runs none, which says nothing of the mutant.
        others = [test for test in tests if test not in lost]
        return _failing(number, others) if others else ""
    return "" if done.returncode == 0 else f"pytest ended with {done.returncode}"


def tell() -> None:
    """Print how many mutants of each room were reached and killed."""
    print(f"{'room':34}{'drawn':>7}{'reached':>9}{'killed':>8}")
    of_room = defaultdict(list)
    for mutant in read_list():
        of_room[mutant.room].append(mutant)
    for room, mutants in of_room.items():
        reached = [mutant for mutant in mutants if mutant.n_tests not in ("", "0")]
        killed = [mutant for mutant in reached if mutant.killed_by]
        print(f"{room:34}{len(mutants):7}{len(reached):9}{len(killed):8}")


if __name__ == "__main__":
    began = time.monotonic()
    verb = sys.argv[1]
    if verb == "draw":
        write_list(draw())
    else:
        {"plant": plant, "reach": reach, "kill": kill, "tell": tell}[verb]()
    print(json.dumps({"seconds": round(time.monotonic() - began)}))
