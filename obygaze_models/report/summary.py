"""The first section: what the data are, whether models beat guesses, and where they fail."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from obygaze_features.core.console import count, few
from obygaze_models.protocols.results.cells import CellRecord, FilmValues
from obygaze_models.protocols.results.differences import (
    BETTER,
    NOT_SHOWN,
    PERHAPS_BETTER,
    PERHAPS_WORSE,
    UNKNOWN,
    WORSE,
    Comparison,
)
from obygaze_models.protocols.results.whole_run import Coverage
from obygaze_models.protocols.runner.records import FILM, count_groups, group_column
from obygaze_models.report.lookup import (
    ReportRun,
    best_guesses,
    difference_of,
    grouped,
    metric_name,
    metric_of,
    pair_name,
)
from obygaze_models.report.tables import (
    Heading,
    Number,
    Part,
    ResultTable,
    Row,
    make_table,
    report_text,
    sentence,
)

CHANCE = 0.5  # of AUC
MAX_OPEN_ROWS = 24
MAX_NAMED_FILMS = 3


@dataclass(frozen=True)
class BesideGuess:
    """A cell beside the best guess without video; several guesses may be equally good."""

    cell: CellRecord
    guesses: Sequence[CellRecord]
    difference: Number
    verdict: str


def summary(run: ReportRun) -> Part:
    """Yield what the data are, whether models are better than guesses, and where they fail."""
    yield _data(run)
    group = group_column(run.protocol)
    if group != FILM:
        yield sentence("groups", column=group)
    cells = _cells_to_show(run)
    if not cells:
        return
    lines = [_beside_guess(run, cell) for cell in cells]
    if run.primary != run.ranking:
        yield sentence(
            "primary",
            primary=metric_name(run.primary),
            ranking=metric_name(run.ranking),
        )
    yield _answer(run, lines)
    not_counted = _films_not_counted(run, cells)
    if not_counted:
        yield sentence("not_counted", films=not_counted)
    yield _table(run, lines)


def model_text(run: ReportRun, cell: CellRecord) -> str:
    """Return how well a model ranks clips, beside the best guess from the annotations alone."""
    line = _beside_guess(run, cell)
    text = sentence(
        "model_alone",
        n=f"{cell.n_test:,}",
        films=count_groups(cell.n_films or 0, group_column(run.protocol)),
        metric=metric_name(run.ranking),
        value=metric_of(cell, run.ranking),
    )
    if not line.guesses:
        no_guess = sentence("model_no_guess")
        return f"{text} {no_guess}"
    key = "model_beside_guess"
    if line.difference.value is None:
        key = "model_beside_unknown"
    beside = sentence(
        key,
        guess=metric_of(line.guesses[0], run.ranking).short,
        names=", ".join(guess.model for guess in line.guesses),
        difference=line.difference,
        verdict=report_text()["verdicts"][line.verdict],
    )
    return f"{text} {beside}"


def _data(run: ReportRun) -> str:
    """Return a sentence on the clips, the films and the features of a run."""
    manifest = run.about["manifest"]
    n_missing = sum(record.n_missing for record in run.of(Coverage))
    missing = ""
    if n_missing:
        missing = f" Missing vectors of clips: {n_missing}."
    stores = [
        f"{name} ({store['backbone']})" for name, store in run.about["stores"].items()
    ]
    features = ", ".join(stores) or "none"
    where = run.protocol.get("data", {}).get("where")
    return sentence(
        "data",
        where=f", with {where}" if where else "",
        n_clips=f"{manifest['n_clips']:,}",
        n_films=count(manifest["n_films"], "film"),
        name=manifest["name"],
        view=manifest["view"],
        features=features,
        missing=missing,
    )


def _cells_to_show(run: ReportRun) -> list[CellRecord]:
    """Return the cells that are tested on what they were trained for; all if there are none."""
    own = [cell for cell in run.cells if cell.train == cell.test]
    return own or list(run.cells)


def _beside_guess(run: ReportRun, cell: CellRecord) -> BesideGuess:
    guesses = best_guesses(run, cell.pair, cell.feature, run.ranking)
    names = {(guess.model, guess.feature) for guess in guesses}
    for record in run.of(Comparison):
        first = (record.first.model, record.first.feature)
        second = (record.second.model, record.second.feature)
        is_of_cell = record.pair == cell.pair and first == (cell.model, cell.feature)
        if is_of_cell and record.metric == run.ranking and second in names:
            difference = difference_of(record)
            return BesideGuess(cell, guesses, difference, record.verdict)
    return BesideGuess(cell, guesses, Number(None), UNKNOWN)


def _answer(run: ReportRun, lines: Sequence[BesideGuess]) -> str:
    """Return the answer to: is a model better than a guess from the annotations alone?"""
    if not any(line.guesses for line in lines):
        return sentence("no_guess")
    verdicts = [line.verdict for line in lines]
    n = count(len(lines), "row")
    metric = metric_name(run.ranking)
    if all(verdict == UNKNOWN for verdict in verdicts):
        return sentence("guess_unknown", n=n, metric=metric)
    key = "guess_beaten" if BETTER in verdicts else "guess_not_beaten"
    answer = sentence(
        key,
        n=n,
        n_better=verdicts.count(BETTER),
        metric=metric,
        confidence=run.confidence,
    )
    rest = sentence(
        "guess_rest",
        n_not_certain=verdicts.count(PERHAPS_BETTER),
        n_not_shown=verdicts.count(NOT_SHOWN),
        n_worse=verdicts.count(WORSE),
        n_perhaps_worse=verdicts.count(PERHAPS_WORSE),
        n_unknown=verdicts.count(UNKNOWN),
    )
    return f"{answer} {rest}"


def _table(run: ReportRun, lines: Sequence[BesideGuess]) -> ResultTable:
    rows: list[Row | Heading] = []
    for of_pair in grouped(lines, lambda line: line.cell.pair).values():
        rows.append(Heading(_task(run, of_pair[0].cell)))
        rows += [_row(run, line) for line in of_pair]
    group = group_column(run.protocol)
    groups = "films" if group == FILM else f"values of {group}"
    metric = metric_name(run.ranking)
    table = make_table("summary", "summary", rows, metric=metric, groups=groups)
    first, *others = table.headers
    headers = [first, *_headers_of_primary(run), *others]
    return replace(table, headers=headers, folded=len(lines) > MAX_OPEN_ROWS)


def _headers_of_primary(run: ReportRun) -> list[str]:
    """Return the headers of the primary metric, where models are compared by another one."""
    if run.primary == run.ranking:
        return []
    name = metric_name(run.primary)
    return [name, f"{name} of its best guess"]


def _values_of_primary(run: ReportRun, cell: CellRecord) -> list[Number]:
    """Return the primary metric of a cell, and of the guess that is best by it."""
    if run.primary == run.ranking:
        return []
    guesses = best_guesses(run, cell.pair, cell.feature, run.primary)
    guess = Number(None)
    if guesses:
        guess = Number(metric_of(guesses[0], run.primary).value)
    return [metric_of(cell, run.primary), guess]


def _task(run: ReportRun, cell: CellRecord) -> str:
    """Return the tasks of a cell in words, with the size of its test."""
    name = pair_name(*cell.pair)
    title = run.task_titles.get(cell.test, "")
    if title:
        name = f"{name}: {title}"
    films = ""
    if cell.n_films:
        group = group_column(run.protocol)
        films = f" of {count_groups(cell.n_films, group)}"
    share = f"{100 * cell.prevalence:.0f} % positive"
    return f"{name} ({cell.n_test:,} clips{films}, {share})"


def _row(run: ReportRun, line: BesideGuess) -> Row:
    guess = Number(None)
    if line.guesses:
        guess = Number(metric_of(line.guesses[0], run.ranking).value)
    return (
        run.label(line.cell),
        *_values_of_primary(run, line.cell),
        metric_of(line.cell, run.ranking),
        ", ".join(guess.model for guess in line.guesses) or UNKNOWN,
        guess,
        line.difference,
        line.verdict,
        _failed_films(run, line.cell),
    )


def _failed_films(run: ReportRun, cell: CellRecord) -> str:
    """Return the films in which a model ranks clips no better than by chance."""
    aucs = {film: values.metrics.get("auc") for film, values in cell.by_film.items()}
    known = {film: auc for film, auc in aucs.items() if auc is not None}
    if not known:
        return UNKNOWN
    failed = [film for film, auc in known.items() if auc <= CHANCE]
    failed.sort(key=known.__getitem__)
    text = f"{len(failed)} of {len(known)}"
    if not failed:
        return text
    names = failed[:MAX_NAMED_FILMS]
    if group_column(run.protocol) == FILM:
        names = [run.film_name(film) for film in names]
    if len(failed) > MAX_NAMED_FILMS:
        names.append("...")
    return f"{text}: {', '.join(names)}"


def _films_not_counted(run: ReportRun, cells: Sequence[CellRecord]) -> str:
    """Return the films that have clips of one class of a task only, and so no AUC; "" if none."""
    films_of_task: dict[str, list[str]] = {}
    for cell in cells:
        films = [
            film for film, values in cell.by_film.items() if _has_one_class(values)
        ]
        if films:
            films_of_task.setdefault(cell.test, films)
    texts = []
    for task, films in films_of_task.items():
        names = films
        if group_column(run.protocol) == FILM:
            names = [run.film_name(film) for film in films]
        texts.append(f"{few(names, MAX_NAMED_FILMS)} ({task})")
    return "; ".join(texts)


def _has_one_class(values: FilmValues) -> bool:
    return values.n_positive in (0, values.n)
