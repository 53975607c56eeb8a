"""The text of a run for the terminal: a line for each cell and baseline, then the remarks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from obygaze_features.core.console import MISSING, count, digits_of, table
from obygaze_features.core.outside import safe_text
from obygaze_features.core.parts import label_of
from obygaze_features.manifest.vocabulary import film_title
from obygaze_models.evaluation.error_analysis import ALL_FILMS
from obygaze_models.evaluation.permutation import p_equals, p_text
from obygaze_models.models.registry import UNTRAINED
from obygaze_models.protocols.results.cells import (
    CHOSEN,
    CellRecord,
    PrintedValue,
    WithInterval,
)
from obygaze_models.protocols.results.differences import Contrast
from obygaze_models.protocols.results.success import FactorRecord, SuccessRegression
from obygaze_models.protocols.results.whole_run import Argmax, Coverage, Remark
from obygaze_models.protocols.runner.records import FILM, Run, group_column

SHOWN = ("f1_binary", "f1_weighted", "ap", "auc")
LISTED_MISSING = 3
CEILINGS = {"oracle": " (true concepts)", "annotator": " (the other one)"}
METRIC_NAMES = {
    "f1_binary": "F1",
    "f1_weighted": "F1 weighted",
    "ap": "AP",
    "auc": "AUC",
}
BEST_OF_STORES = (
    "The best of several stores, picked from this table, is too good: its own test films picked "
    "it. --set fit.choose_store=true adds rows in which training films choose the store."
)
HEADERS = ("store", "train", "test", "model", "clips", "positive", "leaked")


def shown_metrics(protocol: Mapping[str, Any]) -> list[str]:
    """Return the metrics of the main table: the primary one, the usual ones, those of own code.

    Args:
        protocol: The protocol of a run, as run.json has it.
    """
    report = protocol.get("report", {})
    primary = str(report.get("primary") or "ap")
    return list(dict.fromkeys((primary, *SHOWN, *report.get("metrics", ()))))


def short_metric(metric: str) -> str:
    """Return the name of a metric for a terminal."""
    return METRIC_NAMES.get(metric, label_of(metric))


def result_text(run: Run) -> str:
    """Return the output of `obygaze run`."""
    stores = ", ".join(run.about["stores"])
    title = str(run.protocol["report"]["title"] or run.protocol["name"])
    if stores:
        title = f"{title} ({stores})"
    parts = [safe_text(title, "terminal"), safe_text(_clips(run), "terminal")]
    parts += [_contrast(record) for record in run.of(Contrast)]
    parts += _cell_table(run)
    parts.append(_about_values(run))
    parts += _store_choices(run)
    parts += [_argmax(record) for record in run.of(Argmax)]
    parts += _success(run)
    for coverage in run.of(Coverage):
        parts += _coverage(coverage)
    for remark in run.of(Remark):
        parts.append(f"! {safe_text(remark.text, 'terminal')}")
    seconds = run.about["seconds"]
    spent = ", ".join(
        f"{name} {value:.1f}" for name, value in seconds.items() if name != "total"
    )
    parts.append(f"{run.folder}  ({seconds['total']:.1f} s: {spent})")
    return "\n".join(parts)


def _cell_table(run: Run) -> list[str]:
    """Return the table of models and baselines, after lines with the size of each test task.

    What is the same in every row of a test task is written once, so that a line fits a terminal.
    """
    shown = [*run.cells, *_once(run.baselines, shown_metrics(run.protocol))]
    printed = [_paper_values(record) for record in shown]
    metrics: dict[str, None] = {}
    for values in printed:
        metrics |= dict.fromkeys(values)
    columns_of_metrics = shown_metrics(run.protocol)
    headers = [*HEADERS, *map(short_metric, columns_of_metrics)]
    headers += [f"paper, {short_metric(metric)}" for metric in metrics]
    rows: list[list[object]] = []
    for record, values in zip(shown, printed, strict=True):
        row = list(_line(record, columns_of_metrics))
        row += [_paper(values.get(metric)) for metric in metrics]
        rows.append(row)
    lines = []
    written_once = set()
    if len(run.about["stores"]) < 2:
        written_once.add("store")
    sizes = {(r.test, r.n_test, r.prevalence) for r in shown}
    tests = {test for test, _, _ in sizes}
    if len(sizes) == len(tests):
        written_once |= {"clips", "positive"}
        for test, n, share in sorted(sizes):
            lines.append(f"{test}: {n} clips, {100 * share:.1f}% positive")
    columns = [i for i, header in enumerate(headers) if header not in written_once]
    shown_headers = [headers[i] for i in columns]
    shown_rows = [_columns_of(row, columns) for row in rows]
    lines.append(table(shown_headers, shown_rows))
    return lines


def _clips(run: Run) -> str:
    """Return the line on the clips and films of a run, and on what chose them."""
    manifest = run.about["manifest"]
    n_clips = count(manifest["n_clips"], "clip")
    n_films = count(manifest["n_films"], "film")
    line = f"{n_clips} of {n_films} ({manifest['name']}, {manifest['view']} view)"
    where = run.protocol.get("data", {}).get("where")
    return f"{line} with {where}" if where else line


def _paper_values(record: CellRecord) -> dict[str, PrintedValue]:
    """Return the printed number of each metric, without those of one film."""
    return {printed.metric: printed for printed in record.paper if printed.film is None}


def _columns_of(row: Sequence[object], columns: Sequence[int]) -> list[object]:
    return [row[column] for column in columns]


def _about_values(run: Run) -> str:
    """Return the line on how values are computed, and on their intervals."""
    how = "F1 pooled over folds, AP and AUC within folds"
    if any(cell.repeated for cell in run.cells):
        how = "Values averaged over runs"
    if all(record.n_films < 2 for record in (*run.cells, *run.baselines)):
        return f"{how}; of one film there is no interval over films."
    percent = 100 * run.protocol["report"]["confidence"]
    group = group_column(run.protocol)
    groups = "films" if group == FILM else f"the values of {group}"
    line = f"{how}; AP and AUC with {percent:g} % intervals over {groups}."
    if run.cells and all(_has_shared_films(cell) for cell in run.cells):
        if run.protocol["splits"]["kind"] == "fixed":
            line += " Models have none, because films of the test clips train them too."
        else:
            line += " Models have none, because clips of one film are in several folds."
    return line


def _store_choices(run: Run) -> list[str]:
    """Return which stores training films chose; without a choice, a warning of a later one."""
    if not run.chooses_store:
        stores = {cell.feature for cell in run.cells}
        return [BEST_OF_STORES] if len(stores) > 1 else []
    counts: dict[str, Counter[str]] = {}
    for cell in run.cells:
        if cell.feature == CHOSEN:
            of_model = counts.setdefault(cell.model, Counter())
            of_model.update(fold.chosen["store"] for fold in cell.folds)
    lines = []
    for model, of_model in counts.items():
        named = [f"{store} {n}" for store, n in of_model.most_common()]
        lines.append(
            f"{model}: the stores that training films chose in {of_model.total()} tests: "
            f"{', '.join(named)}"
        )
    return lines


def _has_shared_films(cell: CellRecord) -> bool:
    """Return whether a cell has no interval for another reason than too few clips."""
    return cell.metrics["ap"].ends[0] is None and not cell.no_interval


def _once(baselines: Sequence[CellRecord], metrics: Sequence[str]) -> list[CellRecord]:
    """Return one line for baselines with equal values, and for each test of those without a fit."""
    shown: dict[tuple[object, ...], CellRecord] = {}
    for record in baselines:
        is_blind = record.model in UNTRAINED
        if is_blind:
            record = replace(record, train="-", leaked=0)
        values = [str(record.metrics.get(metric)) for metric in metrics]
        model = record.model if is_blind else ""
        key = (record.feature, record.train, record.test, model, *values)
        if key not in shown:
            shown[key] = record
        elif not is_blind:
            models = f"{shown[key].model}, {record.model}"
            shown[key] = replace(shown[key], model=models)
    return list(shown.values())


def _line(record: CellRecord, metrics: Sequence[str]) -> Sequence[object]:
    name = record.model + CEILINGS.get(record.model, "")
    if record.expected:
        name += " (expected)"
    values: list[str | None] = []
    for metric in metrics:
        estimate = record.metrics.get(metric)
        if estimate is None or estimate.value is None:
            values.append(None)
        else:
            values.append(_with_interval(estimate.value, estimate))
    return (
        record.feature or "-",
        record.train,
        record.test,
        name,
        record.n_test,
        f"{100 * record.prevalence:.1f}%",
        record.leaked,
        *values,
    )


def _short(value: float | None, digits: int = 2) -> str:
    """Return a number without the 0 before its point; a dash if it is missing."""
    if value is None:
        return MISSING
    return f"{value:.{digits}f}".replace("0.", ".", 1)


def _interval(low: float, high: float) -> str:
    digits = digits_of(low, high)
    return f"{_short(low, digits)}-{_short(high, digits)}"


def _with_interval(value: float | None, interval: WithInterval) -> str:
    """Return a value and its interval, if it has one."""
    low, high = interval.ends
    if low is None or high is None:
        return _short(value)
    return f"{_short(value)} {_interval(low, high)}"


def _paper(printed: PrintedValue | None) -> str | None:
    if printed is None:
        return None
    mean = _short(printed.mean)
    if printed.sd is None:
        return mean
    return f"{mean} ({_short(printed.sd)})"


def _contrast(record: Contrast) -> str:
    first = record.first
    second = record.second
    low, high = record.ends
    interval = ""
    if low is not None and high is not None:
        digits = digits_of(low, high)
        interval = (
            f" ({_short_difference(low, digits)} to {_short_difference(high, digits)})"
        )
    difference = MISSING
    if record.difference is not None:
        difference = _short_difference(record.difference)
    p = ""
    if record.p is not None:
        p = f", {p_equals(record.p)}"
    higher = f"higher in {record.n_films_higher} of {record.n_films} films"
    leaked = ""
    if record.leaked:
        leaked = f", {record.leaked} of them leaked"
    return (
        f"trained on {first.train} / {second.train}, tested on {record.test}: "
        f"{record.model} ({record.feature}) has {record.metric} "
        f"{_short(first.value)} / {_short(second.value)}, "
        f"difference {difference}{interval}{p}, {higher}; "
        f"seeds {record.n_seeds}, {record.n_test} clips{leaked}"
    )


def _short_difference(value: float, digits: int = 2) -> str:
    """Return a difference with its sign and without a leading zero: -.14, as the values."""
    text = f"{value:+.{digits}f}"
    sign = text[0]
    number = text[1:].removeprefix("0")
    return f"{sign}{number}"


def _argmax(record: Argmax) -> str:
    return (
        f"{record.model} ({record.feature}), most probable of {', '.join(record.tasks)}: "
        f"accuracy {_short(record.accuracy)} on {record.n_test} clips, "
        f"largest class {_short(record.majority)}"
    )


def _success(run: Run) -> Iterator[str]:
    """Yield the factors of success over all films, and the films that have enough clips."""
    by_cell: dict[str, list[SuccessRegression]] = {}
    for record in run.of(SuccessRegression):
        name = f"{record.model} ({record.feature}), {record.train} -> {record.test}"
        by_cell.setdefault(name, []).append(record)
    for name, records in by_cell.items():
        with_factors = []
        without = []
        for record in records:
            if record.film == ALL_FILMS:
                yield _factors_of_success(name, record)
                continue
            film = f"{film_title(record.film)} {record.n}"
            if record.factors:
                with_factors.append(film)
            else:
                without.append(f"{film} ({record.note})")
        yield f"  films with a regression of their own, with their clips: {_listed(with_factors)}"
        if without:
            yield f"  without: {_listed(without)}"


def _factors_of_success(name: str, record: SuccessRegression) -> str:
    """Return a line on the success of all films, and one for each factor."""
    lines = [f"{name}: {record.n_success} of {record.n} clips are right"]
    if record.note:
        lines[0] += f" ({record.note})"
    if record.factors:
        headers = ["factor", "clips", "log odds", "95 %", "p"]
        rows = [_factor(factor) for factor in record.factors]
        lines.append(table(headers, rows))
    return "\n".join(lines)


def _factor(factor: FactorRecord) -> list[object]:
    interval = MISSING
    if factor.low is not None and factor.high is not None:
        interval = f"{factor.low:+.2f} to {factor.high:+.2f}"
    p = MISSING
    if factor.p is not None:
        p = p_text(factor.p)
    return [factor.name, factor.n, f"{factor.log_odds:+.2f}", interval, p]


def _listed(names: Sequence[str]) -> str:
    return "; ".join(names) or "none"


def _coverage(record: Coverage) -> Iterator[str]:
    """Yield a line about clips without a vector, and one about vectors that are not used."""
    if record.n_missing:
        counts = record.reasons or {}
        reasons = ", ".join(f"{n} {reason}" for reason, n in counts.items())
        first = ", ".join(clip.clip_id for clip in record.missing[:LISTED_MISSING])
        dots = ", ..." if record.n_missing > LISTED_MISSING else ""
        yield (
            f"{record.feature}: {record.n_missing} of {record.n_clips} clips have no "
            f"vector and are left out, {record.n_missing_in_tasks} of them in a task "
            f"({reasons}): {first}{dots}"
        )
    if record.n_unused:
        yield (
            f"{record.feature}: {record.n_unused} clips have a vector but no video in the "
            "manifest, and are left out as in the released code"
        )
