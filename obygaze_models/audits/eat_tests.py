"""Association tests between groups of vectors: run, corrected for their number, and explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.audits.association import (
    Association,
    Floats,
    association,
    attribute_cosines,
    compare,
)
from obygaze_models.audits.result import p_equals, p_text
from obygaze_models.evaluation.compare import holm

Tail = Literal["greater", "less", "two_sided"]
TAILS: tuple[Tail, ...] = ("two_sided", "greater", "less")
ALPHA = 0.05
# If the means of the films explain this share of a difference, it is called one between films.
MOSTLY = 0.5


@dataclass(frozen=True)
class VectorGroup:
    """A group of items or an attribute: its vectors, and the film and name of each of them."""

    name: str
    vectors: ArrayLike
    blocks: ArrayLike | None = None
    labels: Sequence[str] | None = None

    def __post_init__(self) -> None:
        n_rows = len(np.atleast_2d(np.asarray(self.vectors)))
        if self.blocks is not None and np.shape(self.blocks) != (n_rows,):
            got = f"blocks of shape {np.shape(self.blocks)} for {n_rows} rows"
            raise FixInput(f"expected one block per row of {self.name!r}, got {got}")


@dataclass(frozen=True, eq=False)
class EatTest:
    """One test with the association of each item, and its p corrected for all tests of a call."""

    x: str
    y: str
    a: str
    b: str
    outcome: Association
    s_x: Floats
    s_y: Floats
    blocks: NDArray[Any] | None
    tail: Tail
    p_holm: float = 1.0
    store: str = ""

    @property
    def p(self) -> float:
        """The p-value to report: within films if films could explain the difference."""
        return float(getattr(self.outcome.verdict, self.tail))

    @property
    def p_across(self) -> float:
        """The p-value of exchanging items between films."""
        return float(getattr(self.outcome.p, self.tail))

    @property
    def kind(self) -> str:
        """The tail in words, for example "two-sided"."""
        return self.tail.replace("_", "-")

    @property
    def method(self) -> str:
        """How the reported p-value was computed: "exact" or "sampled"."""
        return "exact" if self.outcome.verdict.method == "exact" else "sampled"

    def to_json(self) -> dict[str, Any]:
        """Return the result, what was tested, and the explanation of the p-values."""
        document = asdict(self.outcome)
        blocks = document.pop("blocks")
        document |= {name: getattr(self, name) for name in ("x", "y", "a", "b", "tail")}
        document |= {"store": self.store} if self.store else {}
        document["verdict"] = "blocked" if self.outcome.p_blocked else "unblocked"
        return document | {"p_holm": self.p_holm, "blocks": blocks, "why": explain(self)}

    def to_row(self) -> tuple[object, ...]:
        """Return the cells of the test in the table of an audit."""
        blocked = self.outcome.p_blocked
        return (
            *(self.x, self.y or None, self.a, self.b, self.outcome.n_x, self.outcome.n_y),
            *(self.outcome.effect_size, p_text(self.p)),
            self.method + (", within films" if blocked else ""),
            p_text(self.p_across) if blocked else None,
            p_text(self.p_holm),
        )

    def to_sentence(self) -> str:
        """Return the result in one or a few sentences."""
        d = self.outcome.effect_size
        groups = f"{self.x} against {self.y}" if self.y else self.x
        size = "no effect size, the values are constant" if d is None else f"d = {d:+.2f}"
        p = f"{self.kind} {p_equals(self.p)} ({self.method})"
        groups = f"{self.store}: {groups}" if self.store else groups
        return f"{groups}, {self.a} against {self.b}: {size}, {p}. {explain(self)}".rstrip()


def run_tests(
    x: VectorGroup,
    y: VectorGroup | None,
    pairs: Sequence[tuple[VectorGroup, VectorGroup]],
    *,
    tail: Tail = "two_sided",
    permutations: int = 1_000_000,
    seed: int = 0,
) -> tuple[EatTest, ...]:
    """Test `x` against `y` for each pair of attributes, with Holm's correction over all tests.

    Without `y` each item of `x` is tested alone: is it closer to the first attribute?
    """
    blocks, tests = None if y is None else _joined(x.blocks, y.blocks), []
    for a, b in pairs:
        for name, s_x, s_y in _associations(x, y, a, b):
            outcome = compare(s_x, s_y, blocks, permutations=permutations, seed=seed)
            names = (name, "" if y is None else y.name, a.name, b.name)
            tests.append(EatTest(*names, outcome, s_x, s_y, blocks, tail))
    if not tests:
        raise FixInput("expected at least one pair of attributes, got none")
    return with_holm(tests)


def with_holm(tests: Sequence[EatTest]) -> tuple[EatTest, ...]:
    """Return the tests with p-values that are corrected over all of them."""
    corrected = holm([test.p for test in tests])
    return tuple(replace(test, p_holm=float(p)) for test, p in zip(tests, corrected, strict=True))


def _joined(x: ArrayLike | None, y: ArrayLike | None) -> NDArray[Any] | None:
    if (x is None) != (y is None):
        raise FixInput("expected both x_block and y_block or neither, got one")
    return None if x is None or y is None else np.concatenate([np.asarray(x), np.asarray(y)])


def _associations(
    x: VectorGroup, y: VectorGroup | None, a: VectorGroup, b: VectorGroup
) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield the values that each test compares: of two groups, or of one item to two attributes."""
    attributes = (a.vectors, b.vectors)
    if y is not None:
        s_x = association(x.vectors, *attributes, name="X")
        yield x.name, s_x, association(y.vectors, *attributes, name="Y")
        return
    rows = np.atleast_2d(np.asarray(x.vectors, dtype=np.float64))
    numbered = [f"{x.name} {i}" for i in range(len(rows))] if len(rows) > 1 else [x.name]
    for name, row in zip(x.labels or numbered, rows, strict=True):
        yield name, *attribute_cosines(row, *attributes)


def explain(test: EatTest) -> str:
    """Return why the p-values within and across films differ, or why there is only one."""
    films, across, within = test.outcome.blocks, test.p_across, test.p
    if films is None:
        return "Items are treated as independent: no films were given." if test.y else ""
    if test.outcome.p_blocked is None:
        return (
            "No film has items of both groups, so this p-value cannot separate a difference "
            f"between films from a difference between {test.x} and {test.y}."
        )
    both = f"{p_equals(within)} within films, {p_equals(across)} across films"
    part = "nothing"
    if films.share is not None:
        part = f"{films.of_blocks:+.3f} of {films.difference:+.3f} ({100 * films.share:.0f} %)"
    part = f"the means of the films explain {part} of the difference"
    shared = f"{films.n_shared} of {films.n_blocks} films have items of both groups"
    shared += f" ({films.n_items_shared} items)"
    if across < ALPHA <= within and films.share is not None and films.share >= MOSTLY:
        return (
            f"The difference is between films: {both}. {test.x} and {test.y} come from the same "
            f"films in different proportions, and {part}."
        )
    if across < ALPHA <= within:
        return (
            f"The difference is significant across films but not within films: {both}. "
            f"Only {shared}, and {part}."
        )
    if within < ALPHA <= across:
        return (
            f"The difference is within films and is hidden across films: {both}. Films differ "
            f"more than {test.x} and {test.y} do within a film, and {part}."
        )
    return f"Both ways of exchanging items agree: {both}; {part}, and {shared}."
