"""The numbers of a run beside those that a paper prints."""

from collections.abc import Sequence
from dataclasses import replace

from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.results.cells import CellRecord, Metric, PrintedValue
from obygaze_models.protocols.schemes import NONE, about_scheme
from obygaze_models.report.lookup import (
    ReportRun,
    film_value,
    grouped,
    metric_name,
    model_and_store,
    model_name,
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
        about = about_scheme(run.protocol.get("splits", {}).get("scheme", NONE))
        if about:
            yield about
        yield sentence("spread")
    pairs = []
    for record in [*run.cells, *_without_training(run.baselines)]:
        all_films = [p for p in record.paper if not p.film]
        pairs += [(record, printed) for printed in all_films]
    for metric, same_metric in grouped(pairs, lambda p: p[1].metric).items():
        rows = _paper_rows(same_metric)
        yield make_table("paper", f"paper-{metric}", rows, metric=metric_name(metric))
    for cell in run.cells:
        by_film = [p for p in cell.paper if p.film]
        if by_film:
            yield _paper_by_film(cell, by_film)


def _without_training(baselines: Sequence[CellRecord]) -> list[CellRecord]:
    """Return the baselines; one that is not trained has one record for each test task."""
    records: dict[tuple[str, ...], CellRecord] = {}
    for record in baselines:
        if record.model in UNTRAINED:
            record = replace(record, train="–", leaked=0)
        records.setdefault((model_name(record), record.feature, *record.pair), record)
    return list(records.values())


def _paper_rows(
    pairs: Sequence[tuple[CellRecord, PrintedValue]],
) -> list[Row | Heading]:
    """Return a row for each cell and what the paper prints for it, by model."""
    rows: list[Row | Heading] = []
    by_model = grouped(pairs, lambda pair: _name_of(pair[0]))
    for name, same_model in by_model.items():
        is_baseline = same_model[0][0].kind == "baseline"
        rows.append(Heading(name, quiet=is_baseline))
        for cell, printed in same_model:
            ours = _ours(cell, printed)
            theirs = Number(printed.mean, sd=printed.sd)
            rows.append((*cell.pair, ours, theirs, cell.leaked))
    return rows


def _name_of(record: CellRecord) -> str:
    """Return the name of a model and its store; a baseline without features has no store."""
    return model_and_store(record) if record.feature else model_name(record)


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
        if cell.kind == "baseline":
            return Number(over_folds.value)
        return Number(over_folds.mean, sd=over_folds.sd)
    sd = None
    if film in cell.by_film:
        sd = (cell.by_film[film].sd or {}).get(metric)
    return Number(film_value(cell, film, metric), sd=sd)
