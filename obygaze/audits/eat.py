"""Embedding association: is one group of vectors closer to an attribute than another group?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze.audits.printed import (
    PrintedEffects,
    model_of_checkpoint,
    printed_effects,
)
from obygaze.audits.reliability import cronbach_alpha
from obygaze.audits.result import DrawnAudit, Finding, Plot, Point
from obygaze_features.backbones.text import read_prompts
from obygaze_features.core.console import count
from obygaze_features.core.errors import FixInput, FixUsage
from obygaze_features.manifest import Manifest, read_manifest
from obygaze_features.manifest.model import view_words
from obygaze_features.store import Store, TextTable, open_store, read_texts
from obygaze_features.store.recipe import UNVERIFIED
from obygaze_models.evaluation.group_tests import (
    TAILS,
    GroupTest,
    Tail,
    compare_groups,
    summary,
    with_holm,
)
from obygaze_models.evaluation.permutation import Floats, p_equals, p_text
from obygaze_models.protocols.clips import with_view
from obygaze_models.protocols.schema import Data
from obygaze_models.text_vectors import (
    GroupSelection,
    VectorGroup,
    in_view,
    read_store_vectors,
    read_vectors,
    unit_rows,
)

HEADERS = (
    "X",
    "Y",
    "A",
    "B",
    "n X",
    "n Y",
    "d",
    "p",
    "method",
    "p across films",
    "Holm",
)


@dataclass(frozen=True)
class PromptReliability:
    """Cronbach's alpha of the texts of an attribute: do the cosines of items to them go together?

    None where the sums of the cosines of all items are equal.
    """

    attribute: str
    n_texts: int
    n_items: int
    cronbach: float | None

    def __str__(self) -> str:
        alpha = "not defined" if self.cronbach is None else f"{self.cronbach:.3f}"
        return (
            f"Cronbach's alpha of the {self.n_texts} texts of {self.attribute}, by their "
            f"cosines to {self.n_items} items: {alpha}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class EatAudit(DrawnAudit):
    """The association tests of one call, corrected together.

    `prompts` has Cronbach's alpha of each attribute of several texts. `paper` has what a paper
    prints for a pair of attributes, and `model` the name of the clips' model in its tables.
    """

    tests: tuple[GroupTest, ...]
    source: str = ""
    prompts: tuple[PromptReliability, ...] = ()
    # The manifest that expressions chose clips from, and its view; "" without one.
    manifest: str = ""
    view: str = ""
    # The clips in which nothing is said, where the vectors are of words; they are left out.
    n_silent: int = 0
    paper: Mapping[tuple[str, str], PrintedEffects] = field(default_factory=dict)
    model: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the tests; the values of a single test also stand at the top."""
        tests = []
        for test in self.tests:
            printed = self.paper.get((test.a, test.b))
            of_paper = asdict(printed) | {"model": self.model} if printed else None
            tests.append(test.to_json() | {"paper": of_paper})
        single = tests[0] if len(tests) == 1 else {}
        prompts = [asdict(attribute) for attribute in self.prompts]
        chosen_from = {"manifest": self.manifest, "view": self.view}
        about = {"source": self.source, **chosen_from, "n_silent": self.n_silent}
        return {**single, **about, "tests": tests, "prompts": prompts}

    def finding(self) -> Finding:
        """Return one row per test, and sentences with the results."""
        title = (
            f"Embedding association: {self.source}" if self.source else "Association"
        )
        if self.manifest:
            title += f", clips of {self.manifest}, {view_words(self.view)}"
        headers: tuple[str, ...] = HEADERS
        rows = [_row_of(test) for test in self.tests]
        if any(printed.of_model(self.model) for printed in self.paper.values()):
            headers = (*HEADERS, f"paper, {self.model}")
            rows = [
                (*row, self._of_paper(test))
                for row, test in zip(rows, self.tests, strict=True)
            ]
        sentences = summary(self.tests, _sentence)
        if self.n_silent:
            verb = "is" if self.n_silent == 1 else "are"
            clips = count(self.n_silent, "clip")
            sentences.append(f"{clips} in which nothing is said {verb} left out.")
        first = self.tests[0]
        normal = first.verdict.normal
        if len(self.tests) == 1 and normal:
            kind = first.tail.replace("_", "-")
            p = p_text(normal[first.tail])
            sentences.append(f"Normal approximation of the {kind} p: {p}.")
        sentences += map(str, self.prompts)
        sentences += map(str, self.paper.values())
        return Finding(title, headers, tuple(rows), sentences=tuple(sentences))

    def _of_paper(self, test: GroupTest) -> str | None:
        printed = self.paper.get((test.a, test.b))
        return printed.of_model(self.model) if printed else None

    def plot(self) -> Plot:
        """Return the effect size of each test, the smallest p first."""
        points = []
        for test in sorted(self.tests, key=lambda test: test.p):
            if test.effect_size is None:
                continue
            label = f"{test.a} / {test.b}" if len(self.tests) > 1 else test.x
            note = p_equals(test.p)
            if len(self.tests) > 1:
                note += f", Holm {p_text(test.p_holm)}"
            points.append(Point(label, test.effect_size, (), note))
        return Plot(
            self.finding().title,
            points,
            "d, above 0 if X is closer to A than Y is",
            0.0,
        )


def _row_of(test: GroupTest) -> tuple[object, ...]:
    """Return the groups, the attributes, the sizes, the effect size and the p of a test."""
    sizes = (len(test.s_x), len(test.s_y))
    names = (test.x, test.y, test.a, test.b)
    return (*names, *sizes, test.effect_size, *test.p_cells())


def _sentence(test: GroupTest) -> str:
    d = test.effect_size
    groups = f"{test.x} against {test.y}"
    size = "no effect size, the values are constant" if d is None else f"d = {d:+.2f}"
    p = f"{test.tail.replace('_', '-')} {p_equals(test.p)} ({test.method})"
    return f"{groups}, {test.a} against {test.b}: {size}, {p}. {test.explain()}"


def audit_eat(
    store: Store | str | Path | None = None,
    manifest: Manifest | str | Path | None = None,
    *,
    vectors: str | Path | Mapping[str, ArrayLike] | None = None,
    x: GroupSelection | None = None,
    y: GroupSelection | None = None,
    attributes: Sequence[tuple[str, str]] = (),
    text: str | Path | None = None,
    tail: Tail = "two_sided",
    permutations: int = 1_000_000,
    workspace: str | Path | None = None,
) -> EatAudit:
    """Test whether one group of clips is closer to some words than another group."""
    if tail not in TAILS:
        raise FixUsage(f"unknown tail {tail!r}", hint=f"one of {', '.join(TAILS)}")
    if (vectors is None) == (store is None):
        sources = "neither" if store is None else "both"
        raise FixUsage(
            f"expected a store or a file of vectors (--vectors), got {sources}"
        )
    draws: dict[str, Any] = {"tail": tail, "permutations": permutations}
    if vectors is not None:
        selections = {"x": x, "y": y, "attributes": attributes, "text": text}
        for name, value in selections.items():
            if value:
                raise FixUsage(
                    f"--{name} is for a store; a file of vectors has its own groups"
                )
        source = str(vectors) if isinstance(vectors, str | Path) else "arrays"
        groups_of_arrays = read_vectors(vectors)
        tests_of_arrays = run_tests(*groups_of_arrays, **draws)
        return EatAudit(tests_of_arrays, source, _prompts_of(*groups_of_arrays))
    if store is None or x is None or y is None or text is None:
        raise FixUsage("with a store, expected --x, --y and --text")
    opened = open_store(store, workspace=workspace)
    clips = None
    if manifest is not None:
        whole = read_manifest(manifest, workspace=workspace)
        clips = in_view(whole, with_view(Data(), whole, {"": opened}).view)
    groups_of_store, n_silent = read_store_vectors(
        opened, clips, x, y, attributes, text=text
    )
    audit = EatAudit(
        run_tests(*groups_of_store, **draws),
        Path(opened.location).name,
        _prompts_of(*groups_of_store),
        n_silent=n_silent,
        paper=_paper_of(groups_of_store[2], read_texts(text)),
        model=_model_of(opened),
    )
    if clips is None:
        return audit
    return replace(audit, manifest=clips.name, view=clips.header.view)


def _prompts_of(
    x: VectorGroup, y: VectorGroup, pairs: Sequence[tuple[VectorGroup, VectorGroup]]
) -> tuple[PromptReliability, ...]:
    """Return Cronbach's alpha of each attribute of several texts, over the items of the groups."""
    items = [unit_rows(group.vectors, group.name) for group in (x, y)]
    rows = np.concatenate(items)
    attributes = {group.name: group for group in chain.from_iterable(pairs)}
    prompts = []
    for name, group in attributes.items():
        cosines = rows @ unit_rows(group.vectors, name).T
        n_items, n_texts = cosines.shape
        if n_texts > 1:
            alpha = cronbach_alpha(cosines)
            prompts.append(PromptReliability(name, n_texts, n_items, alpha))
    return tuple(prompts)


def _model_of(store: Store) -> str:
    """Return the name that tables of papers have for the model of a store; "" without one."""
    backbone = store.recipe.to_json().get("backbone", {})
    checkpoint = backbone.get("checkpoint") or backbone.get(UNVERIFIED, "")
    return model_of_checkpoint(checkpoint)


def _paper_of(
    pairs: Sequence[tuple[VectorGroup, VectorGroup]], texts: TextTable
) -> dict[tuple[str, str], PrintedEffects]:
    """Return what a paper prints for each pair of attributes that has all prompts of the paper."""
    named = {(a.name, b.name) for a, b in pairs}
    found = {}
    for printed in printed_effects():
        names = (printed.a, printed.b)
        if names not in named:
            continue
        prompts = read_prompts(printed.prompts).prompts
        of_paper = {
            (one.text, one.attribute) for one in prompts if one.attribute in names
        }
        embedded = zip(texts.prompt, texts.attribute, strict=True)
        if of_paper == {one for one in embedded if one[1] in names}:
            found[names] = printed
    return found


def run_tests(
    x: VectorGroup,
    y: VectorGroup,
    pairs: Sequence[tuple[VectorGroup, VectorGroup]],
    **draws: Any,
) -> tuple[GroupTest, ...]:
    """Test `x` against `y` for each pair of attributes, with Holm's correction over all tests.

    `draws` are the settings of `compare_groups`: tail, permutations.
    """
    _check_widths([x, y, *chain.from_iterable(pairs)])
    films = _films_of(x, y)
    tests = []
    for a, b in pairs:
        names = (x.name, y.name, a.name, b.name)
        s_x = association(x.vectors, a.vectors, b.vectors, name="X")
        s_y = association(y.vectors, a.vectors, b.vectors, name="Y")
        tests.append(compare_groups(names, s_x, s_y, films, **draws))
    return with_holm(tests)


def _check_widths(groups: Sequence[VectorGroup]) -> None:
    """Raise an error if the vectors of the groups differ in their number of dimensions."""
    widths = [np.shape(group.vectors)[-1] for group in groups]
    if len(set(widths)) > 1:
        got = ", ".join(
            f"{group.name} {n}" for group, n in zip(groups, widths, strict=True)
        )
        raise FixInput(
            f"vectors must all have the same number of dimensions, got {got}"
        )


def _films_of(x: VectorGroup, y: VectorGroup) -> NDArray[Any] | None:
    """Return the films of the vectors of both groups, the first group first; None without films."""
    if (x.blocks is None) != (y.blocks is None):
        raise FixInput("expected both x_block and y_block or neither, got one")
    if x.blocks is None or y.blocks is None:
        return None
    return np.concatenate([np.asarray(x.blocks), np.asarray(y.blocks)])


def association(w: ArrayLike, a: ArrayLike, b: ArrayLike, name: str = "W") -> Floats:
    """Return, for each row of `w`, its mean cosine to the rows of `a` minus that to `b`."""
    difference = unit_rows(a, "A").mean(axis=0) - unit_rows(b, "B").mean(axis=0)
    return np.asarray(unit_rows(w, name) @ difference)
