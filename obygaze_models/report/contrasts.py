"""Which of two training tasks is better: models trained on each, on the same test clips."""

from obygaze_models.evaluation.metrics import RANKING_METRICS
from obygaze_models.protocols.results.differences import Contrast
from obygaze_models.report.lookup import (
    ReportRun,
    difference_of,
    grouped,
    metric_name,
)
from obygaze_models.report.tables import (
    Heading,
    Number,
    Part,
    Row,
    make_table,
    sentence,
)


def contrasts(run: ReportRun) -> Part:
    """Yield the differences between the two training tasks that the protocol contrasts."""
    records = run.of(Contrast)
    if not records:
        return
    names = {"first": records[0].first.train, "second": records[0].second.train}
    n_higher = sum((record.difference or 0) > 0 for record in records)
    yield sentence("contrast", n_higher=n_higher, n=len(records), **names)
    if any(r.ci is None for r in records if r.metric in RANKING_METRICS):
        yield sentence("untested")
    rows: list[Row | Heading] = []
    for test, same_test in grouped(records, lambda record: record.test).items():
        rows.append(Heading(f"tested on {test}"))
        rows += [_contrast_row(run, record) for record in same_test]
    yield make_table("contrast", "contrast", rows, confidence=run.confidence, **names)


def _contrast_row(run: ReportRun, record: Contrast) -> Row:
    n_higher = record.n_films_higher
    higher = f"{'–' if n_higher is None else n_higher} of {record.n_films}"
    return (
        run.label(record),
        metric_name(record.metric),
        Number(record.first.value),
        Number(record.second.value),
        difference_of(record),
        Number(record.p, digits=3, is_p=True),
        higher,
        record.n_seeds,
        record.n_test,
        record.leaked,
    )
