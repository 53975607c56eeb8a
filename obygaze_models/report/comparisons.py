"""Differences between models, and between models and baselines, on the same clips."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from scipy.special import stdtrit

from obygaze_features.core.console import count
from obygaze_models.models.registry import is_baseline
from obygaze_models.protocols.results.differences import Comparison
from obygaze_models.report.lookup import (
    ReportRun,
    best_guesses,
    difference_of,
    grouped,
    metric_name,
    pair_name,
)
from obygaze_models.report.tables import (
    Heading,
    Number,
    Part,
    Row,
    make_table,
    sentence,
)

ALPHA = 0.05


def differences(run: ReportRun) -> Part:
    """Yield the differences that no question asks for, by p and then by size.

    Those against the best baseline are first; the rest are folded. Sentences say which difference
    of two models the films of the run are enough to find, and that these ones are exploratory.
    """

    def order(same: Sequence[Comparison]) -> tuple[float, float]:
        p = same[0].p_sign_flip
        return 1.0 if p is None else p, -abs(same[0].difference or 0.0)

    yield from _detectable_differences(run)
    records = [
        record
        for record in run.of(Comparison)
        if record.question is None and not _has_oracle(record)
    ]
    yield from _exploratory(run)
    against_best = []
    others = []
    for same in sorted(_shown_alike(run, records), key=order):
        if any(_is_against_best(run, record) for record in same):
            against_best.append(same)
        else:
            others.append(same)
    columns = _p_columns(records)
    if against_best:
        rows = [_compared(run, same, columns) for same in against_best]
        yield make_table("comparisons", "comparisons", rows, columns)
    further = _further_rows(run, others, columns)
    if further:
        table = make_table(
            "further_comparisons", "comparisons-further", further, columns
        )
        yield replace(table, folded=bool(against_best))


def questions(run: ReportRun) -> Part:
    """Yield the differences that the protocol asked for before the run, by question."""
    asked = run.settings.get("questions") or []
    if not asked:
        return
    records = [record for record in run.of(Comparison) if record.question is not None]
    n = count(len(asked), "question")
    if records:
        yield sentence("questions", n=n, n_family=len(records))
    columns = _p_columns(records)
    rows: list[Row | Heading] = []
    for number, question in enumerate(asked):
        text = question.get("text") or f"question {number + 1}"
        of_question = [record for record in records if record.question == number]
        if not of_question:
            yield sentence("unanswered", question=text)
            continue
        rows.append(Heading(text))
        for same in _shown_alike(run, of_question):
            rows.append(_compared(run, same, columns))
    if rows:
        yield make_table("questions", "questions", rows, columns)


def _exploratory(run: ReportRun) -> Iterator[str]:
    """Yield a sentence that says how many differences nobody asked for, and how many remain."""
    corrected = [
        record.p_family
        for record in run.of(Comparison)
        if record.question is None and record.p_family is not None
    ]
    if corrected:
        n_left = sum(p <= ALPHA for p in corrected)
        yield sentence("exploratory", n=len(corrected), n_left=n_left)


def _shown_alike(
    run: ReportRun, records: Sequence[Comparison]
) -> list[list[Comparison]]:
    """Return the records in groups that share a row: all that is shown but the second is equal."""

    def shown(record: Comparison) -> tuple[object, ...]:
        return (
            *record.pair,
            record.metric,
            run.label(record.first),
            _has_baseline(record),
            str(difference_of(record)),
            record.p_sign_flip,
            record.p_family,
        )

    return list(grouped(records, shown).values())


def _p_columns(records: Sequence[Comparison]) -> list[str]:
    """Return the columns of p: that by films only where all runs test the same clips."""
    columns = []
    if any(record.p_sign_flip is not None for record in records):
        columns.append("p")
    if any(record.p_family is not None for record in records):
        columns.append("p (all)")
    return columns


def _further_rows(
    run: ReportRun, groups: Sequence[Sequence[Comparison]], columns: Sequence[str]
) -> list[Row | Heading]:
    """Return the rows of differences between two models, then those to a baseline."""
    two_models = [same for same in groups if not _has_baseline(same[0])]
    with_baseline = [same for same in groups if _has_baseline(same[0])]
    rows: list[Row | Heading] = []
    if two_models:
        rows.append(Heading("two models"))
        rows += [_compared(run, same, columns) for same in two_models]
    if with_baseline:
        rows.append(Heading("a model and a baseline"))
        rows += [_compared(run, same, columns) for same in with_baseline]
    return rows


def _detectable_differences(run: ReportRun) -> Iterator[str]:
    """Yield a sentence per metric: which difference of two models the films are enough to find."""
    detectable: dict[tuple[int, str], list[float]] = {}
    for record in run.of(Comparison):
        if _has_baseline(record):
            continue
        least = _detectable(run, record)
        if least is None:
            continue
        group = (record.n_films, metric_name(record.metric))
        detectable.setdefault(group, []).append(least)
    for (n_films, metric), differences_of_group in detectable.items():
        yield sentence(
            "power",
            typical=f"{median(differences_of_group):.2f}",
            n_films=n_films,
            metric=metric,
            confidence=run.confidence,
        )


def _is_against_best(run: ReportRun, record: Comparison) -> bool:
    """Return whether a model is compared with the best baseline without features of its cell."""
    second = (record.second.model, record.second.feature)
    best = best_guesses(run, record.pair, record.first.feature, record.metric)
    return second in [(guess.model, guess.feature) for guess in best]


def _compared(
    run: ReportRun, same: Sequence[Comparison], columns: Sequence[str]
) -> Row:
    first = same[0]
    p_of = {"p": first.p_sign_flip, "p (all)": first.p_family}
    return (
        pair_name(*first.pair),
        run.label(first.first),
        ", ".join(run.label(record.second) for record in same),
        metric_name(first.metric),
        difference_of(first),
        first.n_films,
        *(Number(p_of[column], digits=3, is_p=True) for column in columns),
    )


def _has_oracle(record: Comparison) -> bool:
    return "oracle" in (record.first.model, record.second.model)


def _has_baseline(record: Comparison) -> bool:
    return is_baseline(record.second.model)


def _detectable(run: ReportRun, record: Comparison) -> float | None:
    """Return the difference that a test of that confidence finds in 80 % of samples."""
    low, high = record.ends
    if low is None or high is None or record.n_films < 3:
        return None
    confidence = run.settings.get("confidence", 0.95)
    tail, power = stdtrit(record.n_films - 1, ((1 + confidence) / 2, 0.8))
    return float((tail + power) * (high - low) / (2 * tail))
