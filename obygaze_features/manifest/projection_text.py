"""Projections and agreement as text for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from obygaze_features.core.console import count, table
from obygaze_features.manifest.model import LEVELS
from obygaze_features.manifest.projection import Projection, threshold_text


def levels_text(made: Projection) -> str:
    """One line a clip: what each annotator gave it and what it has in the end."""
    names = list(made.by_annotator)
    given = {name: {row.clip_id: row.level for row in made.by_annotator[name]} for name in names}
    rows = [
        (
            row.clip_id,
            *(given[name].get(row.clip_id) for name in names),
            row.level if row.labelled else "none",
            None if row.ratio is None else f"{100 * row.ratio[0] / row.ratio[1]:.1f} %",
            ", ".join(row.concepts),
        )
        for row in made.merged
    ]
    return table(("clip", *names, "level", "share", "concepts"), rows)


def summary(made: Projection) -> str:
    """The merged levels in one line."""
    counts = ", ".join(f"{level} {n}" for level, n in made.counts().items())
    return f"{count(len(made.merged), 'clip')}: {counts}, without a label {len(made.unlabelled)}"


def sweep_text(swept: Sequence[Projection]) -> str:
    """One line a threshold: how many clips of each level."""
    rows = [
        (threshold_text(one.threshold), *one.counts().values(), len(one.unlabelled))
        for one in swept
    ]
    return table(("threshold", *LEVELS, "unlabelled"), rows)


def agreement_text(document: Mapping[str, Any]) -> str:
    """The mean over films under each idea of chance, then each film and pair."""
    parts = [_means(document), _pairs(document)]
    if document["degenerate"]:
        parts.append("'-' marks pairs that chance alone would make agree on everything")
    return "\n\n".join(parts)


def _means(document: Mapping[str, Any]) -> str:
    columns = {
        "gamma": document["gamma"],
        "without NS": document["gamma_without_ns"],
        "p": _small(document["p_value"]),
        "p without NS": _small(document["p_value_without_ns"]),
    }
    if sampled := document.get("sampled"):
        columns[f"{sampled['n_random']} samples"] = sampled["gamma"]
        columns["samples without NS"] = sampled["gamma_without_ns"]
    nulls = list(document["gamma"])
    return table(
        ("chance", *columns),
        [(null, *(column[null] for column in columns.values())) for null in nulls],
    )


def _pairs(document: Mapping[str, Any]) -> str:
    nulls = list(document["gamma"])
    rows = [
        (
            pair["movie_id"],
            " / ".join(pair["annotators"]),
            pair["n"],
            *(pair["gamma"][null] for null in nulls),
            pair["alpha"],
            pair["without_ns"]["n"],
            *(pair["without_ns"]["gamma"][null] for null in nulls),
        )
        for pair in document["pairs"]
    ]
    return table(("film", "pair", "clips", *nulls, "alpha", "without NS", *nulls), rows)


def _small(values: Mapping[str, float | None]) -> dict[str, str | None]:
    # A p-value is never 0, and should not look like it.
    return {
        null: None if value is None else f"{value:.6f}".rstrip("0").rstrip(".")
        for null, value in values.items()
    }
