"""What a report tells of a run: its tables and its sentences, before any layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.tables import Number, Spread, Table

SHOWN = ("f1_binary", "f1_weighted", "ap", "auc")
NAMES = {
    "f1_binary": "F1 binary",
    "f1_weighted": "F1 weighted",
    "f1_macro": "F1 macro",
    "precision": "precision",
    "recall": "recall",
    "accuracy": "accuracy",
    "ap": "AP",
    "auc": "AUC",
    "brier": "Brier",
    "ece": "ECE",
}
INTERVALS = "In brackets: 95 % intervals by bootstrap over films, not over clips."


@dataclass(frozen=True)
class Section:
    """A part of the page: a heading, sentences, and tables that belong together."""

    key: str
    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()


def sections_of(run: Run) -> list[Section]:
    """Everything a run has to say, in the order a reader wants it."""
    made = [
        Section("remarks", "Read this first", tuple(r["text"] for r in run.of("remark"))),
        Section("results", "Results", (INTERVALS,), tuple(result_tables(run))),
        Section("paper", "Beside the paper", _paper_words(run), tuple(paper_tables(run))),
        Section("films", "Film by film", (), tuple(film_tables(run))),
        Section("comparisons", "Which differences hold", (), tuple(comparison_tables(run))),
        Section("analysis", "What makes a clip hard", (), tuple(analysis_tables(run))),
        Section("calibration", "The remaining metrics", (), tuple(other_metrics(run))),
        Section("coverage", "Clips without features", (), tuple(coverage_tables(run))),
        Section("provenance", "What was run", (), tuple(provenance_tables(run))),
    ]
    return [section for section in made if section.sentences or section.tables]


def result_tables(run: Run) -> Iterable[Table]:
    """One table a test: every model and, below, the baselines at the same prevalence."""
    for test in dict.fromkeys(record["test"] for record in [*run.cells, *run.baselines]):
        records = [r for r in [*run.cells, *run.baselines] if r["test"] == test]
        headers = ("store", "trained on", "model", "clips", "share of S", "leaked")
        rows = tuple(
            (
                record["feature"] or "–",
                record["train"],
                model_name(record),
                record["n_test"],
                Number(record["prevalence"]),
                record["leaked"],
                *(number_of(record, metric) for metric in SHOWN),
            )
            for record in records
        )
        leaked = frozenset(i for i, record in enumerate(records) if record["leaked"])
        yield Table(
            f"results-{test}",
            f"Tested on {test}{_title_of(run, test)}",
            (*headers, *(NAMES[metric] for metric in SHOWN)),
            rows,
            "Rows in red: clips of the test set were seen in training." if leaked else "",
            leaked,
        )


def paper_tables(run: Run) -> Iterable[Table]:
    """Cells for which the paper prints a number, ours beside it."""
    rows = [
        (
            record["feature"],
            record["train"],
            record["test"],
            model_name(record),
            printed.get("movie") or "all",
            NAMES.get(printed["metric"], printed["metric"]),
            _ours(record, printed),
            Spread(printed["mean"], printed.get("sd")),
            record["leaked"],
            printed.get("source", ""),
        )
        for record in run.cells
        for printed in record.get("paper") or ()
    ]
    if rows:
        headers = ("store", "trained on", "tested on", "model", "film", "metric")
        leaked = frozenset(i for i, row in enumerate(rows) if row[8])
        yield Table(
            "paper",
            "Ours beside the paper's",
            (*headers, "ours", "paper", "leaked", "source"),
            tuple(rows),
            "Mean (standard deviation) over runs or folds, as the paper prints them.",
            leaked,
        )


def film_tables(run: Run) -> Iterable[Table]:
    """The primary metric of each model, film by film."""
    metric = primary(run)
    films = sorted({film for record in run.cells for film in record["by_movie"]})
    if not films:
        return
    rows = tuple(
        (
            record["feature"],
            f"{record['train']} → {record['test']}",
            model_name(record),
            *(_film_value(record, film, metric) for film in films),
        )
        for record in run.cells
    )
    yield Table(
        "films",
        f"{NAMES.get(metric, metric)} of each film",
        ("store", "task", "model", *films),
        rows,
        "A dash: the film has no clip of one of the classes.",
    )


def comparison_tables(run: Run) -> Iterable[Table]:
    """Pairs of models on the same clips, those that differ most surely first."""
    found = sorted(run.of("comparison"), key=lambda r: _or_one(r.get("p_sign_flip")))
    rows = tuple(
        (
            f"{r['train']} → {r['test']}",
            NAMES.get(r["metric"], r["metric"]),
            _side(r["first"]),
            _side(r["second"]),
            Number(r["difference"], *(r.get("ci") or (None, None))),
            Number(r.get("p_sign_flip"), digits=3),
            Number(r.get("p_corrected_t"), digits=3),
            r.get("n_movies"),
        )
        for r in found[:MOST_COMPARISONS]
    )
    if rows:
        note = (
            "p by sign flips of whole films, exact where there are few; and by the corrected"
            " resampled t-test over folds. They are not corrected for the number of pairs."
        )
        if len(found) > MOST_COMPARISONS:
            note += f" {len(found) - MOST_COMPARISONS} further pairs are in results.json."
        headers = ("task", "metric", "first", "second", "difference", "p by film", "p by fold")
        yield Table("comparisons", "Pairs of models", (*headers, "films"), rows, note)


MOST_COMPARISONS = 24


def analysis_tables(run: Run) -> Iterable[Table]:
    """Success regressed on what is in a clip."""
    for number, record in enumerate(run.of("analysis")):
        rows = tuple(
            (
                factor["name"],
                Number(factor["log_odds"], factor["low"], factor["high"]),
                Number(factor["p"], digits=3),
                Number(factor["inflation"], digits=1),
            )
            for factor in record["factors"]
        )
        about = f"{record['model']} on {record['feature']}, {record['train']} → {record['test']}"
        yield Table(
            f"analysis-{number}",
            f"{record['film'] or 'All films'}: {about}",
            ("factor", "log odds of success", "p", "inflation"),
            rows,
            record.get("note") or "",
        )


def other_metrics(run: Run) -> Iterable[Table]:
    """Calibration and the remaining metrics, for those who want them."""
    metrics = [m for m in NAMES if m not in SHOWN and any(m in r for r in run.cells)]
    rows = tuple(
        (
            record["feature"],
            f"{record['train']} → {record['test']}",
            model_name(record),
            *(number_of(record, metric) for metric in metrics),
        )
        for record in run.cells
    )
    if rows and metrics:
        headers = ("store", "task", "model", *(NAMES[metric] for metric in metrics))
        yield Table("other", "The remaining metrics", headers, rows)


def coverage_tables(run: Run) -> Iterable[Table]:
    """Which clips had no features, and why."""
    for record in run.of("coverage"):
        if not record["n_missing"]:
            continue
        rows = tuple(
            (item["clip_id"], item["reason"], ", ".join(item["tasks"]))
            for item in record["missing"][:MOST_CLIPS]
        )
        n_missing, n_clips = record["n_missing"], record["n_clips"]
        note = "They are left out, never replaced."
        if n_missing > MOST_CLIPS:
            note += f" The first {MOST_CLIPS} of {n_missing}."
        yield Table(
            f"coverage-{record['feature']}",
            f"{record['feature']}: {n_missing} of {n_clips} clips",
            ("clip", "why", "tasks"),
            rows,
            note,
        )


MOST_CLIPS = 50


def provenance_tables(run: Run) -> Iterable[Table]:
    """Hashes, versions, seeds: what somebody needs to run it again."""
    about = run.about
    manifest = about["manifest"]
    rows: list[tuple[Any, ...]] = [
        ("protocol", about["protocol"].get("name", ""), about["protocol_sha256"]),
        ("manifest", f"{manifest['name']} ({manifest['view']} view)", manifest["sha256"]),
    ]
    for name, store in about["stores"].items():
        what = f"{name}: {store['backbone']}, level {store['level']}, {store['width']} wide"
        rows.append(("store", what, store["fingerprint"]))
    rows += [("results", "results.json", about["results_sha256"])]
    rows += [("version", name, version) for name, version in about["versions"].items()]
    rows += [("seed", name, str(seed)) for name, seed in about["seeds"].items()]
    rows += [("made", about.get("created", ""), about.get("created_by", ""))]
    yield Table("provenance", "Inputs, versions, seeds", ("", "what", "hash or value"), tuple(rows))


def model_name(record: Record) -> str:
    """The model as tables call it; what is no model says what it is."""
    name = str(record["model"])
    if record.get("expected"):
        return f"{name} (expected)"
    return f"{name} (ceiling)" if record.get("ceiling") else name


def number_of(record: Record, metric: str) -> Number | None:
    """A metric of a cell with its interval over films."""
    found = record.get(metric)
    if not isinstance(found, Mapping):
        return None
    low, high = found.get("ci") or (None, None)
    value = found.get("value")
    return Number(found.get("mean") if value is None else value, low, high)


def primary(run: Run) -> str:
    """The metric that a protocol puts first."""
    return str(run.protocol.get("report", {}).get("primary") or "ap")


def _title_of(run: Run, task: str) -> str:
    title = run.protocol.get("tasks", {}).get(task, {}).get("title")
    return f": {title}" if title else ""


def _paper_words(run: Run) -> tuple[str, ...]:
    quirk = run.protocol.get("splits", {}).get("quirk")
    if not any(record.get("paper") for record in run.cells):
        return ()
    words = {
        "authors": "The splits and the training follow the released code.",
        "text": "The splits and the training follow the paper's text.",
    }
    return (words[quirk],) if quirk in words else ()


def _ours(record: Record, printed: Mapping[str, Any]) -> Spread:
    film = printed.get("movie")
    if film:
        value = record["by_movie"].get(film, {}).get(printed["metric"])
        return Spread(value)
    found = record.get(printed["metric"]) or {}
    return Spread(found.get("mean"), found.get("sd"))


def _film_value(record: Record, film: str, metric: str) -> Number:
    return Number(record["by_movie"].get(film, {}).get(metric))


def _side(side: Mapping[str, str]) -> str:
    return f"{side['model']} ({side['feature']})" if side.get("feature") else side["model"]


def _or_one(p: Any) -> float:
    return 1.0 if p is None else float(p)


def all_tables(sections: Sequence[Section]) -> list[Table]:
    """The tables of a page, in its order."""
    return [table for section in sections for table in section.tables]
