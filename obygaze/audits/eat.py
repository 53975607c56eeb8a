"""Embedding association: is one group of vectors closer to an attribute than another group?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from obygaze.audits.agreement_measures import cronbach_alpha
from obygaze.audits.printed import (
    PublishedEffects,
    model_of_checkpoint,
    published_effects,
)
from obygaze.audits.result import Audit, Plot, Point
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
    compare_groups,
    compare_neighbours,
    describe_exchange,
    places_of_neighbours,
    summary,
    with_holm,
)
from obygaze_models.evaluation.permutation import Floats, p_equals, p_text
from obygaze_models.protocols.clips import with_view
from obygaze_models.protocols.schema import Data
from obygaze_models.text_vectors import (
    Groups,
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
XLABEL = "d, above 0 if X is closer to A than Y is"
Pairs = Sequence[tuple[VectorGroup, VectorGroup]]
# The published effect sizes of each pair of attributes.
Paper = Mapping[tuple[str, str], PublishedEffects]


def audit_eat(
    store: Store | str | Path | None = None,
    manifest: Manifest | str | Path | None = None,
    *,
    vectors: str | Path | Mapping[str, ArrayLike] | None = None,
    x: str | Path | Sequence[str] | None = None,
    y: str | Path | Sequence[str] | None = None,
    attributes: Sequence[tuple[str, str]] = (),
    text: str | Path | None = None,
    tail: Literal["two_sided", "greater", "less"] = "two_sided",
    permutations: int = 1_000_000,
    workspace: str | Path | None = None,
) -> Audit:
    """Test whether one group of clips is closer to some words than another group.

    The p-value is exact if all permutations can be tried. If a film has clips of both groups, the
    reported p-value exchanges clips only within films. The p-value across films is shown next to
    it, with a sentence that explains the difference. If clips of a film overlap, or lie less than
    their own length apart in the manifest, the groups are moved along the clips of each film
    instead.

    Args:
        store: The vectors of the clips.
        manifest: The clips that the expressions `x` and `y` select from.
        vectors: Arrays X, Y, A, B (and x_block, y_block), or their npz file, instead of a store.
        x: The first group: an expression such as "level == S", a CSV file of clip_id, or ids.
        y: The second group, in the same form.
        attributes: Two attributes of the texts to compare, A and B; by default the only two.
        text: The npz file of text vectors that `extract text` wrote.
        tail: The p-value to report and correct.
        permutations: Number of random permutations, if there are too many to enumerate.
        workspace: The workspace, if it is not the current one.

    Example:
        audit = audit_eat(vectors={"X": men, "Y": women, "A": career, "B": family})
    """
    if tail not in TAILS:
        raise FixUsage(f"unknown tail {tail!r}", hint=f"pass one of {', '.join(TAILS)}")
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
                    f"--{name} is for a store, not for --vectors, which has its own groups"
                )
        source = str(vectors) if isinstance(vectors, str | Path) else "arrays"
        return present(compute(read_vectors(vectors), **draws), source)
    if store is None or x is None or y is None or text is None:
        raise FixUsage("a store requires --x, --y and --text")
    opened = open_store(store, workspace=workspace)
    clips = None
    if manifest is not None:
        whole = read_manifest(manifest, workspace=workspace)
        clips = in_view(whole, with_view(Data(), whole, {"": opened}).view)
    groups, n_silent = read_store_vectors(opened, clips, x, y, attributes, text=text)
    return present(
        compute(groups, **draws),
        Path(opened.location).name,
        clips=clips,
        n_silent=n_silent,
        paper=_find_paper(groups[2], read_texts(text)),
        model=_model_name(opened),
    )


@dataclass(frozen=True)
class Association:
    """The tests of two groups for each pair of attributes.

    `prompts` has Cronbach's alpha of the texts of each attribute that has several texts. `exchange`
    states how p exchanges clips; it is "" for vectors without clips.
    """

    tests: Sequence[GroupTest]
    prompts: Sequence[Mapping[str, Any]]
    exchange: str = ""


def compute(groups: Groups, **draws: Any) -> Association:
    """Return the tests of two groups of vectors for each pair of attributes.

    Holm's correction covers all pairs. The result also has Cronbach's alpha of the attributes.

    Args:
        groups: The groups, and the pairs of attributes.
        draws: The settings of `compare_groups`: tail, permutations.
    """
    x, y, pairs = groups
    tests = run_tests(x, y, pairs, **draws)
    spans = [*x.spans, *y.spans]
    exchange = describe_exchange(tests[0].are_neighbours, spans) if spans else ""
    return Association(tests, _describe_prompts(x, y, pairs), exchange)


def present(
    found: Association,
    source: str,
    *,
    clips: Manifest | None = None,
    n_silent: int = 0,
    paper: Paper | None = None,
    model: str = "",
) -> Audit:
    """Return the audit of associations: its table, sentences and figure.

    Args:
        found: The tests.
        source: The name of the store or of the file of vectors.
        clips: The manifest from which the expressions select clips; None: no manifest.
        n_silent: Number of clips that are excluded because nothing is said in them.
        paper: The effect sizes that Wolfe et al. (2023) published for pairs of attributes; None:
            none is shown.
        model: The name that Wolfe et al. (2023) use for the model of the clips, or "".
    """
    tests = found.tests
    printed = [(paper or {}).get((test.a, test.b)) for test in tests]
    of_model = [of_paper.of_model(model) if of_paper else None for of_paper in printed]
    headers: tuple[str, ...] = HEADERS
    rows = [_make_row(test) for test in tests]
    if any(of_model):
        headers = (*HEADERS, f"paper, {model}")
        rows = [(*row, cell) for row, cell in zip(rows, of_model, strict=True)]
    documents = []
    for test, of_paper in zip(tests, printed, strict=True):
        about_paper = asdict(of_paper) | {"model": model} if of_paper else None
        documents.append(test.to_json() | {"paper": about_paper})
    single = documents[0] if len(tests) == 1 else {}
    title = f"Embedding association: {source}"
    view = ""
    if clips is not None:
        view = clips.header.view
        title += f", clips of {clips.name}, {view_words(view)}"
    return Audit(
        title=title,
        headers=headers,
        rows=rows,
        answers=summary(tests, _sentence),
        limits=[*_limits(found, n_silent), *map(str, (paper or {}).values())],
        values={
            **single,
            "source": source,
            "manifest": clips.name if clips else "",
            "view": view,
            "n_silent": n_silent,
            "tests": documents,
            "prompts": found.prompts,
        },
        figure=Plot(title, list(_points(tests)), XLABEL, 0.0),
    )


def _limits(found: Association, n_silent: int) -> Iterator[str]:
    """Yield sentences on excluded clips, the p by normal approximation, and Cronbach's alpha."""
    if n_silent:
        verb = "is" if n_silent == 1 else "are"
        yield f"{count(n_silent, 'clip')} without speech {verb} excluded."
    if found.exchange:
        yield found.exchange
    first = found.tests[0]
    normal = first.verdict.normal
    if len(found.tests) == 1 and normal:
        kind = first.tail.replace("_", "-")
        yield f"Normal approximation of the {kind} p: {p_text(normal[first.tail])}."
    for attribute in found.prompts:
        alpha = attribute["cronbach"]
        shown = "not defined" if alpha is None else f"{alpha:.3f}"
        yield (
            f"Cronbach's alpha of the {attribute['n_texts']} texts of {attribute['attribute']}, by"
            f" their cosines to {attribute['n_items']} items: {shown}."
        )


def _points(tests: Sequence[GroupTest]) -> Iterator[Point]:
    """Yield the effect size of each test as a point; the test with the smallest p is first."""
    for test in sorted(tests, key=lambda test: test.p):
        if len(tests) > 1:
            note = f"{p_equals(test.p)}, Holm {p_text(test.p_holm)}"
            yield Point(f"{test.a} / {test.b}", test.effect_size, (), note)
        else:
            yield Point(test.x, test.effect_size, (), p_equals(test.p))


def _make_row(test: GroupTest) -> tuple[object, ...]:
    """Return the groups, attributes, numbers of vectors, effect size and p values of a test."""
    sizes = (len(test.s_x), len(test.s_y))
    names = (test.x, test.y, test.a, test.b)
    return (*names, *sizes, test.effect_size, *test.p_cells())


def _sentence(test: GroupTest) -> str:
    d = test.effect_size
    groups = f"{test.x} against {test.y}"
    size = (
        "no effect size, because the values are constant"
        if d is None
        else f"d = {d:+.2f}"
    )
    p = f"{test.tail.replace('_', '-')} {p_equals(test.p)} ({test.method})"
    return f"{groups}, {test.a} against {test.b}: {size}, {p}. {test.explain()}"


def _describe_prompts(
    x: VectorGroup, y: VectorGroup, pairs: Pairs
) -> list[dict[str, Any]]:
    """Return how well the texts of each attribute with several texts agree: Cronbach's alpha.

    Alpha is computed from a table of cosines: a row for each vector of both groups, and a column
    for each text. It is None if all rows have the same sum.
    """
    items = [unit_rows(group.vectors, group.name) for group in (x, y)]
    rows = np.concatenate(items)
    attributes = {group.name: group for group in chain.from_iterable(pairs)}
    prompts = []
    for name, group in attributes.items():
        cosines = rows @ unit_rows(group.vectors, name).T
        n_items, n_texts = cosines.shape
        if n_texts > 1:
            about = {"attribute": name, "n_texts": n_texts, "n_items": n_items}
            prompts.append({**about, "cronbach": cronbach_alpha(cosines)})
    return prompts


def _model_name(store: Store) -> str:
    """Return the name that papers use for the model of a store, or "" if they have none."""
    backbone = store.recipe.to_json().get("backbone", {})
    checkpoint = backbone.get("checkpoint") or backbone.get(UNVERIFIED, "")
    return model_of_checkpoint(checkpoint)


def _find_paper(
    pairs: Pairs, texts: TextTable
) -> dict[tuple[str, str], PublishedEffects]:
    """Return the effect sizes that Wolfe et al. (2023) published for pairs of attributes.

    Only pairs are returned whose texts are exactly the prompts of this paper.
    """
    named = {(a.name, b.name) for a, b in pairs}
    found = {}
    for printed in published_effects():
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
    pairs: Pairs,
    **draws: Any,
) -> tuple[GroupTest, ...]:
    """Test `x` against `y` for each pair of attributes, with Holm's correction over all tests.

    `draws` are the settings of `compare_groups`: tail, permutations.
    """
    _check_widths([x, y, *chain.from_iterable(pairs)])
    films = _film_blocks(x, y)
    places = None
    if films is not None and (x.spans or y.spans):
        places = places_of_neighbours(films.tolist(), [*x.spans, *y.spans])
    tests = []
    for a, b in pairs:
        names = (x.name, y.name, a.name, b.name)
        s_x = association(x.vectors, a.vectors, b.vectors, "X")
        s_y = association(y.vectors, a.vectors, b.vectors, "Y")
        if films is not None and places is not None:
            test = compare_neighbours(names, s_x, s_y, films, places, **draws)
        else:
            test = compare_groups(names, s_x, s_y, films, **draws)
        tests.append(test)
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


def _film_blocks(x: VectorGroup, y: VectorGroup) -> NDArray[Any] | None:
    """Return the films of the vectors of both groups, X before Y, or None without films."""
    if (x.blocks is None) != (y.blocks is None):
        raise FixInput("expected both x_block and y_block or neither, got one")
    if x.blocks is None or y.blocks is None:
        return None
    return np.concatenate([np.asarray(x.blocks), np.asarray(y.blocks)])


def association(w: ArrayLike, a: ArrayLike, b: ArrayLike, name: str) -> Floats:
    """Return for each row of `w` how much closer it is to `a` than to `b`.

    It is the mean cosine to the rows of `a` minus the mean cosine to the rows of `b`.
    """
    difference = unit_rows(a, "A").mean(axis=0) - unit_rows(b, "B").mean(axis=0)
    return np.asarray(unit_rows(w, name) @ difference)
