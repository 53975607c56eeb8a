"""The sections of a report: sentences and tables of a run under their headings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from scipy.stats import t as student_t

from obygaze_models.audits.result import read_findings
from obygaze_models.models.registry import BASELINES
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.concepts import concept_sentences, concept_tables
from obygaze_models.report.figure import Figure
from obygaze_models.report.lookup import (
    SHOWN,
    ReportRun,
    factor_names,
    grouped,
    is_one_film,
    metric_name,
    number_of,
    pair_name,
    pair_of,
    rank_of,
)
from obygaze_models.report.results import (
    Rows,
    argmax_tables,
    film_tables,
    learning_tables,
    paper_sentences,
    paper_tables,
    result_tables,
    rows_by_pair,
)
from obygaze_models.report.tables import Heading, Number, ResultTable, Row, make_table, slug
from obygaze_models.report.texts import report_text, sentence
from obygaze_models.report.timelines import clip_tables

MAX_MISSING = 50


@dataclass(frozen=True)
class Section:
    """The sentences, figures and tables under one heading."""

    key: str
    sentences: Sequence[str]
    figures: Sequence[Figure]
    tables: Sequence[ResultTable]

    @property
    def title(self) -> str:
        """The heading."""
        return report_text().headings[self.key]


def sections_of(run: ReportRun, figures: Sequence[Figure] = ()) -> list[Section]:
    """Return the sections of a run that are not empty, in the order of the page."""
    untested = any(record["p"] is None for record in run.of("contrast"))
    sentences: dict[str, Iterable[str]] = {
        "contrast": [sentence("untested")] if untested else [],
        "remarks": (record["text"] for record in run.of("remark")),
        "clips": task_sentences(run),
        "results": [sentence("intervals", confidence=run.confidence)],
        "paper": paper_sentences(run),
        "comparisons": power_sentences(run),
        "concepts": concept_sentences(run),
    }
    tables: dict[str, Iterable[ResultTable]] = {
        "contrast": contrast_tables(run),
        "results": (*result_tables(run), *argmax_tables(run), *learning_tables(run)),
        "paper": paper_tables(run),
        "films": (*film_tables(run), *clip_tables(run)),
        "comparisons": comparison_tables(run),
        "concepts": concept_tables(run),
        "analysis": analysis_tables(run),
        "decisions": (*further_metrics(run), *recalibration_tables(run)),
        "audits": finding_tables(run),
        "coverage": coverage_tables(run),
        "provenance": provenance_tables(run),
    }
    drawn = grouped(figures, lambda figure: figure.section)
    made = [
        Section(key, [*sentences.get(key, ())], drawn.get(key, ()), [*tables.get(key, ())])
        for key in report_text().headings
    ]
    return [section for section in made if section.sentences or section.figures or section.tables]


def task_sentences(run: ReportRun) -> Iterable[str]:
    """Yield what each task separates."""
    if run.task_titles:
        titles = (f"{name}: {title}" for name, title in run.task_titles.items())
        yield sentence("tasks", titles="; ".join(titles))


def contrast_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield the differences between the two training tasks that the protocol contrasts."""
    rows: Rows = [
        (
            record["test"],
            run.label(record),
            metric_name(record["metric"]),
            *(Number(record[side]["value"]) for side in ("first", "second")),
            _difference(record),
            Number(record["p"], digits=3, is_p=True),
            f"{record.get('n_movies_higher', '–')} of {record['n_movies']}",
            *(record[key] for key in ("n_seeds", "n_test", "leaked")),
        )
        for record in run.of("contrast")
    ]
    if rows:
        record = run.of("contrast")[0]
        names = {side: record[side]["train"] for side in ("first", "second")}
        made = make_table("contrast", "contrast", rows, confidence=run.confidence, **names)
        headers = tuple(header.format(**names) for header in made.headers)
        yield replace(made, headers=headers)


def comparison_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield differences on the same clips, smallest p first; equal ones share a row.

    Those against the best baseline are first; the rest are folded.
    """

    def key(record: Record) -> tuple[object, ...]:
        first, difference = run.label(record["first"]), str(_difference(record))
        return *pair_of(record), record["metric"], first, _has_baseline(record), difference

    records = [record for record in run.of("comparison") if "oracle" not in _models(record)]
    found = sorted(grouped(records, key).values(), key=lambda same: _order(same[0]))
    best = [same for same in found if any(_is_against_best(run, record) for record in same)]
    rest = [same for same in found if same not in best]
    if best:
        rows = [_compared(run, same) for same in best]
        yield make_table("comparisons", "comparisons", rows)
    further: Rows = []
    for title, baseline in (("two models", False), ("a model and a baseline", True)):
        own = [same for same in rest if _has_baseline(same[0]) == baseline]
        further += [Heading(title), *(_compared(run, same) for same in own)] if own else []
    if further:
        table = make_table("further_comparisons", "comparisons-further", further)
        yield replace(table, folded=bool(best))


def power_sentences(run: ReportRun) -> Iterable[str]:
    """Yield which difference of two models the films of the run are enough to find."""
    found = [
        (run.confidence, record["n_movies"], metric_name(record["metric"]), smallest)
        for record in run.of("comparison")
        if not _has_baseline(record) and (smallest := _detectable(run, record)) is not None
    ]
    for (confidence, n_films, metric), own in grouped(found, lambda one: one[:3]).items():
        typical = median(one[3] for one in own)
        yield sentence(
            "power", n_films=n_films, metric=metric, typical=f"{typical:.2f}", confidence=confidence
        )


def _detectable(run: ReportRun, record: Record) -> float | None:
    """Return the difference that a test at the level of the interval finds in 80 % of samples."""
    low, high = record.get("ci") or (None, None)
    if low is None or high is None or record["n_movies"] < 3:
        return None
    t = student_t(record["n_movies"] - 1)
    tail = t.ppf((1 + run.settings.get("confidence", 0.95)) / 2)
    return float((tail + t.ppf(0.8)) * (high - low) / (2 * tail))


def _is_against_best(run: ReportRun, record: Record) -> bool:
    """Return whether a model is compared with the best baseline without features of its cell."""
    second, metric = record["second"], record["metric"]
    blind = {
        (one["model"], one["feature"]): rank_of(one, metric)
        for one in run.baselines
        if pair_of(one) == pair_of(record) and not one.get("ceiling")
        if one["feature"] in ("", record["first"]["feature"])
    }
    own = blind.get((second["model"], second["feature"]))
    return own is not None and own == max(blind.values())


def _compared(run: ReportRun, same: Sequence[Record]) -> Row:
    first = same[0]
    return (
        pair_name(*pair_of(first)),
        run.label(first["first"]),
        ", ".join(run.label(record["second"]) for record in same),
        metric_name(first["metric"]),
        _difference(first),
        Number(_p_value(first), digits=3, is_p=True),
        first.get("n_movies"),
    )


def _models(record: Record) -> tuple[str, str]:
    return record["first"]["model"], record["second"]["model"]


def _has_baseline(record: Record) -> bool:
    return _models(record)[1] in BASELINES


def _difference(record: Record) -> Number:
    return Number(record["difference"], *(record.get("ci") or (None, None)))


def _order(record: Record) -> tuple[float, float]:
    return _or_one(_p_value(record)), -abs(record["difference"] or 0.0)


def _p_value(record: Record) -> float | None:
    """Return the p-value of a comparison if its error rate is near the nominal one, else None."""
    by_fold: float | None = record.get("p_corrected_t")
    if by_fold is not None:
        # If several runs test each film, it rejects a true null hypothesis in .01 at .05.
        return None if record.get("repeated") else by_fold
    by_film: float | None = record.get("p_sign_flip")
    return by_film


def _or_one(p: float | None) -> float:
    return 1.0 if p is None else float(p)


def analysis_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield the log odds of success for each factor, a table per cell, a column per film."""
    for (model, feature, train, test), analyses in run.analyses.items():
        own = sorted(analyses, key=is_one_film)
        factors = [{factor["name"]: factor for factor in record["factors"]} for record in own]
        notes = list(dict.fromkeys(str(record["note"]) for record in own if record.get("note")))
        rows = [
            (name, *(_log_odds(f.get(name), r) for f, r in zip(factors, own, strict=True)))
            for name in factor_names(own)
        ]
        yield make_table(
            "analysis",
            f"analysis-{slug(f'{model}-{feature}-{train}-{test}')}",
            rows,
            [run.film_name(record["film"]) or "all films" for record in own],
            name=f"{model} ({feature}), {pair_name(train, test)}",
            notes="".join(f" {note}" for note in notes[:2]),
        )


def _log_odds(factor: Mapping[str, Any] | None, record: Record) -> Number:
    if factor is None:
        return Number(None)
    low, high = (None, None) if is_one_film(record) else (factor["low"], factor["high"])
    return Number(factor["log_odds"], low, high, mark="*" if _or_one(factor["p"]) < 0.05 else "")


def further_metrics(run: ReportRun) -> Iterable[ResultTable]:
    """Yield calibration and the metrics that the results do not show."""
    known = [metric for metric in report_text().metrics if metric not in SHOWN]
    metrics = [metric for metric in known if any(metric in cell for cell in run.cells)]

    if metrics:
        headers = [metric_name(metric) for metric in metrics]
        rows = rows_by_pair(run, lambda cell: [Number(number_of(cell, m).value) for m in metrics])
        yield make_table("further", "other", rows, headers)
    if any(cell.get("tuned") for cell in run.cells):
        names = [name for cell in run.cells for name in cell.get("tuned") or ()]
        shown = list(dict.fromkeys(names))
        headers = [f"{metric_name(m)}{end}" for m in shown for end in ("", ", chosen threshold")]
        rows = rows_by_pair(run, lambda cell: _at_thresholds(cell, shown))
        yield make_table("thresholds", "thresholds", rows, headers)


def _at_thresholds(cell: Record, metrics: Sequence[str]) -> list[Number]:
    """Return each metric at the default threshold and at that of the training films."""
    tuned = cell.get("tuned") or {}
    pairs = [(number_of(cell, m).value, tuned.get(m, {}).get("value")) for m in metrics]
    return [Number(value) for pair in pairs for value in pair]


def recalibration_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield Brier score and calibration error of each cell, before and after recalibration."""
    rows: Rows = []
    for pair, cells in grouped(run.cells, pair_of).items():
        own = [(cell, again) for cell in cells if (again := cell.get("recalibrated"))]
        rows += [Heading(pair_name(*pair))] if own else []
        for cell, again in own:
            values = [
                Number(value, digits=3)
                for metric in ("brier", "ece")
                for value in (number_of(cell, metric).value, again[metric])
            ]
            rows.append((run.label(cell), *values))
    if rows:
        yield make_table("recalibration", "recalibration", rows)


def coverage_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield the clips without features and the reasons."""
    for record in run.of("coverage"):
        n_missing, feature = record["n_missing"], record["feature"]
        rows = [
            (clip["clip_id"], clip["reason"], ", ".join(clip["tasks"]))
            for clip in record["missing"][:MAX_MISSING]
        ]
        cut = n_missing > MAX_MISSING
        names = {"feature": feature, "n_missing": n_missing, "n_clips": record["n_clips"]}
        names["more"] = f" The first {MAX_MISSING} of {n_missing} are listed." if cut else ""
        if n_missing:
            yield make_table("coverage", f"coverage-{slug(feature)}", rows, **names)


def provenance_tables(run: ReportRun) -> Iterable[ResultTable]:
    """Yield checksums, versions and seeds: what is needed to run the experiment again."""
    about = run.about
    manifest = about["manifest"]
    rows: Rows = [
        ("protocol", about["protocol"].get("name", ""), about["protocol_sha256"]),
        ("manifest", f"{manifest['name']} ({manifest['view']} view)", manifest["sha256"]),
    ]
    for name, store in about["stores"].items():
        what = f"{name}: {store['backbone']}, level {store['level']}, {store['width']} wide"
        rows.append(("store", what, store["fingerprint"]))
    rows.append(("results", "results.json", about["results_sha256"]))
    rows += [("version", name, version) for name, version in about["versions"].items()]
    rows += [("seed", name, str(seed)) for name, seed in about["seeds"].items()]
    rows.append(("created", about.get("created", ""), about.get("created_by", "")))
    yield make_table("provenance", "provenance", rows)


def finding_tables(run: Run) -> Iterable[ResultTable]:
    """Yield a table per audit finding, with its sentences as the note."""
    for name, finding in read_findings(run.folder).items():
        texts = {"name": finding.title, "sentences": " ".join(finding.sentences)}
        yield make_table("audit", f"audit-{slug(name)}", finding.rows, finding.headers, **texts)
