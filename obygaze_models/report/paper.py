"""The paper's numbers beside ours, in the layout of its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.tables import Group, Spread, Table
from obygaze_models.report.words import metric_name, model_name, pair_name

QUIRKS = {
    "authors": "The splits and the training follow the released code.",
    "text": "The splits and the training follow the paper's text.",
}
SPREAD = (
    "Mean (standard deviation) over runs or folds, as the paper prints them: "
    "noise of training where runs share a test fold, not uncertainty of the test."
)


def paper_words(run: Run) -> tuple[str, ...]:
    """How our numbers were made, and what the spread is."""
    if not any(record.get("paper") for record in run.cells):
        return ()
    quirk = run.protocol.get("splits", {}).get("quirk")
    return (QUIRKS[quirk], SPREAD) if quirk in QUIRKS else (SPREAD,)


def paper_tables(run: Run) -> Iterable[Table]:
    """Cells for which the paper prints a number, ours beside it."""
    return (*_by_cell(run), *_by_film(run))


def _by_cell(run: Run) -> Iterable[Table]:
    """The cells of each model and store together: Table 2 and the bottlenecks."""
    printed = [
        (record, one)
        for record in run.cells
        for one in record.get("paper") or ()
        if not one.get("movie")
    ]
    for metric in dict.fromkeys(one["metric"] for _, one in printed):
        groups: list[Group] = []
        rows: list[tuple[Any, ...]] = []
        own = [(r, one) for r, one in printed if one["metric"] == metric]
        for name in dict.fromkeys(f"{model_name(r)} ({r['feature']})" for r, _ in own):
            groups.append(Group(len(rows), name))
            rows += [
                _beside(r, one) for r, one in own if f"{model_name(r)} ({r['feature']})" == name
            ]
        yield Table(
            f"paper-{metric}",
            f"{metric_name(metric)}, ours beside the paper's",
            ("trained on", "tested on", "ours", "paper", "leaked"),
            tuple(rows),
            warn=frozenset(i for i, row in enumerate(rows) if row[-1]),
            groups=tuple(groups),
        )


def _beside(record: Record, one: Mapping[str, Any]) -> tuple[Any, ...]:
    printed = Spread(one["mean"], one.get("sd"))
    return record["train"], record["test"], _ours(record, one), printed, record["leaked"]


def _by_film(run: Run) -> Iterable[Table]:
    """A row a film: as Table 4."""
    for record in run.cells:
        printed = [one for one in record.get("paper") or () if one.get("movie")]
        if not printed:
            continue
        rows: list[tuple[Any, ...]] = [
            (
                one.get("source") or one["movie"],
                one["movie"],
                _ours(record, one),
                Spread(one["mean"]),
            )
            for one in printed
        ]
        known = [(r[2].mean, r[3].mean) for r in rows if r[2].mean is not None]
        if known:
            ours, theirs = (sum(values) / len(known) for values in zip(*known, strict=True))
            rows.append(("mean of these films", "", Spread(ours), Spread(theirs)))
        metric = metric_name(printed[0]["metric"])
        about = f"{model_name(record)} ({record['feature']})"
        yield Table(
            f"paper-films-{record['model']}-{record['feature']}",
            f"{metric} of each film, unseen: {about}, {pair_name(record['train'], record['test'])}",
            ("film", "id", "ours", "paper"),
            tuple(rows),
            f"Leaked clips: {record['leaked']} of {record['n_test']}.",
        )


def _ours(record: Record, printed: Mapping[str, Any]) -> Spread:
    film = printed.get("movie")
    if film:
        return Spread(record["by_movie"].get(film, {}).get(printed["metric"]))
    found = record.get(printed["metric"]) or {}
    return Spread(found.get("mean"), found.get("sd"))
