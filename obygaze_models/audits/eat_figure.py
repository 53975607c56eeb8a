"""The figure of an association audit: every item a dot, film by film or test by test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from obygaze_features.core.figures import INK, MUTED, canvas, save
from obygaze_models.audits.finding import p_text

if TYPE_CHECKING:
    from obygaze_models.audits.eat import EatAudit, EatTest

COLORS = ("#a8324a", "#4f7ea3")
MAX_FILMS, MAX_TESTS = 24, 40


@dataclass(frozen=True)
class _Strip:
    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    note: str = ""
    strong: bool = False


def draw_eat(audit: EatAudit, stem: Path) -> tuple[Path, Path]:
    """Each item's association; one row for all items and one for each film that has both sides."""
    # Of very many tests the surest, in the order they were made in.
    surest = sorted(audit.tests, key=lambda test: test.p)[:MAX_TESTS]
    tests = [test for test in audit.tests if test in surest]
    strips = _films(tests[0]) if len(tests) == 1 else [_whole(test, tests) for test in tests]
    wide = max(len(strip.label) for strip in strips) > 24
    with canvas(7.2 if not wide else 8.4, 1.55 + 0.36 * len(strips)) as (figure, axes):
        for row, strip in enumerate(reversed(strips)):
            _draw_strip(axes, row, strip)
        axes.axvline(0, color=MUTED, lw=0.8, zorder=0)
        axes.set_yticks(range(len(strips)), [strip.label for strip in reversed(strips)])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(-0.6, len(strips) - 0.4)
        first = tests[0]
        lean = f"{first.b}  ←  association  →  {first.a}" if _one_pair(tests) else "B  ←  →  A"
        axes.set_xlabel(lean if first.y else "cosine to each prompt", color=MUTED)
        figure.suptitle(
            _title(tests, len(audit.tests)), x=0.01, ha="left", fontsize=10, weight="bold"
        )
        if len(tests) == 1:
            axes.set_title(_note(tests[0]), fontsize=8, weight="normal")
        _legend(axes, tests)
        return save(figure, stem)


def _films(test: EatTest) -> list[_Strip]:
    whole = _Strip("all items" if test.y else "all prompts", test.s_x, test.s_y, strong=True)
    if test.x_block is None or test.y_block is None:
        return [whole]
    names = [str(name) for name in np.intersect1d(test.x_block, test.y_block)]
    strips = [
        _Strip(
            f"film {name}" if name.isdigit() else name,
            test.s_x[np.asarray(test.x_block).astype(str) == name],
            test.s_y[np.asarray(test.y_block).astype(str) == name],
        )
        for name in names
    ]
    largest = sorted(strips, key=lambda strip: -len(strip.x) - len(strip.y))[:MAX_FILMS]
    largest.sort(key=lambda strip: float(np.concatenate([strip.x, strip.y]).mean()))
    return [whole, *reversed(largest)]


def _note(test: EatTest) -> str:
    note = f"p {_is(test.outcome.p, test)}"
    if test.outcome.p_blocked:
        within = _is(test.outcome.p_blocked, test)
        note = f"p {within} shuffled within films, {note} across them"
    return _joined(test.outcome.effect_size, f"{test.tail.replace('_', '-')} {note}")


def _whole(test: EatTest, tests: Sequence[EatTest]) -> _Strip:
    pair = f"{test.a} / {test.b}"
    alone = test.x if _one_pair(tests) else f"{test.x}: {pair}"
    who = pair if test.y else alone
    note = f"p {_is(test.outcome.verdict, test)}, Holm {p_text(test.p_holm)}"
    return _Strip(who, test.s_x, test.s_y, _joined(test.outcome.effect_size, note))


def _is(p: Any, test: EatTest) -> str:
    told = p_text(float(getattr(p, test.tail)))
    return told if told.startswith("<") else f"= {told}"


def _joined(d: float | None, note: str) -> str:
    return (
        note if d is None else f"d = {d:+.2f}, {note}".replace("-0.", "−0.").replace("= -", "= −")
    )


def _draw_strip(axes: Any, row: int, strip: _Strip) -> None:
    for values, color, side in ((strip.x, COLORS[0], 0.13), (strip.y, COLORS[1], -0.13)):
        if not len(values):
            continue
        # Not random: the same figure comes out as the same bytes.
        spread = 0.06 * np.cos(2.4 * np.arange(len(values)))
        axes.scatter(values, row + side + spread, s=12, color=color, alpha=0.55, lw=0, zorder=2)
        mean = float(values.mean())
        axes.plot([mean, mean], [row + side - 0.14, row + side + 0.14], color=color, lw=2.6)
    if strip.note:
        axes.annotate(
            strip.note,
            (1, row),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=INK,
        )
    if strip.strong:
        axes.axhspan(row - 0.5, row + 0.5, color="#f3f2ee", zorder=-1, lw=0)


def _one_pair(tests: Sequence[EatTest]) -> bool:
    return len({(test.a, test.b) for test in tests}) == 1


def _title(tests: Sequence[EatTest], n_all: int) -> str:
    first = tests[0]
    if not first.y and len(tests) == 1:
        return f"{first.x}: nearness to each prompt"
    if not first.y:
        asked = f": {first.a} against {first.b}" if _one_pair(tests) else ""
        return f"Items one by one{asked}" + (
            f", the surest of {n_all}" if n_all > len(tests) else ""
        )
    return f"Association of {first.x} and {first.y}"


def _legend(axes: Any, tests: Sequence[EatTest]) -> None:
    first = tests[0]
    names = (first.x, first.y) if first.y else (f"prompts of {first.a}", f"prompts of {first.b}")
    counts = (first.outcome.n_x, first.outcome.n_y)
    for name, n, color in zip(names, counts, COLORS, strict=True):
        axes.scatter([], [], s=22, color=color, label=f"{name} ({n})")
    axes.figure.legend(loc="outside lower center", ncols=2)
