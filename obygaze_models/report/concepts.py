"""Tables and sentences about concept vectors and bottlenecks: quality, weights, trees, leaks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from obygaze_models.protocols.runner.records import Record
from obygaze_models.report.lookup import ReportRun, grouped, number_of
from obygaze_models.report.tables import Heading, Number, ResultTable, Row, make_table, slug
from obygaze_models.report.texts import sentence

MAX_TREE_DEPTH = 4


def head_name(head: Record) -> str:
    """Return the name of a head: model, store, and the task it was trained for."""
    return f"{head['model']} ({head['feature']}), {head['task']}"


def concept_sentences(run: ReportRun) -> Iterable[str]:
    """Yield how concepts are evaluated, and how well they predict the film of a clip."""
    if run.of("anatomy"):
        yield sentence("concepts")
    for bank in run.banks:
        feature = bank["feature"]
        if leak := bank.get("film_leak"):
            yield sentence("film_leak", feature=feature, **leak)
        if bank.get("note"):
            yield sentence("bank_note", feature=feature, note=bank["note"])
        if bank.get("left_out"):
            concepts = "; ".join(f"{name} ({why})" for name, why in bank["left_out"].items())
            yield sentence("left_out", feature=feature, concepts=concepts)


def concept_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield the tables of concept vectors, then those of the heads."""
    for number, bank in enumerate(run.banks):
        if bank["concepts"]:
            feature, models = bank["feature"], ", ".join(bank["models"])
            rows: list[Row | Heading] = [_concept_row(concept) for concept in bank["concepts"]]
            rows += _reference_rows(bank["concepts"])
            key = f"concepts-{slug(feature)}-{number}"
            yield make_table("concepts", key, rows, feature=feature, models=models)
    if gains := [head for head in run.heads if head["task_gain"]]:
        yield make_table("task_gain", "task-gain", [_gain_row(head) for head in gains])
    linear = [head for head in run.heads if head["weights"]]
    for concepts, heads in grouped(linear, lambda head: tuple(head["concepts"])).items():
        weights = [(head_name(head), *map(Number, effects(head))) for head in heads]
        yield make_table("weights", f"weights-{slug(heads[0]['feature'])}", weights, concepts)
    for head in run.heads:
        if head["tree"]:
            name, rows = head_name(head), list(_tree_rows(head, 0, 0))
            yield make_table("tree", f"tree-{slug(name)}", rows, name=name, depth=MAX_TREE_DEPTH)


def _concept_row(concept: Record) -> Row:
    return (
        concept["name"],
        concept["n_positive"],
        Number(concept["prevalence"]),
        *(number_of(concept, metric) for metric in ("ap", "auc", "f1_binary")),
        Number(concept["auc_against_EN"]),
        Number(concept["auc_against_without"]),
        Number(concept["p_holm"], digits=3, is_p=True),
        Number(concept["stability"]["mean"]),
        Number(concept["stability"]["least"]),
    )


def _reference_rows(concepts: Sequence[Record]) -> list[Row | Heading]:
    """Return what noise and random directions reach, as means over the concepts."""
    noise = [own for concept in concepts if (own := concept.get("noise"))]
    random = [own for concept in concepts if (own := concept.get("random_directions"))]
    rows: list[Row | Heading] = []
    if noise:
        ap, auc = (Number(fmean(own[metric] for own in noise)) for metric in ("ap", "auc"))
        mean, least = (
            Number(fmean(own["stability"][end] for own in noise)) for end in ("mean", "least")
        )
        row = ("vectors of random features", None, None, ap, auc, *[None] * 4, mean, least)
        rows.append(row)
    for name, end in (("random directions", "mean"), ("95th percentile of these", "high")):
        if random:
            ap, auc = (Number(fmean(r[metric][end] for r in random)) for metric in ("ap", "auc"))
            rows.append((name, None, None, ap, auc, *[None] * 6))
    return [Heading("references, means over the concepts", quiet=True), *rows] if rows else []


def _gain_row(head: Record) -> Row:
    parts = ("from_margins", "from_truth", "gain", "prevalence")
    return head_name(head), *(Number(head["task_gain"][part]) for part in parts)


def effects(head: Record) -> list[float]:
    """Return the change in the log odds for one standard deviation of each margin."""
    weights = head["weights"]
    return [c * sd for c, sd in zip(weights["coef"], weights["sd"], strict=True)]


def _tree_rows(head: Record, node: int, depth: int) -> Iterable[Row]:
    tree = head["tree"]
    inner = tree["left"][node] >= 0 and depth < MAX_TREE_DEPTH
    name = head["concepts"][tree["concept"][node]] if inner else "→"
    threshold = Number(tree["threshold"][node], digits=3) if inner else None
    yield "· " * depth + name, threshold, tree["n"][node], Number(tree["share"][node])
    if inner:
        yield from _tree_rows(head, tree["left"][node], depth + 1)
        yield from _tree_rows(head, tree["right"][node], depth + 1)
