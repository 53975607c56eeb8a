"""What stands below the first screen: what a protocol asks for, the paper, concepts, errors."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.run_tables import (
    FILMS,
    MANIFEST,
    STORE,
    Clips,
    MadeCell,
    clips_of,
    difference_row,
    labels_of,
    made_run,
    scores_for,
)

from obygaze_features.core.clip_ids import clip_ids
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.report.figures import (
    about_intervals,
    figure_of_pair,
    figure_of_success,
    figure_of_tree,
    figures_of_tasks,
)
from obygaze_models.report.page import chapter_of, write_report
from obygaze_models.report.sections import (
    Section,
    errors,
    section_of_results,
    sections_of,
    sentence_of_concepts,
)
from obygaze_models.report.tables import ResultTable
from obygaze_models.runner.answer import short
from obygaze_models.runner.files import Run
from obygaze_models.runner.labels import labels_since
from obygaze_models.runner.text import result_text

CLIPS = clips_of()
RIDGE = MadeCell("ridge", CLIPS, scores_for(CLIPS, 2.0, 1))
MLP = MadeCell("mlp", CLIPS, scores_for(CLIPS, 1.0, 2))
GUESS = MadeCell(
    "neighbour", CLIPS, scores_for(CLIPS, 0.3, 3), is_model=False, store=""
)


def sections_by_key(run: Any) -> dict[str, Section]:
    return {section.key: section for section in sections_of(run, labels_since(run))}


def rows_of(table: ResultTable) -> list[list[str]]:
    """The rows of a table as texts; a heading is one text."""
    rows = []
    for row in table.rows:
        texts = [row] if isinstance(row, str) else list(map(str, row))
        rows.append(texts)
    return rows


def test_questions_have_their_differences_and_unanswered_ones_say_so(
    tmp_path: Path,
) -> None:
    changes = [
        'report.questions=[{text="Is it better?", first="ridge", second="neighbour"}, '
        '{text="Nobody asked", first="mlp", second="neighbour"}]'
    ]
    row = difference_row(RIDGE, GUESS, 0.1, 0.4, 0.012)
    run = made_run(tmp_path / "run", [RIDGE, GUESS], [row], changes=changes)
    section = sections_by_key(run)["questions"]
    assert section.sentences == ["No difference of this run answers: Nobody asked"]
    changes.append('grid.models=["ridge"]')
    run = made_run(tmp_path / "one", [RIDGE, GUESS], [row], changes=changes)
    assert not sections_by_key(run)["questions"].sentences
    better = sum(RIDGE.ap_of(film) > GUESS.ap_of(film) for film in FILMS)
    value = f"{RIDGE.ap - GUESS.ap:.2f} [0.10, 0.40]"
    n_clips = f"{len(CLIPS.ids)}"
    films = f"{better} of 8"
    rows = rows_of(section.tables[0])
    assert rows[:2] == [
        ["Is it better?"],
        ["EN_S", "ridge", "neighbour", "AP", value, "0.012", n_clips, films, "yes"],
    ]
    # The question without an answer has no heading.
    assert [row for row in rows if len(row) == 1] == [["Is it better?"]]


def test_a_difference_has_its_sides_in_the_order_of_the_question(
    tmp_path: Path,
) -> None:
    """It had those of results.csv, under `first` and `second`."""
    changes = [
        'report.questions=[{text="Is guessing better?", first="neighbour", second="ridge"}]'
    ]
    row = difference_row(RIDGE, GUESS, 0.1, 0.4, 0.012)
    run = made_run(tmp_path / "run", [RIDGE, GUESS], [row], changes=changes)
    (table,) = sections_by_key(run)["questions"].tables
    worse = sum(GUESS.ap_of(film) > RIDGE.ap_of(film) for film in FILMS)
    value = f"{GUESS.ap - RIDGE.ap:.2f} [-0.40, -0.10]"
    assert rows_of(table)[1] == [
        *(
            "EN_S",
            "neighbour",
            "ridge",
            "AP",
            value,
            "0.012",
            f"{len(CLIPS.ids)}",
            f"{worse} of 8",
            "no, worse",
        )
    ]


@pytest.mark.parametrize(
    ("low", "high", "beginning"),
    [
        (-0.19, 0.02, "This run does not show that mlp is better than ridge: "),
        (0.02, 0.19, "mlp is better than ridge: "),
        (-0.19, -0.02, "mlp is worse than ridge: "),
        (math.nan, math.nan, ""),
    ],
)
def test_the_sentence_under_a_question_answers_it(
    tmp_path: Path, low: float, high: float, beginning: str
) -> None:
    """The page had the question about two models as heading, and an answer about guessing."""
    asked = '[{text="Is an MLP better than ridge?", first="mlp", second="ridge"}]'
    # Where the sides stand in results.csv the other way round, too.
    row = difference_row(RIDGE, MLP, -high, -low, 0.01)
    run = made_run(
        tmp_path / "run",
        [RIDGE, MLP, GUESS],
        [row],
        changes=[f"report.questions={asked}", "report.contrast=[]"],
    )
    above = sum(MLP.ap_of(film) > RIDGE.ap_of(film) for film in FILMS)
    interval = "" if math.isnan(low) else f" [{short(low)}, {short(high)}]"
    expected = (
        f"{beginning}mlp minus ridge (EN_S) is AP {short(MLP.ap - RIDGE.ap)}{interval}; mlp is"
        f" higher in {above} of 8 films. On films it has not seen, mlp ranks clips (EN_S)"
    )
    chapter = chapter_of(run)
    assert chapter.asked == "Is an MLP better than ridge?"
    assert chapter.answers[0].startswith(expected)
    assert expected in result_text(run)


def test_a_question_that_a_run_does_not_answer_is_no_heading(tmp_path: Path) -> None:
    asked = (
        '[{text="Is an MLP better?", first="mlp", second="ridge"},'
        ' {text="Is ridge better than a guess?", first="ridge", second="neighbour"}]'
    )
    run = made_run(
        tmp_path / "run",
        [RIDGE, GUESS],
        changes=[f"report.questions={asked}", "report.contrast=[]"],
    )
    chapter = chapter_of(run)
    assert chapter.asked == "Is ridge better than a guess?"
    assert chapter.answers[0].startswith("On films it has not seen, ridge ranks clips")


def test_leaked_clips_make_no_film_better(tmp_path: Path) -> None:
    leaked = {"leaked": True, "seen": "clip"}
    n_filled = {}
    for name, facts in (("clean", {}), ("leaked", leaked)):
        cell = replace(RIDGE, facts=facts, leaked=len(facts))
        run = made_run(tmp_path / name, [cell, GUESS])
        figure = figure_of_pair(run, (cell.train, cell.test), {}).markup(1)
        assert ("not better, or leaked" in figure) == bool(facts)
        n_filled[name] = 0
        for style, dots in re.findall(r'(?s)style="([^"]*)">(\s*<use.*?)</g>', figure):
            if "fill-opacity: 0;" not in style:
                n_filled[name] += dots.count(", guess ")
    assert n_filled == {
        "clean": sum(RIDGE.ap_of(film) > GUESS.ap_of(film) for film in FILMS),
        "leaked": 0,
    }


def test_brackets_of_baselines_alone_say_what_they_are_of(tmp_path: Path) -> None:
    """Beside models that leaked, the line ended with "of ."."""

    class Leaked(MadeCell):
        def results(self) -> list[dict[str, Any]]:
            nowhere = {"low": math.nan, "high": math.nan}
            return [{**row, **nowhere} for row in super().results()]

    cells: list[MadeCell] = []
    for test in ("EN_S", "HN_S"):
        of_test = {"test": test, "facts": {"leaked": True, "seen": "clip"}}
        cells += [Leaked("ridge", CLIPS, RIDGE.scores, **of_test)]
        cells += [replace(GUESS, test=test)]
    run = made_run(tmp_path / "run", cells)
    note = sections_by_key(run)["results"].tables[0].note
    assert "intervals over films, of other films of the same kind, each" in note


def test_two_training_tasks_are_compared_film_by_film(tmp_path: Path) -> None:
    hard = MadeCell("ridge", CLIPS, scores_for(CLIPS, 1.0, 4), train="HN_S")
    row = {**difference_row(hard, RIDGE, math.nan, math.nan, math.nan), "leaked": 3}
    run = made_run(
        tmp_path / "run", [RIDGE, hard], [row], changes=["report.questions=[]"]
    )
    section = sections_by_key(run)["questions"]
    (table,) = section.tables
    above = sum(hard.ap_of(film) > RIDGE.ap_of(film) for film in FILMS)
    assert table.title == "Trained on HN_S minus trained on EN_S"
    difference = f"{hard.ap - RIDGE.ap:.2f}"
    expected = ["ridge", "AP", difference, "–", f"{above} of 8", "96", "3"]
    assert rows_of(table) == [["tested on EN_S"], expected]
    assert (
        "Models that were trained on HN_S have the higher value in 0 of 1 row"
        in (section.sentences[0])
    )
    assert "no interval and no p" in section.sentences[1]


def with_print(
    row: Mapping[str, Any], mean: float, sd: float = math.nan
) -> dict[str, Any]:
    return {**row, "paper": mean, "paper_sd": sd, "sd": 0.25}


def test_values_stand_beside_those_that_the_paper_prints(tmp_path: Path) -> None:
    class Printed(MadeCell):
        def results(self) -> list[dict[str, Any]]:
            rows = super().results()
            rows[2] = with_print(rows[2], 0.53, 0.18)
            return rows

    cell = Printed("mlp", CLIPS, RIDGE.scores)
    run = made_run(tmp_path / "run", [cell, GUESS])
    (table,) = sections_by_key(run)["paper"].tables
    assert table.title == "F1 weighted of this run and of the paper"
    assert rows_of(table) == [
        ["mlp (x)"],
        ["EN_S", "EN_S", "0.50 (0.25)", "0.53 (0.18)", "0"],
    ]


def test_films_of_table_4_keep_the_order_and_the_names_of_the_paper(
    tmp_path: Path,
) -> None:
    films = ("tt0119822", "tt0110912")
    clips = clips_of(films=films)

    class Printed(MadeCell):
        def results(self) -> list[dict[str, Any]]:
            rows = super().results()
            of_films = [row for row in rows if row.get("film")]
            for row in of_films:
                if row["metric"] == "ap":
                    mean = {"tt0119822": 0.55, "tt0110912": 0.29}[row["film"]]
                    row |= with_print({}, mean, 0.09)
                    row["metric"] = "f1_weighted"
            return rows

    names = {"train": "HN_S", "test": "ENHN_S", "leaked": 5}
    cell = Printed("mlp", clips, scores_for(clips, 1.0, 1), **names)
    run = made_run(tmp_path / "run", [cell], protocol="paper-table4", changes=())
    (table,) = sections_by_key(run)["paper"].tables
    first, second = (cell.ap_of(film) for film in films)
    assert table.title == (
        "F1 weighted of each film, on clips of which some trained or chose (leaked): mlp (x), HN_S"
        " → ENHN_S"
    )
    assert rows_of(table) == [
        ["As Good as It Gets", films[0], f"{first:.2f} (0.25)", "0.55 (0.09)"],
        ["Pulp Fiction", films[1], f"{second:.2f} (0.25)", "0.29 (0.09)"],
        ["mean of these films", "", f"{(first + second) / 2:.2f}", "0.42"],
    ]
    assert table.note == "Leaked clips: 5 of 24."


def test_a_learning_curve_has_a_column_for_each_number_of_films(tmp_path: Path) -> None:
    rows = []
    for n_films, value in ((2, 0.5), (4, 0.625)):
        row = {**RIDGE.results()[0], "value": value, "train_films": n_films}
        rows.append(row)
    run = made_run(tmp_path / "run", [RIDGE], rows)
    section = sections_by_key(run)["learning"]
    (table,) = section.tables
    assert list(table.headers) == ["model", "2 films", "4 films", "clips"]
    assert rows_of(table)[1] == ["ridge", "0.50", "0.62", str(len(CLIPS.ids))]
    # Values of fewer films are no values of the run.
    assert run.cells[0].value("ap") == pytest.approx(RIDGE.ap)


def concept_row(name: str, **values: Any) -> dict[str, Any]:
    row = {"store": "x", "model": "pcbm-lr", "train": "EN_S", "concept": name}
    row |= {
        "clips": 100,
        "films": 8,
        "positive": 20,
        "ap": 0.6,
        "low": 0.4,
        "high": 0.8,
    }
    return {**row, "auc": 0.7, "p_holm": 0.01, "weight": 0.5, **values}


def test_concepts_have_their_quality(tmp_path: Path) -> None:
    rows = [
        concept_row("Look", films=8, films_with_value=3),
        concept_row("Body", ap=0.3, p_holm=0.4, films=8, films_with_value=8),
    ]
    run = made_run(tmp_path / "run", [RIDGE], tables={"concepts.csv": rows})
    section = sections_by_key(run)["concepts"]
    (table,) = section.tables
    assert table.note.endswith("Of AP, 3 to 8 of 8 films have a value.")
    assert rows_of(table)[1] == [
        "Look",
        "20",
        "0.20",
        "0.60 [0.40, 0.80]",
        "0.70",
        "0.010",
        "0.50",
    ]


def test_a_concept_that_was_not_tested_is_not_called_not_shown(tmp_path: Path) -> None:
    untested = dict.fromkeys(("ap", "low", "high", "auc", "p_holm"), math.nan)
    rows = [concept_row("Look"), concept_row("Body", **untested)]
    run = made_run(tmp_path / "run", [RIDGE], tables={"concepts.csv": rows})
    sentence = sentence_of_concepts(run)
    assert sentence == (
        "In unseen films the features show 1 of 1 concept (Look); not tested, as too few films "
        "have them: Body."
    )


def tree_rows(depth: int) -> list[dict[str, Any]]:
    """A tree whose right branch has a question at each depth."""
    rows = []
    for number in range(depth):
        node = {"node": 2 * number, "left": 2 * number + 1, "right": 2 * number + 2}
        node |= {"concept": f"concept {number}", "threshold": 0.5, "share": 0.5}
        rows.append({**node, "clips": 100 - number})
        leaf = {
            "node": 2 * number + 1,
            "left": math.nan,
            "right": math.nan,
            "concept": "",
        }
        rows.append({**leaf, "threshold": math.nan, "clips": 1, "share": 0.0})
    last = {"node": 2 * depth, "left": math.nan, "right": math.nan, "concept": ""}
    rows.append({**last, "threshold": math.nan, "clips": 100 - depth, "share": 1.0})
    return sorted(rows, key=lambda row: row["node"])


def test_a_tree_asks_at_each_inner_node_and_is_cut_at_four_questions() -> None:
    figure = figure_of_tree("pcbm-dt (x), EN_S", tree_rows(2))
    assert figure.title == "Decision tree of pcbm-dt (x), EN_S, 100 clips, 50 positive"
    assert figure.markup(1).count("?</text>") == 2
    # Each box is paper below a shade.
    assert figure.markup(1).count("fill: var(--paper)") == 5 + 1
    cut = figure_of_tree("x", tree_rows(6)).markup(1)
    assert cut.count("?</text>") == 4
    assert "50 % of 96 …" in cut
    assert "concept 4" not in cut


def factor(film: str, name: str, odds: float, **values: Any) -> dict[str, Any]:
    row = {
        "task": "EN_S",
        "train": "EN_S",
        "test": "EN_S",
        "store": "x",
        "model": "ridge",
    }
    row |= {"film": film, "factor": name, "log_odds": odds, "clips": 30, "note": ""}
    ends = {"low": math.nan, "high": math.nan, "p": math.nan}
    return {**row, **ends, "all_clips": 96, "successes": 60, **values}


def test_factors_have_a_dot_for_all_films_and_one_for_each(tmp_path: Path) -> None:
    rows = [
        factor("all films", "Look", -0.5, low=-1.0, high=0.1, p=0.06),
        factor("all films", "Body", math.nan, note="left out: it never varies"),
        factor(FILMS[0], "Look", 1.0),
        factor(FILMS[1], "Look", 50.0),
    ]
    run = made_run(tmp_path / "run", [RIDGE])
    figure = figure_of_success(run, "ridge", rows)
    assert figure is not None
    dots = figure.markup(1).count("<title>")
    assert dots == 2, "a dot beyond the axis is in the table alone"
    run = made_run(tmp_path / "run", [RIDGE], tables={"success.csv": rows})
    (table,) = sections_by_key(run)["success"].tables
    assert rows_of(table) == [
        ["Look", "30", "-0.50 [-1.00, 0.10]", "0.060", ""],
        ["Body", "30", "–", "–", "left out: it never varies"],
    ]
    assert "60 of 96 decisions are correct" in table.note


def manifest_of(folder: Path) -> dict[str, Any]:
    """Write a manifest of the tested clips, and return what run.json says of it."""
    clips = []
    for number, clip_id in enumerate(CLIPS.ids):
        level = "S" if CLIPS.y[number] else "EN"
        start = 3661.0 + number
        film = CLIPS.films[number]
        times = {"start_s": start, "end_s": start + 1.5}
        own = {"light": f"light {number}", "shot": "close", "comment": f"say {number}"}
        clips.append(Clip(clip_id, film, level=level, **times, extra=own))
    columns = ("light", "shot", "comment")
    header = Header("made-up", {})
    manifest = Manifest("made-up", header, tuple(clips), columns=columns)
    path = folder / "made-up.toml"
    write_manifest(manifest, path)
    facts = {**MANIFEST, "path": str(path), "view": "raw"}
    return facts | {"labels": labels_of(manifest)}


def records_of(table: ResultTable) -> list[dict[str, str]]:
    return [dict(zip(table.headers, row, strict=True)) for row in rows_of(table)]


def test_errors_have_times_levels_and_comments_the_surest_first(tmp_path: Path) -> None:
    made = made_run(tmp_path / "run", [RIDGE], manifest=manifest_of(tmp_path))
    (table,) = sections_by_key(made)["errors"].tables
    wrong = (RIDGE.scores > 0) != CLIPS.y
    order = np.argsort(-np.abs(np.where(wrong, RIDGE.scores, 0)), kind="stable")
    rows = records_of(table)
    assert [row["clip_id"] for row in rows] == [CLIPS.ids[n] for n in order[:10]]
    first = int(order[0])
    seconds = 61 + first
    minute, second = divmod(seconds, 60)
    assert rows[0] == {
        "film": CLIPS.films[first],
        "clip_id": CLIPS.ids[first],
        "start": f"1:{minute:02d}:{second:02d}.000",
        "end": f"1:{(seconds + 1) // 60:02d}:{(seconds + 1) % 60:02d}.500",
        "level": "S" if CLIPS.y[first] else "EN",
        "comment": f"say {first}",
        "error": "missed" if CLIPS.y[first] else "false alarm",
        "score": f"{RIDGE.scores[first]:.2f}",
    }
    assert f"10 of {wrong.sum()} wrong decisions" in table.note
    assert table.note.endswith("obygaze view --run run")


@pytest.mark.parametrize("where", ["", 'light != "none" and level in {EN, S}'])
def test_errors_have_the_own_columns_that_a_run_asks_for(
    tmp_path: Path, where: str
) -> None:
    made = made_run(tmp_path / "run", [RIDGE], manifest=manifest_of(tmp_path))
    made.protocol["data"]["where"] = where
    (table,) = sections_by_key(made)["errors"].tables
    own = {"light", "shot"}.intersection(table.headers)
    assert own == ({"light"} if where else set())
    for row in records_of(table) if where else ():
        assert row["light"] == f"light {CLIPS.ids.index(row['clip_id'])}"


def test_errors_of_a_cell_keep_a_column_that_is_called_as_one_of_theirs(
    tmp_path: Path,
) -> None:
    (cell,) = made_run(tmp_path / "run", [RIDGE]).cells
    clips = {}
    for number, clip_id in enumerate(CLIPS.ids):
        own = {"score": f"own {number}"}
        clips[clip_id] = Clip(clip_id, CLIPS.films[number], extra=own)
    found = errors(cell, clips, ["score"])
    assert len(found) == ((RIDGE.scores > 0) != CLIPS.y).sum()
    for row in found:
        number = CLIPS.ids.index(row["clip_id"])
        assert row["score (manifest)"] == f"own {number}"
        assert row["score"].value == pytest.approx(RIDGE.scores[number])


def test_the_clips_of_a_table_of_errors_can_be_chosen(tmp_path: Path) -> None:
    """A command that takes a table of clips takes one that a report has written."""
    made = made_run(tmp_path / "run", [RIDGE])
    table = sections_by_key(made)["errors"].tables[0]
    path = tmp_path / "errors.csv"
    path.write_bytes(table.as_csv())
    assert clip_ids(path) == [row[1] for row in rows_of(table)]


def test_without_the_manifest_errors_have_no_level(
    tmp_path: Path,
) -> None:
    made = made_run(tmp_path / "run", [RIDGE])
    (table,) = sections_by_key(made)["errors"].tables
    assert [*table.headers] == ["film", "clip_id", "error", "score"]
    assert {row[2] for row in rows_of(table)} <= {"missed", "false alarm"}
    assert "Levels and concepts" not in table.note


def test_of_probabilities_the_threshold_is_one_half(tmp_path: Path) -> None:
    odds = 1 / (1 + np.exp(-RIDGE.scores))
    cell = MadeCell("ridge", CLIPS, odds, facts={"is_probability": True})
    made = made_run(tmp_path / "run", [cell])
    rows = rows_of(sections_by_key(made)["errors"].tables[0])
    wrong = (odds > 0.5) != CLIPS.y
    order = np.argsort(-np.abs(np.where(wrong, odds - 0.5, 0)), kind="stable")
    assert [row[1] for row in rows] == [CLIPS.ids[number] for number in order[:10]]


def test_tasks_of_one_row_stand_beside_each_other(tmp_path: Path) -> None:
    names = ("Look against EN", "Look", "Body against EN", "Body")
    cells = [
        MadeCell("cav", CLIPS, scores_for(CLIPS, 1.0, seed), train=name, test=name)
        for seed, name in enumerate(names)
    ]
    run = made_run(tmp_path / "run", cells, protocol="paper-fig3", changes=())
    figures = list(figures_of_tasks(run, {}))
    assert [figure.title for figure in figures] == [
        "F1 binary side by side, cav",
        "AP side by side, cav",
    ]
    drawn = figures[1].markup(1)
    assert drawn.count("against EN, and HN") == 2
    assert drawn.index(">Look<") < drawn.index(">Body<")


def test_a_task_beside_that_of_the_answer_has_its_figure(tmp_path: Path) -> None:
    other = MadeCell("ridge", CLIPS, RIDGE.scores, train="HN_S", test="HN_S")
    run = made_run(tmp_path / "run", [RIDGE, other])
    titles = [figure.title for figure in figures_of_tasks(run, {})]
    assert titles == ["AP of each film, tested on HN_S"]


@pytest.mark.parametrize("is_perfect", [True, False])
def test_an_interval_below_every_draw_is_explained(
    tmp_path: Path, is_perfect: bool
) -> None:
    cell = replace(RIDGE, scores=scores_for(CLIPS, 50.0 if is_perfect else 0.3, 1))
    run = made_run(tmp_path / "run", [cell])
    caption = figure_of_pair(run, (cell.train, cell.test), {}).caption
    assert ("draws of films say too little" in caption) == is_perfect


def test_intervals_of_few_films_and_missing_ones_are_explained(tmp_path: Path) -> None:
    """.97 had [.40, 1.00] beside -.03 [-.13, .07] to a model with 1, and 1.00 had none."""
    few = clips_of(films=FILMS[:5])
    cells = {
        5: MadeCell("ridge", few, scores_for(few, 0.3, 1)),
        8: MadeCell("ridge", CLIPS, scores_for(CLIPS, 0.3, 1)),
    }
    for n_films, cell in cells.items():
        run = made_run(tmp_path / f"run-{n_films}", [cell])
        caption = figure_of_pair(run, (cell.train, cell.test), {}).caption
        assert ("the interval is Student's" in caption) == (n_films == 5)
        assert "A large dot without a line" not in caption
        (of_run,) = run.cells
        without = replace(of_run, intervals={})
        both = about_intervals(run, [of_run, without], "ap")
        assert both.endswith(
            "A large dot without a line has no interval: nothing says how sure it is."
        )
        assert about_intervals(run, [without], "ap") == ""


def test_a_figure_promises_an_interval_only_where_it_draws_one(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", [RIDGE])
    pair = (RIDGE.train, RIDGE.test)
    assert "with its 95 % interval" in figure_of_pair(run, pair, {}).caption
    without = run.results.assign(low=math.nan, high=math.nan)
    known = {"predictions.csv": run.predictions, "results.csv": without}
    caption = figure_of_pair(Run(run.folder, run.about, known), pair, {}).caption
    assert caption.startswith("A large dot is the value over all films; each small dot")


def test_the_figure_of_the_answer_is_not_drawn_again(tmp_path: Path) -> None:
    cell = MadeCell("ridge", CLIPS, RIDGE.scores, train="HN_S", test="ENHN_S")
    run = made_run(tmp_path / "run", [cell])
    assert list(figures_of_tasks(run, {})) == []


def test_how_it_was_made_has_the_protocol_and_what_to_cite(tmp_path: Path) -> None:
    store = {
        "location": "stores/x",
        "backbone": "toy",
        "array": "clip",
        "width": 4,
        "seal": "2" * 64,
        "licence": "CC0-1.0",
        "missing": {f"clip{number}": "decode error" for number in range(60)},
    }
    run = made_run(tmp_path / "run", [RIDGE], stores={"x": store})
    section = sections_by_key(run)["made"]
    sources, inputs = section.tables
    assert rows_of(sources) == [["features", "x", "CC0-1.0", "not stated"]]
    assert [row[0] for row in rows_of(inputs)] == ["protocol", "manifest", "store"]
    assert ["store", "x=stores/x", "2" * 64] in rows_of(inputs)
    assert section.sentences[0].startswith(
        "Protocol honest, splits nested, 1,000 draws"
    )


def test_a_saved_model_that_is_tested_is_an_input(tmp_path: Path) -> None:
    settings = {"task": "EN_S", "sha256": "3" * 64}
    models = {"ridge": {"kind": "ridge", "settings": settings}}
    run = made_run(tmp_path / "run", [RIDGE])
    protocol = {**run.protocol, "models": models}
    run = replace(run, about={**run.about, "protocol": protocol})
    inputs = sections_by_key(run)["made"].tables[-1]
    assert ["model", "ridge", "3" * 64] in rows_of(inputs)


def test_very_many_films_are_points_without_names(tmp_path: Path) -> None:
    films = [f"film{number:04d}" for number in range(210)]
    clips = clips_of(films=films)
    cell = MadeCell("ridge", clips, scores_for(clips, 1.0, 1))
    made = made_run(tmp_path / "run", [cell])
    figure = figure_of_pair(made, ("EN_S", "EN_S"), {})
    assert "film0007" not in figure.markup(1)
    assert figure.markup(1).count("<title>") == 1, "of the value over all films"
    assert figure.markup(1).count("<use") == 210 + 1 + 3, "and three of the legend"
    keys = [table.key for table in sections_by_key(made)["results"].tables]
    assert keys == ["summary"]


def test_a_film_with_the_lower_error_is_the_better_one(tmp_path: Path) -> None:
    def with_error(
        of_films: Mapping[str, float], of_others: float
    ) -> NDArray[np.float64]:
        """Scores whose squared error is that of the film."""
        errors = [of_films.get(film, of_others) ** 0.5 for film in CLIPS.films]
        return np.where(CLIPS.y, 1 - np.array(errors), errors)

    facts = {"is_probability": True}
    of_task = {"train": "Look", "test": "Look", "facts": facts}
    # In the first film the model is worse.
    cells = [
        MadeCell("cav", CLIPS, with_error({FILMS[0]: 0.5}, 0.1), **of_task),
        MadeCell("neighbour", CLIPS, with_error({}, 0.3), False, "", **of_task),
    ]
    changes = ["report.primary=brier"]
    run = made_run(tmp_path / "run", cells, protocol="paper-fig3", changes=changes)
    figure, _ = figures_of_tasks(run, {})
    assert figure.title == "Brier side by side, cav"
    assert figure.markup(1).count(f"{FILMS[1]}: .10, guess .30") == 1
    n_dots = {}
    for style, dots in re.findall(
        r'(?s)style="([^"]*)">(\s*<use.*?)</g>', figure.markup(1)
    ):
        kind = "open" if "fill-opacity: 0;" in style else "filled"
        n_dots[kind] = n_dots.get(kind, 0) + dots.count("<title>film")
    assert n_dots == {"open": 1, "filled": 7}


def test_the_difference_of_two_stores_is_in_a_table(tmp_path: Path) -> None:
    other = MadeCell("ridge", CLIPS, scores_for(CLIPS, 0.5, 4), store="noise")
    row = difference_row(RIDGE, other, 0.1, 0.4, 0.012)
    stores = {"x": STORE, "noise": STORE}
    made: dict[str, Any] = {"stores": stores}
    made["remarks"] = {f"r{number}": f"Remark {number}." for number in range(9)}
    run = made_run(tmp_path / "run", [RIDGE, other], [row], **made)
    # A paper takes it from the file of the table.
    write_report([run.folder], formats=["csv", "latex"])
    (written,) = csv.DictReader((run.folder / "tables" / "stores.csv").open())
    assert written["first"] == "ridge (x)"
    assert written["second"] == "ridge (noise)"
    assert float(written["difference"]) == RIDGE.ap - other.ap
    assert written["difference low"] == "0.1"
    assert written["clips"] == str(row["clips"])
    latex = (run.folder / "tables" / "stores.tex").read_text("utf-8")
    assert f"ridge (x) & ridge (noise) & AP & {RIDGE.ap - other.ap:.2f} " in latex
    alone = made_run(tmp_path / "alone", [RIDGE], [])
    of_one_store = sections_by_key(alone)["results"]
    assert "stores" not in [table.key for table in of_one_store.tables]
    # What was asked for before the run is not in two tables.
    asked = 'report.questions=[{first_store="noise", second_store="x"}]'
    made = {"stores": stores, "changes": [asked]}
    sections = sections_by_key(
        made_run(tmp_path / "asked", [RIDGE, other], [row], **made)
    )
    assert "stores" not in [table.key for table in sections["results"].tables]
    assert rows_of(sections["questions"].tables[0])[1][1:3] == [
        "ridge (noise)",
        "ridge (x)",
    ]


def test_models_of_as_many_but_other_clips_are_said_to_be_of_other_clips(
    tmp_path: Path,
) -> None:
    clips = clips_of()
    first, second = np.flatnonzero(clips.y)[:2]
    cells = []
    for store, left_out in {"a": first, "b": second}.items():
        kept = np.arange(len(clips.ids)) != left_out
        films = tuple(np.array(clips.films)[kept].tolist())
        part = Clips(tuple(np.array(clips.ids)[kept].tolist()), films, clips.y[kept])
        scores = scores_for(clips, 1.0, 3)[kept]
        facts = {"tested": store}
        cells.append(MadeCell("ridge", part, scores, store=store, facts=facts))
        prior = {"is_model": False, "store": store, "facts": facts}
        cells.append(MadeCell("neighbour", part, np.zeros(len(scores)), **prior))
    run = made_run(tmp_path / "run", cells, stores={"a": STORE, "b": STORE})
    n_clips = len(clips.ids) - 1
    (row,) = [
        line for line in result_text(run).splitlines() if line.split()[:1] == ["EN_S"]
    ]
    # Both models, and the guess, which is that of the first.
    assert row.count(f" on {n_clips}") == 3
    assert "Models of a row were tested on other clips" in result_text(run)
    page = section_of_results(run, {})
    beside = next(table for table in page.tables if table.key == "summary")
    assert sum(isinstance(row, str) for row in beside.rows) == 2
    of_films = next(table for table in page.tables if table.key == "films")
    common = (
        f"All values are of the {n_clips - 1} clips that each of them was tested on"
    )
    assert common in of_films.note
    (figure,) = [figure_of_pair(run, ("EN_S", "EN_S"), {})]
    assert figure.markup(1).count(f"{n_clips} clips") == 3
    # Models of the same clips need no such words.
    alike = made_run(tmp_path / "alike", cells[:2], stores={"a": STORE})
    assert "Models of a row" not in result_text(alike)


def test_a_guess_beside_two_training_tasks_says_which_one_it_learned_from(
    tmp_path: Path,
) -> None:
    cells = []
    for train in ("EN_S", "HN_S"):
        cells.append(replace(RIDGE, train=train))
        cells.append(replace(GUESS, train=train))
    run = made_run(tmp_path / "run", cells)
    (figure,) = figures_of_tasks(run, {})
    assert "without video, trained on EN_S" in figure.markup(1)


def test_a_table_of_groups_of_films_has_their_names_once(tmp_path: Path) -> None:
    """Of a run whose groups are directors, it had each director as its id, too."""
    directors = ("Anne", "Björn")
    clips = clips_of(films=directors)
    cell = MadeCell("ridge", clips, scores_for(clips, 1.0, 1))
    manifest = {**MANIFEST, "group_column": "director"}
    run = made_run(tmp_path / "run", [cell], manifest=manifest)
    run.protocol["splits"]["column"] = "director"
    tables = section_of_results(run, {}).tables
    (of_films,) = [table for table in tables if table.key == "films"]
    assert of_films.headers[:2] == ["director", "clips"]
    assert [row[0] for row in rows_of(of_films)] == [*directors]


@pytest.mark.parametrize("text", ["Of {task}?", ""])
def test_each_question_about_guessing_has_a_sentence_in_the_order_asked(
    tmp_path: Path, text: str
) -> None:
    """Of two labels of one's own, or two tasks of levels without a text, only the first had one."""
    tasks = ("HN_S", "EN_S", "ENHN_S")
    asked = []
    cells = []
    for task in tasks:
        asked.append(
            {
                "text": text.format(task=task),
                "first": "ridge",
                "first_store": "",
                "second": "neighbour",
                "second_store": "",
                "train": task,
                "test": task,
            }
        )
        cells.append(replace(RIDGE, train=task, test=task))
        cells.append(replace(GUESS, train=task, test=task))
        cells.append(replace(MLP, train=task, test=task))
    run = made_run(tmp_path / "run", cells)
    # A task has one sentence, whatever number of guesses a protocol names.
    run.protocol["report"]["questions"] = [*asked, {**asked[-1], "second": "random"}]
    chapter = chapter_of(run)
    said = re.findall(
        r"On films it has not seen, (\w+) ranks clips \((\w+)\)", str(chapter.answers)
    )
    assert said == [("ridge", task) for task in tasks]
    # The terminal has the first one, and a table.
    assert chapter.answers[0] in result_text(run)
    assert chapter.answers[1] not in result_text(run)
