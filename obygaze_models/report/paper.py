"""The numbers of a run beside those that a paper prints."""

from collections.abc import Sequence

from obygaze_models.protocols.results.cells import CellRecord, Metric, PrintedValue
from obygaze_models.protocols.schemes import about_scheme, scheme_of
from obygaze_models.report.lookup import (
    ReportRun,
    film_value,
    grouped,
    metric_name,
    model_and_store,
    pair_name,
)
from obygaze_models.report.tables import (
    Heading,
    Number,
    Part,
    ResultTable,
    Row,
    make_table,
    sentence,
)


def paper(run: ReportRun) -> Part:
    """Yield the numbers of this run with those that the paper prints: by cell, then by film."""
    if any(cell.paper for cell in run.cells):
        about = about_scheme(scheme_of(run.protocol.get("splits", {})))
        if about:
            yield about
        yield sentence("spread")
    pairs = []
    for cell in run.cells:
        all_films = [p for p in cell.paper if not p.film]
        pairs += [(cell, printed) for printed in all_films]
    for metric, same_metric in grouped(pairs, lambda p: p[1].metric).items():
        rows = _paper_rows(same_metric)
        yield make_table("paper", f"paper-{metric}", rows, metric=metric_name(metric))
    for cell in run.cells:
        by_film = [p for p in cell.paper if p.film]
        if by_film:
            yield _paper_by_film(cell, by_film)


def _paper_rows(
    pairs: Sequence[tuple[CellRecord, PrintedValue]],
) -> list[Row | Heading]:
    """Return a row for each cell and what the paper prints for it, by model."""
    rows: list[Row | Heading] = []
    by_model = grouped(pairs, lambda pair: model_and_store(pair[0]))
    for name, same_model in by_model.items():
        rows.append(Heading(name))
        for cell, printed in same_model:
            ours = _ours(cell, printed)
            theirs = Number(printed.mean, sd=printed.sd)
            rows.append((*cell.pair, ours, theirs, cell.leaked))
    return rows


def _paper_by_film(cell: CellRecord, printed: Sequence[PrintedValue]) -> ResultTable:
    """Return a row per film, as in Table 4 of the paper."""
    rows: list[tuple[str, str, Number, Number]] = []
    our_values = []
    their_values = []
    for value in printed:
        film = value.film or ""
        ours = _ours(cell, value)
        theirs = Number(value.mean, sd=value.sd)
        rows.append((value.source or film, film, ours, theirs))
        if ours.value is not None:
            our_values.append(ours.value)
            their_values.append(value.mean)
    if our_values:
        our_mean = sum(our_values) / len(our_values)
        their_mean = sum(their_values) / len(their_values)
        rows.append(("mean of these films", "", Number(our_mean), Number(their_mean)))
    return make_table(
        "paper_films",
        f"paper-films-{cell.model}-{cell.feature}",
        rows,
        metric=metric_name(printed[0].metric),
        name=f"{model_and_store(cell)}, {pair_name(*cell.pair)}",
        leaked=cell.leaked,
        n_test=cell.n_test,
    )


def _ours(cell: CellRecord, printed: PrintedValue) -> Number:
    """Return the number of this run that a printed one is compared with."""
    metric = printed.metric
    film = printed.film
    if not film:
        over_folds = cell.metrics.get(metric, Metric())
        return Number(over_folds.mean, sd=over_folds.sd)
    sd = None
    if film in cell.by_film:
        sd = (cell.by_film[film].sd or {}).get(metric)
    return Number(film_value(cell, film, metric), sd=sd)
