"""The figure of association tests: every item a dot, film by film or test by test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from obygaze_features.core.figures import INK, MUTED, canvas, label_rows, save
from obygaze_models.audits.association import Floats
from obygaze_models.audits.eat_tests import EatTest
from obygaze_models.audits.result import BLUE, RED, note_beside, p_equals, p_text

MAX_FILMS, MAX_TESTS = 24, 40


class _Strip(NamedTuple):
    label: str
    x: Floats
    y: Floats
    note: str = ""
    shaded: bool = False


def draw_eat(all_tests: Sequence[EatTest], stem: Path) -> tuple[Path, Path]:
    """Draw one row per film for one test, one row per test for several, all items as dots."""
    # Of very many tests the ones with the smallest p, in their order.
    smallest = sorted(all_tests, key=lambda test: test.p)[:MAX_TESTS]
    tests = [test for test in all_tests if test in smallest]
    several = len({(test.store, test.x, test.y) for test in tests if test.y}) > 1
    first, one_pair = tests[0], len({(test.a, test.b) for test in tests}) == 1
    strips = (
        _films(first) if len(tests) == 1 else [_whole(test, one_pair, several) for test in tests]
    )
    strips.reverse()
    width = 7.2 if max(len(strip.label) for strip in strips) <= 24 else 8.4
    with canvas(width, 1.55 + 0.36 * len(strips)) as (figure, axes):
        for row, strip in enumerate(strips):
            _draw_strip(axes, row, strip)
        axes.axvline(0, color=MUTED, lw=0.8, zorder=0)
        label_rows(axes, [strip.label for strip in strips], upwards=True)
        sides = f"{first.b}  ←  association  →  {first.a}" if one_pair else "B  ←  →  A"
        axes.set_xlabel(sides if first.y else "cosine to each prompt", color=MUTED)
        title = "Associations" if several else _title(tests, len(all_tests), one_pair)
        figure.suptitle(title, x=0.01, ha="left", fontsize=10, weight="bold")
        if len(tests) == 1:
            across = f" shuffled within films, {p_equals(first.p_across)} across them"
            note = p_equals(first.p) + (across if first.outcome.p_blocked else "")
            films = first.outcome.blocks
            n_films, n_shown = films.n_shared if films else 0, len(strips) - 1
            note += f"; the {n_shown} largest of {n_films} films" if n_films > n_shown else ""
            axes.set_title(_with_effect(first, f"{first.kind} {note}"), fontsize=8, weight="normal")
        names = (
            (first.x, first.y) if first.y else (f"prompts of {first.a}", f"prompts of {first.b}")
        )
        names = ("X", "Y") if several else names
        counts = (first.outcome.n_x, first.outcome.n_y)
        for name, n, color in zip(names, counts, (RED, BLUE), strict=True):
            label = name if several else f"{name} ({n})"
            axes.scatter([], [], s=22, color=color, label=label)
        figure.legend(loc="outside lower center", ncols=2)
        return save(figure, stem)


def _films(test: EatTest) -> list[_Strip]:
    whole = _Strip("all items" if test.y else "all prompts", test.s_x, test.s_y, shaded=True)
    if test.blocks is None:
        return [whole]
    in_x, in_y = np.split(test.blocks, [len(test.s_x)])
    strips = [
        _Strip(
            f"film {film}" if str(film).isdigit() else str(film),
            *(test.s_x[in_x == film], test.s_y[in_y == film]),
        )
        for film in np.intersect1d(in_x, in_y).tolist()
    ]
    largest = sorted(strips, key=lambda strip: -len(strip.x) - len(strip.y))[:MAX_FILMS]
    largest.sort(key=lambda strip: float(np.concatenate([strip.x, strip.y]).mean()))
    return [whole, *reversed(largest)]


def _whole(test: EatTest, one_pair: bool, several: bool) -> _Strip:
    pair = f"{test.a} / {test.b}"
    alone = test.x if one_pair else f"{test.x}: {pair}"
    if several:
        alone = pair = f"{test.store} {test.x} / {test.y}: {pair}".strip()
    note = _with_effect(test, f"{p_equals(test.p)}, Holm {p_text(test.p_holm)}")
    return _Strip(pair if test.y else alone, test.s_x, test.s_y, note)


def _with_effect(test: EatTest, note: str) -> str:
    d = test.outcome.effect_size
    return note if d is None else f"d = {d:+.2f}, {note}".replace("= -", "= −")


def _draw_strip(axes: Any, row: int, strip: _Strip) -> None:
    for values, color, side in ((strip.x, RED, 0.13), (strip.y, BLUE, -0.13)):
        if not len(values):
            continue
        # Not random: the same figure must give the same bytes.
        spread = 0.06 * np.cos(2.4 * np.arange(len(values)))
        axes.scatter(values, row + side + spread, s=12, color=color, alpha=0.55, lw=0, zorder=2)
        mean = float(values.mean())
        axes.plot([mean, mean], [row + side - 0.14, row + side + 0.14], color=color, lw=2.6)
    if strip.note:
        note_beside(axes, row, strip.note, 6, fontsize=7.5, color=INK)
    if strip.shaded:
        axes.axhspan(row - 0.5, row + 0.5, color="#f3f2ee", zorder=-1, lw=0)


def _title(tests: Sequence[EatTest], n_all: int, one_pair: bool) -> str:
    first = tests[0]
    if first.y:
        return f"Association of {first.x} and {first.y}"
    if len(tests) == 1:
        return f"{first.x}: cosine to each prompt"
    attributes = f": {first.a} against {first.b}" if one_pair else ""
    selection = f", the {len(tests)} smallest p of {n_all}" if n_all > len(tests) else ""
    return f"Items one by one{attributes}{selection}"
