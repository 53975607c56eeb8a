"""Scores beside the levels EN < HN < NS < S, and beside several annotators."""

from itertools import chain

from obygaze_models.protocols.results.levels import AnnotatorDistance, LevelOrder
from obygaze_models.report.lookup import ReportRun, number_of
from obygaze_models.report.tables import Number, Part, make_table


def levels(run: ReportRun) -> Part:
    """Yield how well scores follow the order of the levels, and the error of predicted levels."""

    def numbers(record: LevelOrder) -> list[Number]:
        errors = [Number(record.macro_error), Number(record.blind_error)]
        return [number_of(record.concordance), *errors]

    records = run.of(LevelOrder)
    if records:
        yield make_table("levels", "levels", run.rows_by_pair(records, numbers))


def annotators(run: ReportRun) -> Part:
    """Yield distances to what all annotators said, and the errors by annotator."""
    records = run.of(AnnotatorDistance)
    all_names = chain.from_iterable(record.errors for record in records)
    names = list(dict.fromkeys(all_names))

    def numbers(record: AnnotatorDistance) -> list[Number]:
        distances = (record.manhattan, record.wasserstein, record.blind_manhattan)
        errors = [record.errors.get(name) for name in names]
        return [Number(value) for value in (*distances, *errors)]

    if records:
        rows = run.rows_by_pair(records, numbers)
        headers = [f"error, {name or '-'}" for name in names]
        yield make_table("annotators", "annotators", rows, headers)
