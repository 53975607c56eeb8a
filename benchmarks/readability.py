"""How dense the code is: syntax nodes, branches, packed statements and vague names, room by room.

    python -m benchmarks.readability obygaze_features obygaze_models obygaze
    python -m benchmarks.readability --rooms obygaze_features
    python -m benchmarks.readability /path/to/site-packages/zarr

Each folder is a row. The numbers compare a tree with itself and with others; none is a limit.
"""

import ast
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click

from obygaze_features.core.console import table

# Names that say what the speaker thought of, not what is in them.
VAGUE = frozenset({"found", "kept", "one", "own", "place", "rest", "told", "what"})
COMPREHENSIONS = (ast.DictComp, ast.GeneratorExp, ast.ListComp, ast.SetComp)
BRANCHES = (
    ast.BoolOp,
    ast.ExceptHandler,
    ast.For,
    ast.If,
    ast.IfExp,
    ast.While,
    ast.comprehension,
    ast.match_case,
)
FUNCTIONS = (ast.AsyncFunctionDef, ast.FunctionDef)
MANY_BRANCHES = 10


@dataclass
class Density:
    """The counts of a tree of modules."""

    n_modules: int = 0
    n_nodes: int = 0
    n_code_lines: int = 0
    n_functions: int = 0
    n_branching: int = 0
    n_packed: int = 0
    n_walrus: int = 0
    n_nested: int = 0
    bindings: Counter[str] = field(default_factory=Counter)

    def add(self, path: Path) -> None:
        """Count a module."""
        tree = ast.parse(path.read_bytes())
        self.n_modules += 1
        self.n_code_lines += code_lines(path)
        for node in ast.walk(tree):
            self.n_nodes += 1
            if isinstance(node, FUNCTIONS):
                self.n_functions += 1
                self.n_branching += branches_of(node) > MANY_BRANCHES
            elif isinstance(node, ast.Assign):
                self.n_packed += is_packed(node)
            elif isinstance(node, ast.NamedExpr):
                self.n_walrus += 1
            elif isinstance(node, COMPREHENSIONS):
                self.n_nested += holds_another(node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.bindings[node.id] += 1

    @property
    def n_vague(self) -> int:
        """The number of bindings of vague names."""
        return sum(n for name, n in self.bindings.items() if name in VAGUE)

    def cells(self) -> list[object]:
        """Return the row of a table."""
        n_lines = max(self.n_code_lines, 1)
        n_bindings = max(self.bindings.total(), 1)
        return [
            self.n_modules,
            self.n_code_lines,
            self.n_nodes,
            f"{self.n_nodes / n_lines:.2f}",
            self.n_branching,
            f"{1e4 * self.n_packed / n_lines:.1f}",
            self.n_walrus,
            self.n_nested,
            f"{100 * self.n_vague / n_bindings:.1f}",
        ]


HEADERS = (
    "tree",
    "modules",
    "lines",
    "nodes",
    "nodes/line",
    f"functions > {MANY_BRANCHES} branches",
    "packed/10,000",
    "walrus",
    "nested",
    "vague %",
)


def branches_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of branches of a function, without those of functions inside it."""
    waiting: list[ast.AST] = [*function.body]
    n_branches = 0
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        n_branches += isinstance(node, BRANCHES)
        waiting += ast.iter_child_nodes(node)
    return n_branches


def is_packed(node: ast.Assign) -> bool:
    """Return whether an assignment binds several values at once: `a, b = 1, 2`."""
    target = node.targets[0]
    return isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)


def holds_another(node: ast.AST) -> bool:
    """Return whether a comprehension holds another one."""
    inner = (other for other in ast.walk(node) if other is not node)
    return any(isinstance(other, COMPREHENSIONS) for other in inner)


def code_lines(path: Path) -> int:
    """Return the number of lines with code: no blank lines, comments or docstrings."""
    lines: set[int] = set()
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in skipped:
                lines.update(range(token.start[0], token.end[0] + 1))
    for first, last in docstrings(ast.parse(path.read_bytes())):
        lines.difference_update(range(first, last + 1))
    return len(lines)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each docstring."""
    for node in ast.walk(tree):
        if (
            not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Module))
            or not node.body
        ):
            continue
        first = node.body[0]
        is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        if is_text and isinstance(first.value.value, str):  # type: ignore[attr-defined]
            yield first.lineno, first.end_lineno or first.lineno


def measure(folder: Path) -> Density:
    """Return the counts of all modules below a folder."""
    density = Density()
    for path in sorted(folder.rglob("*.py")):
        density.add(path)
    return density


def _is_room(path: Path) -> bool:
    return path.is_dir() and path.name != "__pycache__"


@click.command(help=__doc__)
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option("--rooms", is_flag=True, help="A row for each folder inside.")
def main(folders: tuple[Path, ...], rooms: bool) -> None:
    """Print the table."""
    trees = list(folders)
    if rooms:
        trees = []
        for folder in folders:
            trees += [path for path in sorted(folder.iterdir()) if _is_room(path)]
    rows = [[str(tree), *measure(tree).cells()] for tree in trees]
    click.echo(table(HEADERS, rows))


if __name__ == "__main__":
    main()
