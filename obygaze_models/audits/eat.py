"""The embedding association audit of the vectors of a store, an npz file or arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from obygaze_features.core.errors import FixUsage
from obygaze_models.audits.eat_figure import draw_eat
from obygaze_models.audits.eat_tests import ALPHA, TAILS, EatTest, Tail, run_tests, with_holm
from obygaze_models.audits.result import Audit, Finding, p_text

if TYPE_CHECKING:
    from obygaze_features.manifest import Manifest
    from obygaze_features.store import Store

# More tests than this are summarised: how many are significant, and those with the smallest p.
MANY = 12
HEADERS = ("X", "Y", "A", "B", "n X", "n Y", "d", "p", "method", "p across films", "Holm")


@dataclass(frozen=True, eq=False, repr=False)
class EatAudit(Audit):
    """The association tests of one call, corrected together."""

    tests: tuple[EatTest, ...]
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the tests; the values of a single test also stand at the top."""
        tests = [test.to_json() for test in self.tests]
        single = tests[0] if len(tests) == 1 else {}
        return {**single, "source": self.source, "tests": tests}

    def finding(self) -> Finding:
        """Return one row per test, and sentences with the results."""
        title = f"Embedding association: {self.source}" if self.source else "Association"
        headers: tuple[str, ...] = HEADERS
        rows = tuple(test.to_row() for test in self.tests)
        if any(test.store for test in self.tests):
            headers = ("store", *HEADERS)
            rows = tuple((t.store, *row) for t, row in zip(self.tests, rows, strict=True))
        return Finding(title, headers, rows, sentences=(*self._results(), *self._methods()))

    def draw(self, stem: Path) -> tuple[Path, Path]:
        """Draw the associations: film by film for one test, test by test for several."""
        return draw_eat(self.tests, stem)

    def _results(self) -> list[str]:
        if len(self.tests) <= MANY:
            return [test.to_sentence() for test in self.tests]
        held = sorted((t for t in self.tests if t.p_holm < ALPHA), key=lambda test: test.p)
        first = f"{len(held)} of {len(self.tests)} tests have p < {ALPHA} after Holm's correction"
        shown = [test.to_sentence() for test in held[:MANY]]
        return [f"{first}{':' if shown else '.'}", *shown]

    def _methods(self) -> list[str]:
        sentences, first = [], self.tests[0]
        if len(self.tests) > 1:
            sentences.append(f"Holm's correction is over these {len(self.tests)} tests.")
        sampled = [test.outcome.verdict.method for test in self.tests if test.method != "exact"]
        if sampled:
            sentences.append(f"The permutations are too many to count: {sampled[0]}.")
        if len(self.tests) == 1 and (normal := first.outcome.verdict.normal):
            p = p_text(normal[first.tail])
            sentences.append(f"Normal approximation of the {first.kind} p: {p}.")
        return sentences


def audit_eat(
    store: Store | str | Path | None = None,
    manifest: Manifest | str | Path | None = None,
    *,
    vectors: str | Path | Mapping[str, ArrayLike] | None = None,
    x: str | Path | Sequence[str] | None = None,
    y: str | Path | Sequence[str] | None = None,
    stores: Sequence[Store | str | Path] = (),
    groups: Sequence[tuple[str | Path | Sequence[str], str | Path | Sequence[str]]] = (),
    attributes: Sequence[tuple[str, str]] = (),
    text: str | Path | None = None,
    level: str = "clip",
    view: str | None = None,
    single: bool = False,
    tail: Tail = "two_sided",
    permutations: int = 1_000_000,
    seed: int = 0,
    drop_missing: bool = False,
    assume_space: bool = False,
) -> EatAudit:
    """Test whether one group of clips is closer to some words than another group.

    Permutations are counted exactly if possible. If a film has clips of both groups, the reported
    p-value exchanges clips only within films.

    Args:
        store: The store that has the vectors of the clips, or its name, path or URL.
        manifest: The manifest that the expressions `x` and `y` select from, or its name or path.
        vectors: Arrays X, Y, A, B (and x_block, y_block), or their npz file, instead of a store.
        x: The first group: an expression such as "level == S", a CSV file of clip_id, or ids.
        y: The second group, likewise.
        stores: Further stores, in which the same groups are tested.
        groups: Further pairs of groups, each like `x` and `y`.
        attributes: Pairs of attributes of the texts; by default the only two.
        text: An npz file of text vectors; by default the texts of the store.
        level: The feature level of the store.
        view: The view of the manifest: "raw", "visual" or "as_published".
        single: Test each item of `x` alone: is it closer to A than to B?
        tail: The p-value to report and correct: "two_sided", "greater" or "less".
        permutations: How many permutations are drawn if they are too many to count.
        seed: The seed of these draws.
        drop_missing: Leave out clips that the store does not have.
        assume_space: Assume one embedding space if the store or the texts do not name theirs.

    Example:
        audit = audit_eat(vectors={"X": men, "Y": women, "A": career, "B": family})
    """
    from obygaze_models.audits.vectors import read_store_vectors, read_vectors

    if tail not in TAILS:
        raise FixUsage(f"unknown tail {tail!r}", hint=f"one of {', '.join(TAILS)}")
    if (vectors is None) == (store is None):
        given = "neither" if store is None else "both"
        raise FixUsage(f"expected a store or a file of vectors (--vectors), got {given}")
    if vectors is not None:
        selections: dict[str, object] = {
            "x": x,
            "y": y,
            "attributes": attributes,
            "text": text,
            "view": view,
        }
        selections |= {"store": stores, "groups": groups}
        for name in (name for name, value in selections.items() if value):
            raise FixUsage(f"--{name} is for a store; a file of vectors has its own groups")
        read = read_vectors(vectors, single=single)
        source = str(vectors) if isinstance(vectors, str | Path) else "arrays"
        return EatAudit(run_tests(*read, tail=tail, permutations=permutations, seed=seed), source)
    if store is None or x is None or (y is None) != single:
        raise FixUsage("a store needs --x and --y, or --single and only --x")
    if single and groups:
        raise FixUsage("--groups is for two groups; --single tests the items of --x alone")
    tests: list[EatTest] = []
    names = [Path(s if isinstance(s, str | Path) else s.location).name for s in (store, *stores)]
    for name, one in zip(names, (store, *stores), strict=True):
        for first, second in [(x, y), *groups]:
            read = read_store_vectors(
                *(one, manifest, first, second, attributes),
                text=text,
                level=level,
                view=view,
                drop_missing=drop_missing,
                assume_space=assume_space,
            )
            found = run_tests(*read, tail=tail, permutations=permutations, seed=seed)
            tests += [replace(test, store=name if stores else "") for test in found]
    # Corrected together: stores, groups and attributes are one family of tests.
    return EatAudit(with_holm(tests), ", ".join(names))
