"""What a report tells of a run: its tables and its sentences, before any layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from obygaze_models.models.registry import BASELINES
from obygaze_models.protocols.runner.records import Record, Run
from obygaze_models.report.anatomy import anatomy_tables, anatomy_words
from obygaze_models.report.findings import finding_tables
from obygaze_models.report.paper import paper_tables, paper_words
from obygaze_models.report.results import Row, argmax_tables, by_pair, film_tables, result_tables
from obygaze_models.report.section import Section
from obygaze_models.report.tables import Group, Number, Table, slug
from obygaze_models.report.words import (
    NAMES,
    SHOWN,
    is_one_film,
    level_of,
    metric_name,
    number_of,
    pair_name,
    stores_of,
    with_store,
)

HEADINGS = {
    "remarks": "Read this first",
    "clips": "The clips",
    "results": "Results",
    "paper": "Beside the paper",
    "films": "Film by film",
    "comparisons": "Which differences hold",
    "concepts": "Inside the bottlenecks",
    "analysis": "What makes a clip hard",
    "decisions": "Decisions and probabilities",
    "audits": "Audits",
    "coverage": "Clips without features",
    "provenance": "What was run",
}


def sections_of(run: Run) -> list[Section]:
    """Everything a run has to say, in the order a reader wants it."""
    made = [
        _section("remarks", words=tuple(r["text"] for r in run.of("remark"))),
        _section("clips", words=clip_words(run)),
        _section("results", (*result_tables(run), *argmax_tables(run)), (interval_words(run),)),
        _section("paper", paper_tables(run), paper_words(run)),
        _section("films", film_tables(run)),
        _section("comparisons", comparison_tables(run)),
        _section("concepts", anatomy_tables(run), anatomy_words(run)),
        _section("analysis", analysis_tables(run)),
        _section("decisions", other_metrics(run)),
        _section("audits", finding_tables(run.folder)),
        _section("coverage", coverage_tables(run)),
        _section("provenance", provenance_tables(run)),
    ]
    return [section for section in made if section.sentences or section.tables]


def _section(key: str, tables: Iterable[Table] = (), words: tuple[str, ...] = ()) -> Section:
    return Section(key, HEADINGS[key], words, tuple(tables))


def interval_words(run: Run) -> str:
    """What the small numbers of the results are."""
    return (
        f"Small numbers are {level_of(run)} intervals by bootstrap over films: other films could "
        "have put the value there. Baselines see no feature; they have the same prevalence and the "
        "same test clips."
    )


def clip_words(run: Run) -> tuple[str, ...]:
    """What each task asks."""
    tasks = run.protocol.get("tasks", {})
    asked = [f"{name}: {task['title']}" for name, task in tasks.items() if task.get("title")]
    return (f"The tasks are {'; '.join(asked)}.",) if asked else ()


def comparison_tables(run: Run) -> Iterable[Table]:
    """Pairs on the same clips, those that differ most surely first; equal ones are one row."""
    stores = stores_of(run)
    merged: dict[Any, list[Record]] = {}
    for record in run.of("comparison"):
        side, difference = _side(record["first"], stores), _difference(record)
        pair = (record["train"], record["test"], record["metric"])
        key = (*pair, side, _is_blind(record), str(difference))
        if "oracle" not in (record["first"]["model"], record["second"]["model"]):
            merged.setdefault(key, []).append(record)
    found = sorted(merged.values(), key=lambda own: _surest(own[0]))
    groups: list[Group] = []
    rows: list[Row] = []
    for title, blind in (("two models", False), ("a model and what sees no feature", True)):
        part = [own for own in found if _is_blind(own[0]) == blind]
        if part:
            groups.append(Group(len(rows), title))
            rows += [_compared(own, stores) for own in part[:MOST_COMPARISONS]]
    if rows:
        note = (
            "p: by the corrected resampled t-test over folds, which allows for films that train "
            "each other's models; by sign flips of whole films where all runs share one test set "
            "(with n films not below 2 / 2^n). It is not corrected for the number of pairs. There "
            "is none where simulations did not find its level near .05: for metrics of decisions, "
            "where each film is tested by several runs, and where folds share films."
        )
        if len(found) > len(rows):
            note += f" {len(found) - len(rows)} further differences are in results.json."
        headers = ("task", "first", "second", "metric", "difference", "p", "films")
        own = tuple(groups)
        yield Table("comparisons", "Pairs", headers, tuple(rows), note, groups=own)


def _is_blind(record: Record) -> bool:
    return record["second"]["model"] in BASELINES


def _compared(same: Sequence[Record], stores: Sequence[str]) -> Row:
    one = same[0]
    return (
        pair_name(one["train"], one["test"]),
        _side(one["first"], stores),
        ", ".join(_side(record["second"], stores) for record in same),
        metric_name(one["metric"]),
        _difference(one),
        Number(_p_value(one), digits=3, is_p=True),
        one.get("n_movies"),
    )


def _difference(record: Record) -> Number:
    return Number(record["difference"], *(record.get("ci") or (None, None)))


def _surest(record: Record) -> tuple[float, float]:
    return _or_one(_p_value(record)), -abs(record["difference"] or 0.0)


def _p_value(record: Record) -> float | None:
    """The p-value of a comparison where its level was found near the nominal one, else None."""
    by_set: float | None = record.get("p_corrected_t")
    if by_set is not None:
        # Over films that are tested by several runs each it rejects a true null in .01 at .05.
        return None if record.get("repeated") else by_set
    by_film: float | None = record.get("p_sign_flip")
    return by_film


MOST_COMPARISONS = 10


def analysis_tables(run: Run) -> Iterable[Table]:
    """Success regressed on what is in a clip: a table a cell, a column a film."""
    cells: dict[tuple[str, ...], list[Record]] = {}
    for record in run.of("analysis"):
        key = (record["model"], record["feature"], record["train"], record["test"])
        cells.setdefault(key, []).append(record)
    for (model, feature, train, test), own in cells.items():
        own.sort(key=is_one_film)
        names = list(dict.fromkeys(f["name"] for record in own for f in record["factors"]))
        found = [{f["name"]: f for f in record["factors"]} for record in own]
        rows = tuple(
            (name, *(_odds(one.get(name), r) for one, r in zip(found, own, strict=True)))
            for name in names
        )
        notes = dict.fromkeys(str(r["note"]) for r in own if r.get("note"))
        yield Table(
            f"analysis-{slug(f'{model}-{feature}-{train}-{test}')}",
            f"Log odds of success: {model} ({feature}), {pair_name(train, test)}",
            ("factor", *(record["film"] or "all films" for record in own)),
            rows,
            " ".join(["A star: p below .05, uncorrected.", *list(notes)[:2]]),
        )


def _odds(factor: Mapping[str, Any] | None, record: Record) -> Number:
    if factor is None:
        return Number(None)
    star = "*" if _or_one(factor["p"]) < 0.05 else ""
    if is_one_film(record):
        return Number(factor["log_odds"], mark=star)
    return Number(factor["log_odds"], factor["low"], factor["high"], mark=star)


def other_metrics(run: Run) -> Iterable[Table]:
    """Calibration and the remaining metrics, for those who want them."""
    metrics = [m for m in NAMES if m not in SHOWN and any(m in r for r in run.cells)]
    rows, groups = by_pair(
        run, lambda record: [_plain(number_of(record, metric)) for metric in metrics]
    )
    if rows and metrics:
        headers = ("model", *(NAMES[metric] for metric in metrics))
        yield Table(
            *("other", "The remaining metrics", headers, rows),
            note="Intervals are in results.json.",
            groups=groups,
            folded=True,
        )


def _plain(number: Number | None) -> Number | None:
    return None if number is None else Number(number.value)


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
            f"coverage-{slug(record['feature'])}",
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


def _side(side: Mapping[str, str], stores: Sequence[str]) -> str:
    return with_store({"feature": "", **side}, stores)


def _or_one(p: Any) -> float:
    return 1.0 if p is None else float(p)


def all_tables(sections: Sequence[Section]) -> list[Table]:
    """The tables of a page, in its order."""
    return [table for section in sections for table in section.tables]
