"""Concepts and heads of bottlenecks, told: quality, stability, weights, trees, what leaks."""

from __future__ import annotations

from collections.abc import Iterable

from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.tables import Number, Table, slug
from obygaze_models.report.words import number_of

TREE_LEVELS = 4
HOW = (
    "Concepts are judged on films that their vectors were not found on. The trees and weights that "
    "are shown were learned from all clips: they are to be looked at, and the tables above say how "
    "well such a model does on films unseen."
)


def anatomy_words(run: Run) -> tuple[str, ...]:
    """How to read it, and what leaks."""
    return (HOW, *_leaks(parts(run, "concepts"))) if run.of("anatomy") else ()


def anatomy_tables(run: Run) -> Iterable[Table]:
    """What is inside the bottlenecks of a run."""
    banks, heads = parts(run, "concepts"), parts(run, "head")
    return (*_quality(banks), *_gains(heads), *_weights(heads), *_trees(heads))


def parts(run: Run, part: str) -> list[Record]:
    """The records of one part: concepts, or heads."""
    return [record for record in run.of("anatomy") if record["part"] == part]


def about(record: Record) -> str:
    """What a head is called: model, store, and the task it was trained for."""
    return f"{record['model']} ({record['feature']}), {record['task']}"


def _leaks(banks: list[Record]) -> Iterable[str]:
    for bank in banks:
        leak = bank.get("film_leak")
        if leak:
            yield (
                f"{bank['feature']}: from the margins alone, the film is told with balanced "
                f"accuracy {leak['balanced_accuracy']:.2f}; guessing one of {leak['n_films']} "
                f"films has {leak['chance']:.2f}."
            )
        if bank.get("note"):
            yield f"{bank['feature']}: {bank['note']}."
        if bank.get("left_out"):
            why = "; ".join(f"{name} ({text})" for name, text in bank["left_out"].items())
            yield f"{bank['feature']}: left out for want of clips: {why}."


def _quality(banks: list[Record]) -> Iterable[Table]:
    for number, bank in enumerate(banks):
        rows = tuple(
            (
                one["name"],
                one["n_positive"],
                Number(one["prevalence"]),
                *(number_of(one, metric) for metric in ("ap", "auc", "f1_binary")),
                Number(one["auc_against_EN"]),
                Number(one["auc_against_without"]),
                Number(one["p_holm"], digits=3, is_p=True),
                Number(one["stability"]["mean"]),
                Number(one["stability"]["least"]),
            )
            for one in bank["concepts"]
        )
        if rows:
            headers = ("concept", "clips", "share", "AP", "AUC", "F1", "AUC to EN", "AUC to others")
            models = ", ".join(bank["models"])
            yield Table(
                f"concepts-{slug(bank['feature'])}-{number}",
                f"Concept vectors of {bank['feature']} ({models})",
                (*headers, "p (Holm)", "cosine", "least"),
                rows,
                "p: labels shifted in a circle within each film rank as high. AUC to EN: told from "
                "easy negatives; to others: from hard negatives and sure clips without it. Cosine: "
                "of the vector found without a film to that found with it, mean and least.",
            )


def _gains(heads: list[Record]) -> Iterable[Table]:
    rows = tuple(
        (
            about(head),
            Number(gain["from_margins"]),
            Number(gain["from_truth"]),
            Number(gain["gain"]),
            Number(gain["prevalence"]),
        )
        for head in heads
        for gain in [head["task_gain"]]
        if gain
    )
    if rows:
        yield Table(
            "task-gain",
            "Does the task leak through the concepts?",
            ("head", "AP from margins", "AP from true concepts", "difference", "share positive"),
            rows,
            "Margins that do better than the true concepts they stand for carry something else.",
        )


def _weights(heads: list[Record]) -> Iterable[Table]:
    linear = [head for head in heads if head["weights"]]
    for concepts in dict.fromkeys(tuple(head["concepts"]) for head in linear):
        own = [head for head in linear if tuple(head["concepts"]) == concepts]
        rows = tuple((about(head), *(Number(weight) for weight in effects(head))) for head in own)
        note = "Log odds that one standard deviation of a concept's margin adds."
        key = f"weights-{slug(own[0]['feature'])}"
        yield Table(key, "Weights of concepts", ("head", *concepts), rows, note, folded=True)


def effects(head: Record) -> list[float]:
    """What one standard deviation of each margin adds to the log odds."""
    weights = head["weights"]
    return [c * sd for c, sd in zip(weights["coef"], weights["sd"], strict=True)]


def _trees(heads: list[Record]) -> Iterable[Table]:
    for head in heads:
        if head["tree"]:
            rows = tuple(_questions(head, 0, 0))
            name = f"{head['model']}-{head['feature']}-{head['task']}"
            yield Table(
                f"tree-{slug(name)}",
                f"The tree of {about(head)}, top {TREE_LEVELS} levels",
                ("question", "threshold", "clips", "share positive"),
                rows,
                "Thresholds in units of the margin. Each question: first where the margin is at "
                "most the threshold, then where it is above.",
                folded=True,
            )


def _questions(head: Record, node: int, depth: int) -> Iterable[tuple[object, ...]]:
    tree = head["tree"]
    inner = tree["left"][node] >= 0 and depth < TREE_LEVELS
    name = head["concepts"][tree["concept"][node]] if inner else "→"
    threshold = Number(tree["threshold"][node], digits=3) if inner else None
    yield "· " * depth + name, threshold, tree["n"][node], Number(tree["share"][node])
    if inner:
        yield from _questions(head, tree["left"][node], depth + 1)
        yield from _questions(head, tree["right"][node], depth + 1)
