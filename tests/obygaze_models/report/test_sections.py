"""The tables and sentences of a run whose every number is known."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from support.runs import analysis, baseline, cell, usual, write_run

from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.runner.records import read_run
from obygaze_models.report.lookup import ReportRun
from obygaze_models.report.page import Section, sections_of
from obygaze_models.report.results import merged_baselines
from obygaze_models.report.tables import Heading, Number, ResultTable, Row, report_text

NOT_THERE = ("questions", "contrast", "audits", "decisions")


def sections(folder: Path, records) -> list[Section]:
    return sections_of(ReportRun.of_run(read_run(write_run(folder, records))))


def of(tmp_path: Path, records) -> dict[str, ResultTable]:
    made = sections(tmp_path / "run", records)
    return {table.key: table for section in made for table in section.tables}


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, ResultTable]:
    return of(tmp_path, usual())


def rows_of(table: ResultTable) -> list[Row]:
    return [row for row in table.rows if not isinstance(row, Heading)]


def groups_of(table: ResultTable) -> list[tuple[str, int]]:
    """The headings of a table and how many rows each has."""
    return [(heading.title, len(rows)) for heading, rows in table.blocks() if heading]


def quiet_of(table: ResultTable) -> list[str]:
    return [row.title for row in table.rows if isinstance(row, Heading) and row.quiet]


def warned(table: ResultTable) -> list[str]:
    """The first cells of the rows that are red on the page."""
    column = table.headers.index(table.warn)
    return [row[0] for row in rows_of(table) if row[column]]


def test_sections_come_in_the_order_of_the_headings(tmp_path):
    made = sections(tmp_path, usual())
    # No question was asked, no audit and no contrast was made, and there is no metric beside the
    # four that tables show.
    expected = [key for key in report_text()["headings"] if key not in NOT_THERE]
    assert [section.key for section in made] == expected
    of_key = {section.key: section for section in made}
    assert of_key["remarks"].sentences == ["One cell leaks."]


def test_models_stand_under_the_task_that_trained_them_and_baselines_below(tables):
    table = tables["results-EN-S"]
    assert table.title == (
        "Tested on EN_S: easy negatives against sure (12 clips of 3 films, 25.0 % positive)"
    )
    assert table.headers == ("model", "AP", "F1 binary", "F1 weighted", "AUC", "leaked")
    assert groups_of(table) == [
        ("trained on HN_S", 2),
        ("baselines without features", 2),
    ]
    assert quiet_of(table) == ["baselines without features"]
    rows = rows_of(table)
    assert [row[0] for row in rows] == [
        "ridge",
        "pcbm-dt",
        "random (expected), all_positive, prevalence · any task",
        "oracle (true concepts) · any task",
    ]
    assert rows[0][1] == Number(0.625, 0.25, 0.875)
    assert [row[5] for row in rows] == [0, 5, 0, 0]
    assert warned(table) == ["pcbm-dt"]
    assert table.note.startswith("Leaked: ")


def test_equal_baselines_share_a_row_with_their_tasks():
    alike = [
        CellRecord.from_json(baseline(name, train=train))
        for name in ("prevalence", "neighbour")
        for train in ("A", "B")
    ]
    other = [
        CellRecord.from_json(baseline("prevalence", train="C", ap=0.5)),
        CellRecord.from_json(baseline("neighbour", train="C")),
    ]
    found = [
        (names, trains)
        for names, trains, _ in merged_baselines([*alike, *other], ["ap"])
    ]
    assert found == [
        (["prevalence"], "A, B"),
        (["neighbour"], "any task"),
        (["prevalence"], "C"),
    ]


def test_cells_with_different_clips_show_sizes(tmp_path):
    few = cell("mlp", feature="short", n_test=8, prevalence=0.5)
    table = of(tmp_path, [cell(), few])["results-EN-S"]
    assert table.headers[:3] == ("model", "clips", "share positive")
    assert [row[:3] for row in rows_of(table)] == [
        ("ridge (clip)", 12, Number(0.25)),
        ("mlp (short)", 8, Number(0.5)),
    ]


def test_the_papers_numbers_stand_beside_ours(tables):
    table = tables["paper-ap"]
    assert table.headers == (
        "trained on",
        "tested on",
        "AP, this run",
        "AP, paper",
        "leaked",
    )
    ours, theirs = Number(0.625, sd=0.03125), Number(0.5, sd=0.125)
    assert table.rows == [Heading("ridge (clip)"), ("HN_S", "EN_S", ours, theirs, 0)]
    films = tables["paper-films-pcbm-dt-clip"]
    assert films.rows == [
        ("Juno", "tt1", Number(0.5), Number(0.53)),
        ("mean of these films", "", Number(0.5), Number(0.53)),
    ]
    assert films.note == "Leaked clips: 5 of 12."


def test_printed_values_of_baselines_stand_beside_ours_once_for_each_test(tmp_path):
    printed = {"metric": "f1_binary", "mean": 0.32, "sd": None, "film": None}
    trained = [
        baseline(name, train=train, paper=[printed])
        for name in ("random", "prevalence")
        for train in ("HN_S", "EN_S")
    ]
    table = of(tmp_path, [cell(), *trained])["paper-f1_binary"]
    ours, theirs = Number(0.5), Number(0.32)
    assert table.rows == [
        Heading("random (expected)", quiet=True),
        ("–", "EN_S", ours, theirs, 0),
        Heading("prevalence", quiet=True),
        ("HN_S", "EN_S", ours, theirs, 0),
        ("EN_S", "EN_S", ours, theirs, 0),
    ]


def test_differences_that_are_the_same_are_one_row(tables):
    (row,) = tables["comparisons"].rows
    assert row[:4] == ("HN_S → EN_S", "ridge", "prevalence, all_positive", "AP")
    assert row[4:] == (Number(0.375, -0.125, 0.5), 3)


def test_untrained_baselines_have_no_leaked_clips(tmp_path):
    records = [
        cell(leaked=4),
        baseline("random", leaked=4),
        baseline("neighbour", leaked=4, ap=0.5),
    ]
    table = of(tmp_path, records)["results-EN-S"]
    assert [(row[0], row[-1]) for row in rows_of(table)] == [
        ("ridge", 4),
        ("random (expected) · any task", 0),
        ("neighbour · any task", 4),
    ]
    assert warned(table) == ["ridge", "neighbour · any task"]


def test_the_best_baseline_is_compared_first_and_no_pair_is_left_out(tmp_path):
    one = {
        **{
            "kind": "comparison",
            "task": "EN_S",
            "train": "HN_S",
            "test": "EN_S",
            "metric": "ap",
        },
        **{"ci": None, "n_films": 3, "p_sign_flip": 0.03125, "p_corrected_t": None},
    }
    names = [f"model{i}" for i in range(15)]
    records = [*map(cell, names), baseline("oracle", ap=1.0)]
    records += [baseline("random", ap=0.25), baseline("neighbour", ap=0.5)]
    for i, name in enumerate(names):
        first = {**one, "first": {"model": name, "feature": "clip"}}
        for other, difference in (
            ("neighbour", 0.0625),
            ("random", 0.5),
            ("oracle", -0.5),
        ):
            second = {"model": other, "feature": ""}
            records.append({**first, "second": second, "difference": difference})
        if i:
            second = {"model": names[0], "feature": "clip"}
            records.append({**first, "second": second, "difference": 0.25})
    tables = of(tmp_path, records)
    shown = [
        (row[2], str(row[4]), str(row[6])) for row in rows_of(tables["comparisons"])
    ]
    assert shown == [("neighbour", "0.06", "0.031")] * 15
    further = tables["comparisons-further"]
    assert further.folded
    assert groups_of(further) == [("two models", 14), ("a model and a baseline", 15)]


def test_the_spread_between_seeds_is_in_the_table_of_results(tmp_path):
    seeds = {"n": 5, "ap": {"mean": 0.5, "sd": 0.0625}}
    table = of(tmp_path, [cell(seeds=seeds), cell("ridge2"), baseline("random")])[
        "results-EN-S"
    ]
    column = table.headers.index("SD over seeds, AP")
    assert [str(row[column]) for row in rows_of(table)] == ["0.062", "–", "–"]
    assert (
        "SD over seeds, AP"
        not in of(tmp_path / "one", [cell()])["results-EN-S"].headers
    )


def test_a_p_is_shown_where_all_runs_test_the_same_clips(tmp_path):
    """In simulations the t over folds rejects too seldom: its interval has to do."""
    one = {
        **{
            "kind": "comparison",
            "task": "EN_S",
            "train": "HN_S",
            "test": "EN_S",
            "metric": "ap",
        },
        **{
            "first": {"model": "ridge", "feature": "clip"},
            "ci": [0.1, 0.4],
            "n_films": 3,
        },
        **{"second": {"model": "mlp", "feature": "clip"}, "difference": 0.25},
    }
    by_film = {**one, "p_sign_flip": 0.5, "p_corrected_t": None}
    by_fold = {**one, "p_sign_flip": None, "p_corrected_t": 0.25}
    cells, tables = [cell(), cell("mlp")], {}
    for name, found in {
        "film": [by_film],
        "fold": [by_fold],
        "both": [by_film, by_fold],
    }.items():
        tables[name] = of(tmp_path / name, [*cells, *found])["comparisons-further"]
    shown = {
        n: [(t.headers[-1], str(r[-1])) for r in rows_of(t)] for n, t in tables.items()
    }
    assert shown == {
        "film": [("p", "0.500")],
        "fold": [("films", "3")],
        "both": [("p", "0.500"), ("p", "–")],
    }
    assert {row[4] for row in rows_of(tables["fold"])} == {Number(0.25, 0.1, 0.4)}


def test_concepts_have_chance(tables):
    row = tables["concepts-clip-0"].rows[0]
    assert row[:4] == ("Look", 3, Number(0.25), Number(0.75, 0.5, 1.0))
    assert row[6:] == (Number(0.002, digits=3, is_p=True),)
    # A weight of 2 on margins that spread by one half adds 1 to the log odds.
    assert tables["weights-clip"].rows == [
        ("pcbm-lr (clip), HN_S", Number(1.0), Number(-0.5))
    ]


def test_factors_have_a_column_for_all_films_and_one_for_each(tables):
    table = tables["analysis-ridge-clip-HN-S-EN-S"]
    assert table.headers == ("factor", "all films (12 clips)", "tt1 (12 clips)")
    assert [str(value) for value in table.rows[0][1:]] == [
        "1.50* [0.50, 2.50]",
        "1.50*",
    ]


def test_films_are_rows_where_there_are_fewer_cells_and_columns_where_there_are_more(
    tmp_path,
):
    table = of(tmp_path, [cell(), cell("mlp")])["films"]
    assert table.headers == ("film", "id", "ridge, HN_S → EN_S", "mlp, HN_S → EN_S")
    assert table.rows[1] == ("tt2", "tt2", Number(0.5), Number(0.5))
    many = [cell(f"model{i}", train=train) for train in ("A", "B") for i in range(7)]
    table = of(tmp_path, many)["films"]
    assert table.headers == ("model", "tt1", "tt2", "tt3")
    assert groups_of(table) == [("A → EN_S", 7), ("B → EN_S", 7)]
    assert table.folded


def test_tasks_tested_on_themselves_share_a_table(tmp_path):
    names = ("Look", "Body", "Posture")
    records = [cell("cav", train=name, test=name) for name in names]
    records += [baseline("prevalence", train=name, test=name) for name in names]
    table = of(tmp_path, records)["results"]
    assert groups_of(table) == [("cav", 3), ("prevalence", 3)]
    assert quiet_of(table) == ["prevalence"]
    assert [row[:3] for row in rows_of(table)[:3]] == [
        (name, 12, Number(0.25)) for name in names
    ]


def test_clips_without_features_are_named_with_the_reason(tables):
    table = tables["coverage-clip"]
    assert table.title == "clip: 1 of 12 clips"
    assert table.rows == [("tt2-004", "failed: no video stream", "EN_S")]


def test_hashes_and_seeds_are_on_the_page(tables):
    cells = [cell for row in tables["provenance"].rows for cell in row]
    results = hashlib.sha256(json.dumps(usual()).encode()).hexdigest()
    for value in ("a" * 64, "b" * 64, "c" * 64, results, "2.4.0", "0"):
        assert value in cells
    assert "clip: made-up backbone, array pooled, 8 wide" in cells


def test_the_line_of_power_follows_from_the_width_of_the_intervals(tmp_path):
    one = {
        **{
            "kind": "comparison",
            "task": "EN_S",
            "train": "HN_S",
            "test": "EN_S",
            "metric": "ap",
        },
        **{
            "first": {"model": "ridge", "feature": "clip"},
            "n_films": 12,
            "difference": 0.0,
        },
        **{"p_sign_flip": None, "p_corrected_t": None, "ci": [-0.110049, 0.110049]},
    }
    models = {**one, "second": {"model": "mlp", "feature": "clip"}}
    blind = {**one, "second": {"model": "random", "feature": ""}, "ci": [-0.5, 0.5]}
    made = sections(tmp_path / "run", [cell(), cell("mlp"), models, blind])
    (text,) = next(
        section for section in made if section.key == "comparisons"
    ).sentences
    # t with 11 degrees of freedom: 2.20099 at .975, 0.87553 at .8; the standard error is .05.
    assert text.startswith(
        "With 12 films, a test at 95 % finds a difference in AP of about 0.15 "
    )


def test_calibration_is_shown_as_trained_and_recalibrated(tmp_path):
    again = {"brier": 0.125, "ece": 0.0625, "ece_width": 0.0, "calibration": []}
    values = {"brier": {"value": 0.25}, "ece": {"value": 0.5}}
    table = of(tmp_path, [cell(recalibrated=again, **values), cell("mlp")])[
        "recalibration"
    ]
    assert [[str(value) for value in row] for row in rows_of(table)] == [
        ["ridge", "0.250", "0.125", "0.500", "0.062"]
    ]


def contrast(
    model: str, test: str, first: float, second: float, **more
) -> dict[str, object]:
    sides = {
        "first": {"train": "HN_S", "value": first},
        "second": {"train": "EN_S", "value": second},
    }
    sizes = {
        "n_films": 3,
        "n_films_higher": 1,
        "n_seeds": 1,
        "n_test": 12,
        "leaked": 0,
    }
    own = {
        "kind": "contrast",
        "test": test,
        "model": model,
        "feature": "clip",
        "metric": "ap",
    }
    return {
        **own,
        **sides,
        "difference": first - second,
        "ci": None,
        "p": None,
        **sizes,
        **more,
    }


def contrast_of(folder: Path, records) -> Section:
    (found,) = (made for made in sections(folder, records) if made.key == "contrast")
    return found


def test_the_contrast_says_how_often_the_first_task_is_better(tmp_path):
    records = [
        contrast("ridge", "EN_S", 0.5, 0.25, leaked=4),
        contrast("mlp", "EN_S", 0.25, 0.5),
        contrast("ridge", "HN_S", 0.25, 0.75),
    ]
    made = contrast_of(tmp_path / "run", [cell(), *records])
    assert made.sentences[0] == (
        "In 1 of the 3 rows, the model that was trained on HN_S has the higher value."
    )
    assert "no interval and no p" in made.sentences[1]
    (table,) = made.tables
    assert groups_of(table) == [("tested on EN_S", 2), ("tested on HN_S", 1)]
    assert [str(cell) for cell in rows_of(table)[0]][1:7] == [
        *("AP", "0.50", "0.25", "0.25", "–", "1 of 3")
    ]
    assert warned(table) == ["ridge"]
    known = [contrast("ridge", "EN_S", 0.5, 0.25, ci=[0.0, 0.5], metric="f1_weighted")]
    assert len(contrast_of(tmp_path / "known", [cell(), *known]).sentences) == 1


def test_films_without_factors_are_named_with_the_reason(tmp_path):
    empty = {**analysis("tt2"), "factors": [], "note": "every clip is right"}
    table = of(tmp_path, [cell(), analysis(), analysis("tt1"), empty])[
        "analysis-ridge-clip-HN-S-EN-S"
    ]
    assert table.headers == ("factor", "all films (12 clips)", "tt1 (12 clips)")
    assert table.note.endswith("Notes: tt2: every clip is right.")


def against_guess(model: str, ci, p_family=None, guess: str = "neighbour"):
    """The difference of a model, trained and tested on EN_S, and a baseline."""
    return {
        "kind": "comparison",
        "task": "EN_S",
        "train": "EN_S",
        "test": "EN_S",
        "metric": "ap",
        "first": {"model": model, "feature": "clip"},
        "second": {"model": guess, "feature": ""},
        "difference": 0.125,
        "ci": ci,
        "p_family": p_family,
        "n_films": 3,
    }


def summary_of(folder: Path, records) -> Section:
    made = sections(folder, records)[0]
    assert made.key == "summary"
    return made


def test_the_page_begins_with_models_beside_the_best_guess_without_video(tmp_path):
    own = {"train": "EN_S", "test": "EN_S"}
    films = {"tt1": 0.25, "tt2": 0.5, "tt0110912": 0.75, "tt4": None}
    by_film = {
        film: {"n": 4, "n_positive": 1, "ap": 0.5, "auc": auc}
        for film, auc in films.items()
    }
    made = summary_of(
        tmp_path,
        [
            cell("beats", **own, by_film=by_film),
            cell("by-chance", **own),
            cell("not-shown", **own),
            cell("worse", **own),
            cell("worse-by-chance", **own),
            cell("unknown", **own),
            cell("elsewhere", train="HN_S", test="EN_S"),
            baseline("random", **own, ap=0.25),
            baseline("neighbour", **own, ap=0.5),
            baseline("oracle", **own, ap=1.0),
            baseline("neighbour", train="HN_S", test="EN_S", ap=0.875),
            against_guess("beats", [0.0625, 0.25], 0.03125),
            against_guess("beats", [-0.5, -0.25], guess="random"),
            against_guess("by-chance", [0.0625, 0.25], 0.0625),
            against_guess("not-shown", [-0.0625, 0.25], 0.5),
            against_guess("worse", [-0.25, -0.0625], 0.03125),
            against_guess("worse-by-chance", [-0.25, -0.0625], 0.0625),
            against_guess("unknown", None),
        ],
    )
    data, answer = made.sentences
    assert data == (
        "The data: 12 clips of 3 films, from the manifest films (visual view). "
        "Features: clip (made-up backbone)."
    )
    assert "Yes, in 1 of 6 rows: the 95 % interval of the difference in AP" in answer
    assert "Not certain in 1 (" in answer
    assert "not shown in 1 (" in answer
    assert "worse than the guess in 1; perhaps worse in 1 (" in answer
    assert "not known in 1 (no interval)." in answer
    (table,) = made.tables
    assert groups_of(table) == [
        ("EN_S: easy negatives against sure (12 clips of 3 films, 25 % positive)", 6)
    ]
    verdicts = {row[0]: row[5] for row in rows_of(table)}
    assert verdicts == {
        "beats": "yes",
        "by-chance": "not certain",
        "not-shown": "not shown",
        "worse": "no, worse",
        "worse-by-chance": "no, perhaps worse",
        "unknown": "–",
    }
    first = rows_of(table)[0]
    assert [str(value) for value in first[1:5]] == [
        "0.62 [0.25, 0.88]",
        "neighbour",
        "0.50",
        "0.12 [0.06, 0.25]",
    ]
    # Of the three films with clips of both classes, two have an AUC of at most .5.
    assert first[6] == "2 of 3: tt1, tt2"


def test_films_that_are_not_counted_are_named(tmp_path):
    own = {"train": "EN_S", "test": "EN_S"}
    by_film = {
        "tt1": {"n": 4, "n_positive": 1, "ap": 0.5, "auc": 0.5},
        "tt0110912": {"n": 4, "n_positive": 0, "ap": None, "auc": None},
        "tt3": {"n": 4, "n_positive": 4, "ap": 1.0, "auc": None},
    }
    records = [cell(**own, by_film=by_film), cell("mlp", **own, by_film=by_film)]
    text = summary_of(tmp_path / "some", records).sentences[-1]
    assert text == (
        "In the last column, films are not counted that have clips of one class only: "
        "Pulp Fiction, tt3 (EN_S)."
    )
    made = summary_of(tmp_path / "none", [cell(**own)])
    assert not any("not counted" in sentence for sentence in made.sentences)


def test_a_primary_metric_without_intervals_comes_before_the_one_of_the_comparison(
    tmp_path,
):
    own = {"train": "EN_S", "test": "EN_S"}
    mcc = {"mean": 0.25, "sd": 0.0, "value": 0.25, "ci": None}
    of_guess = {**mcc, "value": 0.125}
    records = [
        cell("beats", **own, mcc=mcc),
        baseline("neighbour", **own, ap=0.5, mcc={**mcc, "value": 0.0}),
        baseline("prevalence", **own, ap=0.25, mcc=of_guess),
        against_guess("beats", [0.0625, 0.25], 0.03125),
    ]
    written = read_run(write_run(tmp_path / "run", records))
    protocol = {**written.protocol, "report": {"primary": "mcc"}}
    about = {**written.about, "protocol": protocol}
    run = ReportRun(written.folder, about, written.records)
    (made, *_) = sections_of(run)
    assert "The primary metric of the protocol is mcc." in made.sentences[1]
    (table,) = made.tables
    headers = ["model", "mcc", "mcc of its best guess", "AP", "best guess"]
    assert table.headers[:5] == headers
    (row,) = rows_of(table)
    assert [str(value) for value in row[1:3]] == ["0.25", "0.12"]
    assert row[4] == "neighbour"
    (results,) = (section for section in sections_of(run) if section.key == "results")
    assert results.tables[0].headers[1] == "mcc"


def test_a_run_that_shows_nothing_says_so_first(tmp_path):
    own = {"train": "EN_S", "test": "EN_S"}
    records = [cell(**own), baseline("neighbour", **own)]
    difference = against_guess("ridge", [-0.0625, 0.25])
    answer = summary_of(tmp_path / "not", [*records, difference]).sentences[1]
    assert "does not show it in any of 1 row." in answer
    answer = summary_of(tmp_path / "unknown", records).sentences[1]
    assert "its differences in AP (1 row) have no interval" in answer
    answer = summary_of(tmp_path / "no-guess", [cell(**own)]).sentences[1]
    assert "its protocol has no baseline" in answer


def test_the_best_guess_is_of_the_same_store_or_of_none(tmp_path):
    own = {"train": "EN_S", "test": "EN_S"}
    made = summary_of(
        tmp_path,
        [
            cell(**own),
            baseline("prevalence", **own, ap=0.25),
            baseline("neighbour", **own, ap=0.25),
            baseline("film_prior", **own, ap=0.75, feature="another store"),
        ],
    )
    (row,) = rows_of(made.tables[0])
    assert row[2] == "prevalence, neighbour"
