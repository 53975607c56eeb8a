"""What stands below the first screen: what a protocol asks for, the paper, concepts, errors."""

import math
import re
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
    MadeCell,
    clips_of,
    difference_row,
    labels_of,
    made_run,
    scores_for,
)
from support.tables import a_table

from obygaze_features.core.errors import ObygazeWarning
from obygaze_features.core.figures import COLORS
from obygaze_features.manifest.io import write_manifest
from obygaze_features.manifest.model import Annotation, Clip, Header, Manifest
from obygaze_models.evaluation.clip_scores import clip_scores
from obygaze_models.report.figures import (
    figure_of_differences,
    figure_of_pair,
    figure_of_success,
    figures_of_tasks,
)
from obygaze_models.report.page import write_report
from obygaze_models.report.sections import (
    Section,
    _sentences_of_contrasts,
    errors,
    make_sections,
    sentence_of_concepts,
)
from obygaze_models.report.tables import ResultTable
from obygaze_models.runner.labels import current_labels

CLIPS = clips_of()
RIDGE = MadeCell("ridge", CLIPS, scores_for(CLIPS, 2.0, 1))
GUESS = MadeCell(
    "neighbour", CLIPS, scores_for(CLIPS, 0.3, 3), is_model=False, store=""
)


def sections_by_key(run: Any) -> dict[str, Section]:
    return {section.key: section for section in make_sections(run, current_labels(run))}


def rows_of(table: ResultTable) -> list[list[str]]:
    """The rows of a table as texts; a heading is one text."""
    rows = []
    for row in table.rows:
        texts = [row] if isinstance(row, str) else list(map(str, row))
        rows.append(texts)
    return rows


def test_a_difference_has_its_sides_beside_it(tmp_path) -> None:
    other = replace(GUESS, model="mlp", is_model=True, store="x")
    row = difference_row(RIDGE, other, 0.1, 0.4, 0.012)
    run = made_run(tmp_path / "run", [RIDGE, other], [row])
    (table,) = sections_by_key(run)["differences"].tables
    better = sum(RIDGE.ap_of(film) > GUESS.ap_of(film) for film in FILMS)
    values = [RIDGE.ap, GUESS.ap, RIDGE.ap - GUESS.ap]
    shown = [f"{value:.2f}".replace("0.", ".") for value in values]
    assert rows_of(table) == [
        [
            *(
                "EN_S",
                "ridge",
                "mlp",
                "AP",
                *shown[:2],
                f"{shown[2]} [.10, .40]",
                ".012",
            ),
            *(f"{len(CLIPS.ids)}", f"{better} of 8", "yes", "0"),
        ]
    ]
    assert table.note == ""


def test_films_that_are_counted_as_better_are_marked(tmp_path) -> None:
    guess = replace(GUESS, scores=np.zeros(len(CLIPS.ids)))
    run = made_run(tmp_path / "run", [RIDGE, guess], [])
    (of_films,) = sections_by_key(run)["films"].tables
    (results,) = sections_by_key(run)["results"].tables
    reverse = replace(RIDGE, scores=-RIDGE.scores)
    expected = {}
    for film in FILMS:
        is_better = RIDGE.ap_of(film) > reverse.ap_of(film)
        expected[film] = "yes" if is_better else "no"
    rows = records_of(of_films)
    assert {row["id"]: row["ridge better?"] for row in rows} == expected
    counted = [*expected.values()].count("yes")
    (row,) = [
        dict(zip(results.headers, map(str, row), strict=True)) for row in results.cells
    ]
    assert row["films"] == f"{counted} of 8"


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
                n_filled[name] += dots.count(", baseline ")
    assert n_filled == {
        "clean": sum(RIDGE.ap_of(film) > GUESS.ap_of(film) for film in FILMS),
        "leaked": 0,
    }


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
        "score": f"{RIDGE.scores[first]:.2f}".replace("0.", "."),
    }
    assert f"10 of {wrong.sum()} wrong decisions" in table.note
    assert table.note.endswith("obygaze view made-up --run run")


def test_errors_have_a_picture_of_each_clip_if_asked_for(tmp_path: Path) -> None:
    made = made_run(tmp_path / "run", [RIDGE], manifest=manifest_of(tmp_path))
    assert not sections_by_key(made)["errors"].pictures
    folders = [made.folder]
    page = write_report(folders, tmp_path / "plain.html")[0].read_text("utf-8")
    assert "<img" not in page and "pictures of films" not in page

    def picture_of(manifest: Manifest, clip: Clip) -> str:
        assert clip in [*manifest]
        return "" if clip.clip_id == shown[0] else f"data:{clip.clip_id}"

    (table,) = sections_by_key(made)["errors"].tables
    shown = [row["clip_id"] for row in records_of(table)]
    page = write_report(folders, tmp_path / "x.html", picture_of=picture_of)[
        0
    ].read_text()
    assert re.findall(r'<img src="data:([^"]*)"', page) == shown[1:]
    assert "This page contains pictures of films, from 9 clips." in page
    assert "1 clip without a picture" in page
    # The clips of the run cannot be read.
    (tmp_path / "made-up.csv").unlink()
    with pytest.warns(ObygazeWarning, match="cannot be read"):
        page = write_report(folders, tmp_path / "y.html", picture_of=picture_of)[
            0
        ].read_text()
    assert "<img" not in page and "The clips have no pictures" in page


def test_errors_have_what_each_person_said() -> None:
    tests = a_table(
        {"clip_id": name, "movie_id": "f", "y": int(name == "b"), "score": score}
        for name, score in (("a", 0.9), ("b", 0.8), ("c", 0.7))
    )
    said = [
        Annotation("a", "ada", "S", ("Look",), {"light": "dim", "comment": "hm"}),
        Annotation("a", "ben", "EN", (), {}),
    ]
    rows = errors(clip_scores(tests), {}, ["light"], {"a": said})
    assert [row["clip_id"] for row in rows] == ["a", "c"]
    assert rows[0]["annotators"] == "ada: S, Look, dim, “hm”; ben: EN"
    assert rows[1]["annotators"] == ""


def test_errors_are_of_each_store(tmp_path: Path) -> None:
    cells = [replace(RIDGE, store=store) for store in ("b", "a")]
    run = made_run(tmp_path / "run", cells, stores={"b": STORE, "a": STORE})
    titles = [table.title for table in sections_by_key(run)["errors"].tables]
    assert titles == [
        f"Most confident errors of ridge ({store}), EN_S" for store in "ba"
    ]


@pytest.mark.parametrize("where", ["", 'light != "none" and level in {EN, S}'])
def test_errors_have_the_own_columns_that_a_run_asks_for(tmp_path, where) -> None:
    made = made_run(tmp_path / "run", [RIDGE], manifest=manifest_of(tmp_path))
    made.protocol["data"]["where"] = where
    (table,) = sections_by_key(made)["errors"].tables
    own = {"light", "shot"}.intersection(table.headers)
    assert own == ({"light"} if where else set())
    for row in records_of(table) if where else ():
        assert row["light"] == f"light {CLIPS.ids.index(row['clip_id'])}"


def test_the_legend_of_an_interval_has_the_colour_that_is_drawn(tmp_path) -> None:
    # A difference that is not shown is grey.
    cells = [
        MadeCell(name, CLIPS, scores_for(CLIPS, 0.0, seed))
        for seed, name in enumerate(("ridge", "mlp"))
    ]
    changes = ["report.lead=ridge", "report.against=mlp"]
    rows = [difference_row(*cells, -0.1, 0.1, 0.9)]
    run = made_run(tmp_path / "run", cells, rows, changes=changes)
    figure = figure_of_differences(run)
    assert figure is not None
    drawn = figure.svg.decode().lower()
    assert "95 % interval" in drawn and COLORS["baseline"] in drawn
    assert COLORS["model"] not in drawn


def test_a_page_has_the_primary_metric_beside_its_own_baseline(tmp_path: Path) -> None:
    guess = MadeCell("prevalence", CLIPS, 0 * RIDGE.scores, False, "")
    changes = ["report.primary=accuracy"]
    run = made_run(tmp_path / "run", [RIDGE, guess], changes=changes)
    (table,) = sections_by_key(run)["results"].tables
    (cells,) = table.cells
    row = dict(zip(table.headers, cells, strict=True))
    of_ridge = run.models[0].row("accuracy")
    assert row["best baseline of accuracy"] == "prevalence"
    assert row["accuracy of that baseline"].value == of_ridge["baseline_value"]
    # p stands beside the baseline of AP, and before the other metric.
    headers = list(table.headers)
    assert headers.index("AP") < headers.index("p") < headers.index("accuracy")


def test_a_film_with_the_lower_error_is_the_better_one(tmp_path: Path) -> None:
    def with_error(of_films, of_others) -> NDArray[np.float64]:
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
    assert figure.markup(1).count(f"{FILMS[1]}: .10, baseline .30") == 1
    n_dots = {}
    for style, dots in re.findall(
        r'(?s)style="([^"]*)">(\s*<use.*?)</g>', figure.markup(1)
    ):
        kind = "open" if "fill-opacity: 0;" in style else "filled"
        n_dots[kind] = n_dots.get(kind, 0) + dots.count("<title>film")
    assert n_dots == {"open": 1, "filled": 7}


def test_a_concept_that_was_not_tested_is_not_called_not_shown(tmp_path: Path) -> None:
    untested = dict.fromkeys(("ap", "low", "high", "auc", "p_holm"), math.nan)
    rows = [concept_row("Look"), concept_row("Body", **untested)]
    run = made_run(tmp_path / "run", [RIDGE], tables={"concepts.csv": rows})
    sentence = sentence_of_concepts(run)
    assert sentence == (
        "In unseen films, the features show 1 of 1 concept (Look); not tested, because too few"
        " films have them: Body."
    )
    # The smallest p of several stores is too small. Two stores may have the same p.
    rows = [
        concept_row("Look", store=store, p_holm=p)
        for store, p in (("a", 0.02), ("b", 0.02), ("c", 0.9))
    ]
    run = made_run(tmp_path / "stores", [RIDGE], tables={"concepts.csv": rows})
    assert sentence_of_concepts(run).endswith("show 0 of 1 concept; not shown: Look.")


def test_concepts_have_their_quality(tmp_path: Path) -> None:
    rows = [
        concept_row("Look", films_with_value=3),
        concept_row("Body", films_with_value=8),
    ]
    run = made_run(tmp_path / "run", [RIDGE], tables={"concepts.csv": rows})
    (table,) = sections_by_key(run)["concepts"].tables
    assert table.note.endswith("For AP, there is a value for 3 to 8 of 8 films.")
    look = ["Look", "20", ".20", ".60 [.40, .80]", ".70", ".010", ".50"]
    assert rows_of(table)[1] == look


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
        ["Look", "30", "-.50 [-1.00, .10]", ".060", ""],
        ["Body", "30", "–", "–", "left out: it never varies"],
    ]
    assert "60 of 96 decisions are correct" in table.note


def test_levels_are_compared_with_each_other_and_not_alone(tmp_path: Path) -> None:
    rows = [
        factor("all films", "Look", -0.5, low=-1.0, high=0.1, p=0.06),
        factor("all films", "level EN", 0.97, low=0.2, high=1.74, p=0.019),
        factor("all films", "level S against EN", 0.4, low=-0.2, high=1.0, p=0.18),
    ]
    run = made_run(tmp_path / "run", [RIDGE], tables={"success.csv": rows})
    section = sections_by_key(run)["success"]
    (table,) = section.tables
    assert [row[0] for row in rows_of(table)] == ["Look", "level S against EN"]
    (figure,) = section.figures
    assert "level EN" not in figure.markup(1)
    assert (
        "clips of the first of two levels than on clips of the second" in figure.caption
    )


def test_films_of_table_4_keep_the_order_and_the_names_of_the_paper(tmp_path) -> None:
    films = ("tt0119822", "tt0110912")
    clips = clips_of(films=films)

    class Printed(MadeCell):
        def results(self) -> list[dict[str, Any]]:
            rows = super().results()
            rows[2] |= {"paper": 0.53, "paper_sd": 0.18, "sd": 0.25}
            of_films = [row for row in rows if row.get("film")]
            for row in of_films:
                if row["metric"] == "ap":
                    mean = {"tt0119822": 0.55, "tt0110912": 0.29}[row["film"]]
                    row |= {"paper": mean, "paper_sd": 0.09, "sd": 0.25}
                    row["metric"] = "f1_weighted"
            return rows

    names = {"train": "HN_S", "test": "ENHN_S", "leaked": 5}
    cell = Printed("mlp", clips, scores_for(clips, 1.0, 1), **names)
    run = made_run(tmp_path / "run", [cell], protocol="paper-table4", changes=())
    of_cells, table = sections_by_key(run)["paper"].tables
    assert of_cells.title == "F1 weighted of this run and of the paper"
    row = ["HN_S", "ENHN_S", ".50 (.25)", ".53 (.18)", "5"]
    assert rows_of(of_cells) == [["mlp (x)"], row]
    first, second = (cell.ap_of(film) for film in films)
    assert rows_of(table) == [
        [
            "mlp (x), HN_S → ENHN_S, on leaked test clips (some were used in training or"
            " selection), 5 of 24 leaked"
        ],
        ["As Good as It Gets", films[0], f"{first:.2f} (.25)"[1:], ".55 (.09)"],
        ["Pulp Fiction", films[1], f"{second:.2f} (.25)"[1:], ".29 (.09)"],
        ["mean of these films", "", f"{(first + second) / 2:.2f}"[1:], ".42"],
    ]


def test_contrasts_that_leak_are_counted_apart() -> None:
    facts = {"low": 0.0, "p": 0.02}
    rows = [{**facts, "basis": "unseen", "value": value} for value in (0.1, -0.1, 0.2)]
    higher = (
        "Models trained on EN_S have the higher value in 2 of 3 rows, models trained on HN_S"
        " in 1."
    )
    assert [*_sentences_of_contrasts(rows, "EN_S", "HN_S")] == [higher]
    rows.append({**facts, "basis": "leaked", "value": 0.5})
    leaked, again = _sentences_of_contrasts(rows, "EN_S", "HN_S")
    assert leaked.startswith("1 of 4 rows cannot compare the two training tasks: ")
    assert again == higher
