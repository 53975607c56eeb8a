"""An association audit: several tests over one pair of groups, corrected, explained, drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze_features.core.errors import FixInput
from obygaze_models.audits.association import (
    Association,
    association,
    embedding_association,
    single_category,
    unit_rows,
)
from obygaze_models.audits.blocks import BlockShare, block_share
from obygaze_models.audits.finding import Finding, p_text
from obygaze_models.audits.permutation import PValue
from obygaze_models.evaluation.compare import holm

Floats = NDArray[np.float64]
Tail = Literal["greater", "less", "two_sided"]
TAILS: tuple[Tail, ...] = ("two_sided", "greater", "less")
ALPHA = 0.05
MANY = 12
# Deep within films: what the films' averages give by themselves is most of the difference.
MOSTLY = 0.5


@dataclass(frozen=True)
class Side:
    """One group of items or attributes: its name, its vectors, the film and name of each item."""

    name: str
    vectors: ArrayLike
    blocks: Sequence[Any] | NDArray[Any] | None = None
    labels: Sequence[str] | None = None


@dataclass(frozen=True, eq=False)
class EatTest:
    """One test with its associations, and its p after the correction for all tests beside it."""

    x: str
    y: str
    a: str
    b: str
    outcome: Association
    s_x: Floats
    s_y: Floats
    x_block: NDArray[Any] | None = None
    y_block: NDArray[Any] | None = None
    films: BlockShare | None = None
    p_holm: float = 1.0
    tail: Tail = "two_sided"

    @property
    def p(self) -> float:
        """The p to report: within films where films could explain the difference."""
        return float(getattr(self.outcome.verdict, self.tail))

    def to_json(self) -> dict[str, Any]:
        """The outcome under the names of the contract, and what it was a test of."""
        return {
            **self.outcome.to_json(),
            "x": self.x,
            "y": self.y,
            "a": self.a,
            "b": self.b,
            "tail": self.tail,
            "verdict": "blocked" if self.outcome.p_blocked else "unblocked",
            "p_holm": self.p_holm,
            "blocks": self.films.to_json() if self.films else None,
            "why": explain(self),
        }


@dataclass(frozen=True, eq=False)
class EatAudit:
    """All tests of one call; with one test, its values stand at the top of the document."""

    tests: tuple[EatTest, ...]
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """The tests, and the values of a lone one at the top."""
        tests = [test.to_json() for test in self.tests]
        lone = tests[0] if len(tests) == 1 else {}
        return {**lone, "source": self.source, "tests": tests}

    def finding(self) -> Finding:
        """One row a test; sentences say what each came to."""
        headers = ("X", "Y", "A", "B", "n X", "n Y", "d", "p", "method", "p across films", "Holm")
        return Finding(
            title=f"Embedding association: {self.source}" if self.source else "Association",
            sentences=[*_verdicts(self.tests), *_about(self.tests)],
            headers=headers,
            rows=[_row(test) for test in self.tests],
        )

    def draw(self, stem: Path) -> tuple[Path, Path]:
        """Draw the associations: film by film for one test, test by test for several."""
        from obygaze_models.audits.eat_figure import draw_eat

        return draw_eat(self, stem)


def audit_groups(
    x: Side,
    y: Side,
    pairs: Sequence[tuple[Side, Side]],
    *,
    tail: Tail = "two_sided",
    permutations: int = 1_000_000,
    seed: int = 0,
    source: str = "",
) -> EatAudit:
    """Whether X leans more to A (against B) than Y does, for each pair (A, B) of attributes."""
    tests = []
    for a, b in pairs:
        outcome = embedding_association(
            x.vectors,
            y.vectors,
            a.vectors,
            b.vectors,
            x_block=None if x.blocks is None else np.asarray(x.blocks),
            y_block=None if y.blocks is None else np.asarray(y.blocks),
            permutations=permutations,
            seed=seed,
        )
        s_x = association(x.vectors, a.vectors, b.vectors)
        s_y = association(y.vectors, a.vectors, b.vectors)
        test = EatTest(x.name, y.name, a.name, b.name, outcome, s_x, s_y, tail=tail)
        tests.append(_with_films(test, x.blocks, y.blocks))
    return EatAudit(_corrected(tests), source)


def audit_items(
    items: Side,
    pairs: Sequence[tuple[Side, Side]],
    *,
    tail: Tail = "two_sided",
    permutations: int = 1_000_000,
    seed: int = 0,
    source: str = "",
) -> EatAudit:
    """The single-category form: each item by itself, whether it is nearer to A than to B."""
    rows = np.atleast_2d(np.asarray(items.vectors, dtype=np.float64))
    numbered = [f"{items.name} {i}" for i in range(len(rows))]
    names = items.labels or ([items.name] if len(rows) == 1 else numbered)
    tests = []
    for a, b in pairs:
        for name, row in zip(names, rows, strict=True):
            outcome = single_category(
                row, a.vectors, b.vectors, permutations=permutations, seed=seed
            )
            unit = unit_rows(row[None], "W")[0]
            near_a, near_b = unit_rows(a.vectors, "A") @ unit, unit_rows(b.vectors, "B") @ unit
            tests.append(EatTest(name, "", a.name, b.name, outcome, near_a, near_b, tail=tail))
    return EatAudit(_corrected(tests), source)


def explain(test: EatTest) -> str:
    """Why the blocked and the unblocked value differ, or what stands in for blocks."""
    films, blocked = test.films, test.outcome.p_blocked
    if films is None:
        return "" if not test.y else "Items are taken as independent: no films were given."
    if blocked is None:
        return (
            "No film has items on both sides, so a difference between films and one between "
            f"{test.x} and {test.y} cannot be told apart: this p-value answers for both."
        )
    across, within = (float(getattr(p, test.tail)) for p in (test.outcome.p, blocked))
    told = f"p = {p_text(within)} within films, {p_text(across)} across them"
    part = f"the films' own averages make {_share(films)} of the difference"
    shared = f"{films.n_shared} of {films.n_blocks} films have items on both sides"
    if across < ALPHA <= within and films.share is not None and films.share >= MOSTLY:
        return (
            f"The difference is one between films: {told}. {test.x} and {test.y} come from the "
            f"same films in unlike shares, and {part}; shuffled within films it is no longer rare."
        )
    if across < ALPHA <= within:
        return (
            f"Across films the difference looks sure, within films it does not: {told}. Only "
            f"{shared} ({films.n_items_shared} items), and {part}."
        )
    if within < ALPHA <= across:
        return (
            f"The difference holds within films and is hidden across them: {told}. Films lie "
            f"further apart than {test.x} and {test.y} do within one, and {part}."
        )
    items = f"{films.n_items_shared} items"
    return f"Both ways of shuffling agree: {told}; {part}, and {shared} ({items})."


def _share(films: BlockShare) -> str:
    if films.share is None:
        return "nothing"
    return f"{films.of_blocks:+.3f} of {films.difference:+.3f} ({100 * films.share:.0f} %)"


def _with_films(test: EatTest, x_block: Any, y_block: Any) -> EatTest:
    if x_block is None or y_block is None:
        return test
    x, y = np.asarray(x_block), np.asarray(y_block)
    films = block_share(test.s_x, test.s_y, x, y)
    return replace(test, x_block=x, y_block=y, films=films)


def _corrected(tests: Sequence[EatTest]) -> tuple[EatTest, ...]:
    if not tests:
        raise FixInput("an audit needs at least one pair of attributes")
    adjusted = holm([test.p for test in tests])
    return tuple(replace(test, p_holm=float(p)) for test, p in zip(tests, adjusted, strict=True))


def _row(test: EatTest) -> tuple[object, ...]:
    outcome = test.outcome
    across = float(getattr(outcome.p, test.tail)) if outcome.p_blocked else None
    method = _method(outcome.verdict) + (", within films" if outcome.p_blocked else "")
    return (
        *(test.x, test.y or None, test.a, test.b, outcome.n_x, outcome.n_y, outcome.effect_size),
        *(p_text(test.p), method, None if across is None else p_text(across)),
        p_text(test.p_holm),
    )


def _method(p: PValue) -> str:
    return "exact" if p.method == "exact" else "sampled"


def _verdicts(tests: Sequence[EatTest]) -> list[str]:
    """A sentence a test; of many tests, how many hold and which hold best."""
    if len(tests) <= MANY:
        return [_verdict(test) for test in tests]
    held = sorted((test for test in tests if test.p_holm < ALPHA), key=lambda test: test.p)
    first = f"{len(held)} of {len(tests)} tests have p < {ALPHA} after Holm's correction"
    return [f"{first}{':' if held else '.'}", *(_verdict(test) for test in held[:MANY])]


def _verdict(test: EatTest) -> str:
    d = test.outcome.effect_size
    who = f"{test.x} against {test.y}" if test.y else test.x
    what = f"{who}, {test.a} against {test.b}"
    size = "no effect size, nothing varies" if d is None else f"d = {d:+.2f}"
    kind = test.tail.replace("_", "-")
    sure = f"{kind} p = {p_text(test.p)} ({_method(test.outcome.verdict)})"
    return " ".join(part for part in (f"{what}: {size}, {sure}.", explain(test)) if part)


def _about(tests: Sequence[EatTest]) -> list[str]:
    said = []
    if len(tests) > 1:
        said.append(f"Holm's correction is over these {len(tests)} tests.")
    sampled = [t.outcome.verdict for t in tests if t.outcome.verdict.method != "exact"]
    if sampled:
        said.append(f"Not all permutations could be counted: {sampled[0].method}.")
    normal = tests[0].outcome.verdict.normal
    if len(tests) == 1 and normal:
        kind = tests[0].tail.replace("_", "-")
        said.append(f"The closed normal form of the {kind} p: {p_text(normal[tests[0].tail])}.")
    return said
