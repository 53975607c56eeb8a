"""Warnings that a result is misleading: leaks, baselines that are as good, shared test clips."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from obygaze_models.protocols.runner.records import Record

MARGIN = 0.02  # a baseline this close is as good


def remarks(
    cells: Sequence[Record], baselines: Sequence[Record], primary: str, *, grouped: bool
) -> list[Record]:
    """Return the remarks on the records of a run; `grouped` splits have no film on both sides."""
    found = [
        *_leaking(cells),
        *_neighbours(cells, baselines, primary, grouped),
        *_shared_test(cells),
        *_not_above_chance(cells),
        *_trivial(cells, baselines),
        *_skipped([*cells, *baselines]),
    ]
    return [
        {"kind": "remark", "about": about, "cells": n, "text": text} for about, n, text in found
    ]


Remark = tuple[str, int, str]  # about what, number of cells, text


def _leaking(cells: Sequence[Record]) -> Iterable[Remark]:
    bad = {(c["train"], c["test"]): c for c in cells if c["leaked"]}
    if bad:
        worst = max(bad.values(), key=lambda c: c["leak_share"])
        yield (
            "leak",
            len(bad),
            f"{len(bad)} of {len({(c['train'], c['test']) for c in cells})} cells test on clips "
            f"that trained or chose: {worst['leaked']} of the {worst['n_test']} test clips of "
            f"{worst['train']} -> {worst['test']}. Their numbers are too high.",
        )


def _neighbours(
    cells: Sequence[Record], baselines: Sequence[Record], primary: str, grouped: bool
) -> Iterable[Remark]:
    beaten = []
    for cell in cells:
        for other in baselines:
            same = (cell["train"], cell["test"]) == (other["train"], other["test"])
            here = other["feature"] in ("", cell["feature"])
            blind = not other["ceiling"] and other["model"] in ("neighbour", "film_prior")
            ours, theirs = (r.get(primary, {}).get("value") for r in (cell, other))
            if same and here and blind and None not in (ours, theirs) and theirs > ours - MARGIN:
                beaten.append((cell, other, ours, theirs))
    if beaten:
        cell, other, ours, theirs = max(beaten, key=lambda item: item[3] - item[2])
        n = len({id(item[0]) for item in beaten})
        why = (
            ""
            if grouped
            else " Clips of one film are on both sides of the split, and neighbouring clips share "
            "their annotation: only splits by film measure what is seen in the video."
        )
        yield (
            "blind baseline",
            n,
            f"In {n} of {len(cells)} cells a baseline that sees no video is as good as the model: "
            f"{other['model']} has {primary} {theirs:.2f}, {cell['model']} {ours:.2f} "
            f"({cell['train']} -> {cell['test']}).{why}",
        )


def _shared_test(cells: Sequence[Record]) -> Iterable[Remark]:
    shared = [c for c in cells if c["repeated"]]
    if shared:
        times = max(sum(f["n_test"] for f in c["folds"]) / c["n_test"] for c in shared)
        yield (
            "shared test",
            len(shared),
            f"Each clip is tested by {times:.0f} runs of a cell: what varies between those is the "
            "noise of training, not the uncertainty of the test; that is the interval over films.",
        )


def _not_above_chance(cells: Sequence[Record]) -> Iterable[Remark]:
    chance = [c for c in cells if c["auc"]["ci"][0] is not None and c["auc"]["ci"][0] <= 0.5]
    if chance:
        yield (
            "chance",
            len(chance),
            f"In {len(chance)} of {len(cells)} cells the interval of AUC over films reaches "
            "one half: other films could show no effect at all.",
        )


def _trivial(cells: Sequence[Record], baselines: Sequence[Record]) -> Iterable[Remark]:
    ceilings = [b for b in baselines if b["ceiling"] and (b["auc"]["value"] or 0) > 0.98]
    tests = {(b["train"], b["test"]) for b in ceilings}
    if any((c["train"], c["test"]) in tests for c in cells):
        listed = ", ".join(f"{train} -> {test}" for train, test in sorted(tests))
        yield (
            "ceiling",
            len(tests),
            f"In {listed} the true concepts decide the class almost alone, because an easy "
            "negative is by definition a clip without concepts.",
        )


def _skipped(records: Sequence[Record]) -> Iterable[Remark]:
    lost = [r for r in records if r["skipped"]]
    if lost:
        reasons = sorted({item["reason"] for r in lost for item in r["skipped"]})
        yield (
            "skipped folds",
            len(lost),
            f"{sum(len(r['skipped']) for r in lost)} folds in {len(lost)} cells were left out: "
            f"{'; '.join(reasons[:3])}.",
        )
