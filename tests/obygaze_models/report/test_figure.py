"""Figures: which ones a run has, what they show, and the same bytes each time."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Drawing
from support.runs import (
    analysis,
    baseline,
    cell,
    fold,
    predictions,
    usual,
    write_run,
)

from obygaze_features.core.figures import LEVEL_COLORS
from obygaze_features.manifest.io import manifest_sha256, read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.protocols.results.cells import CellRecord
from obygaze_models.protocols.results.concepts import Tree
from obygaze_models.protocols.results.success import SuccessRegression
from obygaze_models.protocols.runner.records import read_run
from obygaze_models.report.bars import _draw as _draw_bars_on
from obygaze_models.report.bars import bars_of
from obygaze_models.report.concepts import node_positions
from obygaze_models.report.figure import (
    MODEL,
    UNKNOWN_LEVEL,
    WRONG,
    Figure,
    draw_legend,
    hide_ticks,
)
from obygaze_models.report.films import (
    Bar,
    ClipScore,
    Timelines,
    _draw_timeline,
    _scores_of_best_models,
    clip_scores,
    position_unit,
    timelines,
)
from obygaze_models.report.lookup import ReportRun
from obygaze_models.report.page import draw_figures, sections_of
from obygaze_models.report.results import _baseline_rows, chance_of
from obygaze_models.report.success import _limit_of


def run_of(folder: Path, records, *more, **about) -> ReportRun:
    return ReportRun.of_run(read_run(write_run(folder, records, *more, **about)))


def drawn(run: ReportRun) -> dict[str, Figure]:
    return {figure.key: figure for figure in draw_figures(run, run.folder / "figures")}


def test_every_record_has_its_figure_as_svg_and_png(tmp_path):
    made = drawn(run_of(tmp_path / "run", usual()))
    assert list(made) == [
        *(
            "timelines",
            "intervals-EN-S",
            "factors-ridge-clip-HN-S-EN-S",
            "films-ridge-clip-HN-S-EN-S",
            "calibration-clip",
        ),
        "concepts-clip",
        *("interventions-pcbm-dt-clip-HN-S", "interventions-pcbm-lr-clip-HN-S"),
        "tree-pcbm-dt-clip-HN-S",
    ]
    for figure in made.values():
        assert figure.svg.read_text("utf-8").startswith("<?xml")
        assert figure.png.read_bytes().startswith(b"\x89PNG")
        assert figure.caption and figure.title
        assert 'width="244.8pt"' in figure.svg.read_text("utf-8")  # 326 px: fits 390 px
    assert made["tree-pcbm-dt-clip-HN-S"].title.endswith("HN_S, 12 clips, 3 positive")


def test_figures_are_the_same_bytes_each_time(tmp_path):
    run = run_of(tmp_path / "run", usual())
    first, second = (draw_figures(run, tmp_path / name) for name in ("one", "two"))
    for one, two in zip(first, second, strict=True):
        assert one.svg.read_bytes() == two.svg.read_bytes(), one.key
        assert one.png.read_bytes() == two.png.read_bytes(), one.key


def test_tasks_tested_on_themselves_are_one_figure(tmp_path):
    names = ("Look", "Body", "Type of shot")
    records = [cell("cav", train=name, test=name) for name in names]
    svg = drawn(run_of(tmp_path / "run", records))["intervals"].svg.read_text("utf-8")
    assert all(name in svg for name in names)
    # The model and its three tasks are four rows of .22 inches; .6 is for the axis.
    assert 'height="106.56pt"' in svg


def side_by_side(folder: Path) -> ReportRun:
    """Two concepts against two kinds of negatives; one of the four was not tested."""
    places = {
        "Look, EN": ("Look", "EN"),
        "Look, all": ("Look", "all"),
        "Body, EN": ("Body", "EN"),
        "Body, all": ("Body", "all"),
    }
    tested = list(places)[:3]
    records = [
        cell("cav", train=name, test=name, ap=0.25 * number)
        for number, name in enumerate(tested, 1)
    ]
    for name, value in (("random", 0.375), ("all_positive", 0.4375)):
        for task in tested:
            f1 = {"mean": value, "sd": 0.0, "value": value, "ci": None}
            records.append(baseline(name, train=task, test=task, f1_binary=f1))
    run = run_of(folder, records)
    tasks = {name: {"row": r, "series": s} for name, (r, s) in places.items()}
    own = {**run.protocol, "tasks": tasks, "report": {"primary": "f1_binary"}}
    return replace(run, about={**run.about, "protocol": own})


def test_tasks_of_one_row_are_bars_beside_each_other_by_f1_and_by_ap(tmp_path):
    run = side_by_side(tmp_path / "run")
    made = drawn(run)
    assert {"bars-f1-binary-cav-clip", "bars-ap-cav-clip"} <= set(made)
    assert "intervals" not in made
    (group,) = bars_of(run)
    axes = Drawing().subplots()
    _draw_bars_on(axes, run, group, "ap")
    # A container for each series; its bars are in the order of the rows.
    first, second = axes.containers
    assert [bar.get_width() for bar in first] == [0.25, 0.75]
    assert [bar.get_width() for bar in second] == [0.5, 0.0]
    assert [text.get_text() for text in axes.texts] == ["–"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Look", "Body"]
    for row in (0, 1):
        upper = first[row].get_y() + first[row].get_height() / 2
        lower = second[row].get_y() + second[row].get_height() / 2
        assert row - 0.5 < upper < row < lower < row + 0.5


def test_a_task_without_a_row_is_not_lost_beside_those_with_one(tmp_path):
    run = side_by_side(tmp_path / "run")
    alone = cell("cav", train="Voice", test="Voice", ap=0.9)
    records = [*run.records, *run_of(tmp_path / "alone", [alone]).records]
    made = drawn(replace(run, records=records))
    assert "bars-ap-cav-clip" in made
    svg = made["intervals"].svg.read_text("utf-8")
    assert "Voice" in svg and "Look, EN" not in svg


def test_bars_of_f1_have_the_best_guess_and_no_interval(tmp_path):
    run = side_by_side(tmp_path / "run")
    (group,) = bars_of(run)
    axes = Drawing().subplots()
    _draw_bars_on(axes, run, group, "f1_binary")
    guesses = [
        line for line in axes.lines if line.get_xdata()[0] == line.get_xdata()[1]
    ]
    assert [line.get_xdata()[0] for line in guesses] == [0.4375] * 3
    (table,) = [
        table
        for section in sections_of(run)
        for table in section.tables
        if table.key == "bars-cav-clip"
    ]
    assert table.headers == (
        "row",
        "F1 binary, EN",
        "F1 binary, all",
        "AP, EN",
        "AP, all",
    )
    assert [row[0] for row in table.rows] == ["Look", "Body"]
    assert [number.value for number in table.rows[1][1:]] == [0.5, None, 0.75, None]


def test_a_run_of_baselines_alone_has_no_model_to_draw(tmp_path):
    assert drawn(run_of(tmp_path / "run", usual()[2:6])) == {}


@pytest.fixture
def films(tmp_path: Path):
    """A manifest of the run's clips, in an order that their ids do not tell."""
    levels = ("S", "HN", "NS", "EN")
    clips = [
        Clip(
            f"{film}-{i:03d}",
            film,
            scene=9 - i,
            level=levels[i - 1],
            concepts=("Look",) * (i < 4),
        )
        for film in ("tt1", "tt2", "tt3")
        for i in range(1, 5)
    ]
    path = tmp_path / "films.toml"
    header = Header(dataset="made up", concepts={"Look": "visual"})
    write_manifest(Manifest("films", header, tuple(clips)), path)
    held = read_manifest(path)
    return {
        "path": str(path),
        "sha256": manifest_sha256(held),
        "name": "films",
        "view": "visual",
    }


def test_films_are_drawn_in_their_order_with_levels_of_the_manifest(tmp_path, films):
    about = {**films, "n_clips": 12, "n_films": 3}
    run = run_of(tmp_path / "run", usual(), manifest=about)
    found = timelines(run)
    assert found is not None and found.pair == "HN_S → EN_S"
    # Scenes count down from the fourth clip to the first.
    first = found.films["tt1"]
    assert [bar.clip.level for bar in first] == ["EN", "NS", "HN", "S"]
    scores = [bar.scores["ridge (clip)"] for bar in first]
    assert scores == [*[ClipScore(0.25, True)] * 3, ClipScore(0.75, True)]
    # The fifth clip is positive, and the model says no.
    correct = [bar.scores["ridge (clip)"].correct for bar in found.films["tt2"]]
    assert correct == [True, True, True, False]
    assert "timelines" in drawn(run)


def test_of_very_many_films_those_with_most_errors_are_shown() -> None:
    def film(number: int) -> list[Bar]:
        # Film 7 has no error, film 20 has three, all others have one.
        n_wrong = {7: 0, 20: 3}.get(number, 1)
        return [
            Bar(
                Clip(f"f{number}-{i}", f"f{number}"),
                str(i),
                {"m": ClipScore(0.9, i >= n_wrong)},
            )
            for i in range(4)
        ]

    names = [f"f{number}" for number in range(62)]
    films = {name: film(number) for number, name in enumerate(names)}
    few = Timelines("EN_S", "number", ["m"], {name: films[name] for name in names[:60]})
    assert list(few.shown_films()) == names[:60] and few.which_films() == ""
    many = Timelines("EN_S", "number", ["m"], films)
    # Of those with one error, the last by name is left out too.
    assert set(names) - set(many.shown_films()) == {"f7", "f9"}
    assert list(many.shown_films()) == [
        name for name in names if name not in ("f7", "f9")
    ]
    assert "Of 62 films the 60 with the most wrong decisions" in many.which_films()


def test_a_manifest_that_has_changed_is_not_drawn(tmp_path, films):
    about = {**films, "sha256": "0" * 64, "n_clips": 12, "n_films": 3}
    run = run_of(tmp_path / "run", usual(), manifest=about)
    assert run.manifest is None
    found = timelines(run)
    assert found is not None
    assert [bar.clip.level for bar in found.films["tt1"]] == ["S", "EN", "EN", "EN"]


def test_scores_of_several_fits_are_averaged_and_margins_keep_their_zero_in_the_middle():
    rows = [
        {"clip_id": clip, "score": score, "decision": score > 0.5, "y": 1}
        for clip, score in (
            ("a", 0.625),
            ("a", 0.25),
            ("a", 0.75),
            ("b", 0.625),
            ("b", 0.375),
        )
    ]
    # The mean of b is the threshold, which is not above it.
    assert clip_scores(rows) == {
        "a": ClipScore(1.625 / 3, True),
        "b": ClipScore(0.5, False),
    }
    margins = [
        {"clip_id": str(score), "score": score, "decision": score > 0, "y": 0}
        for score in (-4.0, 0.0, 0.5, 2.0)
    ]
    found = clip_scores(margins)
    assert [one.score for one in found.values()] == [0.0, 0.5, 0.5625, 0.75]
    assert [one.correct for one in found.values()] == [True, True, False, False]


def test_a_film_too_long_for_one_screen_and_many_films_are_drawn(tmp_path):
    clips = {f"f{f:02d}-{i:03d}": f"f{f:02d}" for f in range(14) for i in range(8)}
    made = drawn(run_of(tmp_path / "run", [cell()], predictions(clips)))
    names = [f"f{f:02d}" for f in range(14)]
    for key, films in (("timelines-1", names[:12]), ("timelines-2", names[12:])):
        texts = re.findall(r">([^<>]+)</text>", made[key].svg.read_text("utf-8"))
        assert [text for text in texts if re.fullmatch(r"f\d\d", text)] == films


def test_tree_is_cut_at_four_levels_with_parents_between_their_children():
    # A chain to the left, six questions deep: node 2k asks, 2k + 1 is the answer "yes".
    n = 6
    left = [2 * k + 2 if i % 2 == 0 else -1 for i in range(2 * n) for k in [i // 2]] + [
        -1
    ]
    right = [i + 1 if i % 2 == 0 else -1 for i in range(2 * n)] + [-1]
    unused = [0] * len(left)
    tree = Tree(
        left=left,
        right=right,
        concept=unused,
        threshold=unused,
        share=unused,
        n=unused,
    )
    placed = node_positions(tree, 0, 0, itertools.count())
    assert max(depth for depth, _ in placed.values()) == 4
    assert len(placed) == 9
    assert placed[6][1] == (placed[8][1] + placed[7][1]) / 2 == 0.5


def test_every_cell_has_its_panel(tmp_path):
    names = [f"model-{i}" for i in range(40)]
    made = drawn(run_of(tmp_path / "run", [cell(name) for name in names]))
    lines = re.findall(r">([^<>]+)</t", made["calibration-clip"].svg.read_text("utf-8"))
    assert [line for line in lines if line.startswith("model-")] == names


def test_chance_is_the_mean_of_what_random_orders_score_in_the_folds():
    # Of 4 clips with 2 positive, the 6 orders have AP 1, 5/6, 3/4, 7/12, 1/2, 5/12: mean 49 / 72.
    # Of 2 clips with 1 positive: 1 and 1/2, mean 3/4. A fold without a positive has none.
    folds = [fold("a", 4, 2), fold("b", 2, 1), fold("c", 5, 0)]
    record = CellRecord.from_json(cell(folds=folds))
    assert chance_of(record, "ap") == pytest.approx((49 / 72 + 3 / 4) / 2)
    assert chance_of(record, "auc") == 0.5
    assert chance_of(CellRecord.from_json(cell()), "ap") == 0.25


def test_interval_label_has_its_confidence(tmp_path):
    run = run_of(tmp_path / "run", usual())
    own = {
        **run.protocol,
        "report": {**run.protocol.get("report", {}), "confidence": 0.8},
    }
    other = replace(run, about={**run.about, "protocol": own})
    svg = drawn(other)["intervals-EN-S"].svg.read_text("utf-8")
    assert "AP, 80 % intervals" in svg
    words = [text for section in sections_of(other) for text in section.sentences]
    assert any(text.startswith("Small numbers are 80 % intervals") for text in words)


def test_clips_are_placed_by_time_by_scene_or_by_number():
    def clip(number: int, **more) -> Clip:
        return Clip(f"tt1-{number}", "tt1", level="S", concepts=(), **more)

    by_time = [clip(i, start_s=1800.0 * i, end_s=4000.0) for i in (1, 2)]
    in_file = {"start_s": 0.0, "end_s": 1.0, "video": "own.mp4"}
    in_film = []
    for i in (1, 2):
        extra = {"film_start_s": str(i), "film_end_s": "9"}
        in_film.append(clip(i, extra=extra, **in_file))
    each_its_own_file = [clip(i, scene=i, **in_file) for i in (1, 2)]
    assert [position_unit(clips) for clips in (by_time, in_film)] == [
        "start (h:mm:ss)"
    ] * 2
    assert position_unit(each_its_own_file) == "scene"
    assert position_unit([clip(1), clip(2)]) == "number of the clip"


def test_places_of_clips_are_drawn_below_each_film(tmp_path, films):
    about = {**films, "n_clips": 12, "n_films": 3}
    run = run_of(tmp_path / "run", usual(), manifest=about)
    found = timelines(run)
    assert found is not None
    assert [bar.position for bar in found.films["tt1"]] == ["5", "6", "7", "8"]
    made = drawn(run)["timelines"]
    texts = re.findall(r">([^<>]+)</text>", made.svg.read_text("utf-8"))
    assert texts.count("5") == texts.count("8") == 3  # once below each film
    assert "Numbers below a film: scene" in made.caption


def test_titles_stand_for_the_ids_of_published_films_and_those_of_the_manifest(
    tmp_path, films
):
    run = run_of(
        tmp_path / "run", [cell()], manifest={**films, "n_clips": 12, "n_films": 3}
    )
    assert [run.film_name(film) for film in ("tt0467406", "tt1")] == ["Juno", "tt1"]
    path = Path(films["path"])
    manifest = read_manifest(path)
    titled = manifest.with_column("title", {"tt1-001": "Made up"})
    write_manifest(titled, path, force=True)
    about = {**films, "sha256": manifest_sha256(titled), "n_clips": 12, "n_films": 3}
    again = run_of(tmp_path / "again", [cell()], manifest=about)
    assert again.film_name("tt1") == "Made up"


def analysis_of(film: str, log_odds: float, n: int = 12):
    record = analysis(film)
    record["factors"][0]["log_odds"] = log_odds
    return {**record, "n": n}


def test_the_axis_of_factors_holds_every_dot_of_all_films_and_of_each(tmp_path):
    dots = {"tt1": 2.0, "tt2": 9.0, "tt3": -14.0}
    films = [analysis_of(film, value) for film, value in dots.items()]
    run = run_of(tmp_path / "run", [cell(), analysis(), *films])
    limit = _limit_of(run.of(SuccessRegression))
    assert limit == pytest.approx(1.1 * 14)
    made = drawn(run)["factors-ridge-clip-HN-S-EN-S"]
    assert "all films (12 clips, 8 right)" in made.caption
    assert "the 3 films with enough clips" in made.caption
    svg = made.svg.read_text("utf-8")
    assert len(re.findall(r'id="PathCollection_\d+"', svg)) == 4


def test_an_interval_is_cut_off_where_no_dot_is(tmp_path):
    record = analysis()
    record["factors"][0] |= {"low": -500.0, "high": 800.0}
    run = run_of(tmp_path / "run", [cell(), record])
    assert _limit_of(run.of(SuccessRegression)) == pytest.approx(1.1 * 12)


def test_a_panel_of_each_film_has_its_clips_or_the_reason_why_it_is_empty(tmp_path):
    empty = {**analysis("tt2"), "factors": [], "n": 9, "n_success": 5}
    empty["note"] = "9 clips, 55 are needed for 11 factors"
    films = [analysis_of("tt1", 0.5, n=61), empty, analysis_of("tt3", 1.5, n=108)]
    made = drawn(run_of(tmp_path / "run", [cell(), analysis(), *films]))
    svg = made["films-ridge-clip-HN-S-EN-S"].svg.read_text("utf-8")
    for text in ("tt1", "61 clips, 8 right", "9 clips, 5 right", "108 clips, 8 right"):
        assert text in svg
    words = " ".join(re.findall(r">([^<>]+)</text>", svg))
    assert "empty: 9 clips, 55 are needed" in re.sub(r"\s+", " ", words)
    assert len(re.findall(r'id="PathCollection_\d+"', svg)) == 2


def test_a_value_without_an_interval_is_an_open_dot(tmp_path):
    """The dot of all films: without an interval it was in the table, but not drawn."""

    def dots(record) -> list[str]:
        svg = drawn(run_of(tmp_path / "run", [cell(), record]))[
            "factors-ridge-clip-HN-S-EN-S"
        ]
        parts = re.findall(
            r'<g id="PathCollection_.*?</g>', svg.svg.read_text("utf-8"), re.S
        )
        return [part for part in parts if "<use" in part]

    known, unknown = analysis(), analysis()
    unknown["factors"][0] |= {"low": None, "high": None}
    (filled,), (opened,) = dots(known), dots(unknown)
    assert "fill: #2f5d8a" in filled and "fill: #ffffff" in opened


@pytest.mark.parametrize(
    ("primary", "name"), [("ap", "AP"), ("auc", "AUC"), ("f1_binary", "AP")]
)
def test_the_figure_of_intervals_is_of_a_metric_that_has_them(tmp_path, primary, name):
    names = ("Look", "Body", "Type of shot")
    records = [cell("cav", train=name, test=name) for name in names]
    run = run_of(tmp_path / "run", records)
    own = {**run.protocol, "report": {"primary": primary}}
    other = replace(run, about={**run.about, "protocol": own})
    svg = drawn(other)["intervals"].svg.read_text("utf-8")
    assert f"{name}, 95 % intervals" in svg
    # A short line for each: what a random order has.
    assert len(re.findall(r"stroke: #2b2b2b; stroke-linecap: square", svg)) == 3


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"start_s": 3725.4, "end_s": 3730.0}, "1:02:05"),
        ({"start_s": 3725.6, "end_s": 3730.0}, "1:02:06"),
        # A clip that is a file of its own starts at 0 of this file, and later in the film.
        (
            {"extra": {"film_start_s": "36000", "film_end_s": "36001"}},
            "10:00:00",
        ),
    ],
)
def test_a_clip_that_starts_late_is_placed_at_its_time_in_the_film(
    tmp_path, more, place
):
    late = Clip("tt1-002", "tt1", level="S", **more)
    clips = (late, Clip("tt1-001", "tt1", level="EN", start_s=0.0, end_s=1.0))
    run = run_of(tmp_path / "run", usual())
    vars(run)["manifest"] = Manifest("films", Header(dataset="made up"), clips)
    found = timelines(run)
    assert found is not None and found.unit == "start (h:mm:ss)"
    bars = [(bar.clip.clip_id, bar.position) for bar in found.films["tt1"]]
    assert bars == [("tt1-001", "0:00:00"), ("tt1-002", place)]


def boxes(collection) -> list[list[float]]:
    """Left, bottom, width and height of each bar of a drawing."""
    extents = [path.get_extents() for path in collection.get_paths()]
    return [
        [round(side, 6) for side in (box.x0, box.y0, box.width, box.height)]
        for box in extents
    ]


def test_a_timeline_has_the_level_of_each_clip_and_a_row_for_each_model():
    """Levels are above 0; a row is 1 high, and .2 below the one before it."""
    scores = [
        {"m": ClipScore(0.9, True), "n": ClipScore(0.01, False)},
        {"n": ClipScore(0.5, True)},
        {},
    ]
    bars = [
        Bar(Clip(f"f-{i}", "f", level=level), str(i), of_models)
        for i, (level, of_models) in enumerate(
            zip(["EN", "S", ""], scores, strict=True)
        )
    ]
    axes = Drawing().subplots()
    _draw_timeline(axes, bars, ["m", "n"], 5)
    levels, *rows = axes.collections
    assert boxes(levels) == [[i - 0.5, -0.5, 1, 0.5] for i in range(3)]
    assert [to_hex(color) for color in levels.get_facecolors()] == [
        to_hex(LEVEL_COLORS["EN"]),
        to_hex(LEVEL_COLORS["S"]),
        to_hex(UNKNOWN_LEVEL),
    ]
    full_m, of_m, full_n, of_n = rows
    assert boxes(full_m) == [[-0.5, -1.7, 1, 1]]
    assert boxes(of_m) == [[-0.45, -1.7, 0.9, 0.9]]
    assert boxes(full_n) == [[-0.5, -2.9, 1, 1], [0.5, -2.9, 1, 1]]
    # A score of almost nothing is still seen.
    assert boxes(of_n) == [[-0.45, -2.9, 0.9, 0.04], [0.55, -2.9, 0.9, 0.5]]
    colors = [to_hex(color) for color in of_n.get_facecolors()]
    assert colors == [to_hex(WRONG), to_hex(MODEL)]
    dotted = [(*line.get_xdata(), *line.get_ydata()) for line in axes.lines]
    assert dotted == [
        pytest.approx((-0.5, 2.5, -1.2, -1.2)),
        pytest.approx((-0.5, 2.5, -2.4, -2.4)),
    ]
    assert axes.get_yticks().tolist() == pytest.approx([-1.2, -2.4])
    assert (*axes.get_xlim(), *axes.get_ylim()) == pytest.approx(
        (-0.6, 4.6, -2.95, 0.05)
    )


def test_tick_marks_and_the_named_spines_are_hidden():
    first, second = Drawing().subplots(2)
    hide_ticks(first, "left")
    hide_ticks(second)
    for axes in (first, second):
        ticks = [*axes.xaxis.get_major_ticks(), *axes.yaxis.get_major_ticks()]
        assert {tick.tick1line.get_markersize() for tick in ticks} == {0}
    seen = {name: spine.get_visible() for name, spine in first.spines.items()}
    assert seen == {"left": False, "right": True, "top": True, "bottom": True}
    assert not any(spine.get_visible() for spine in second.spines.values())


def test_a_legend_has_the_levels_that_are_drawn_in_their_order_then_the_others():
    figure = Drawing()
    draw_legend(figure, {"S", "HN", ""}, {"correct": MODEL})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "HN hard negative",
        "S sure",
        "correct",
    ]
    assert [to_hex(patch.get_facecolor()) for patch in legend.get_patches()] == [
        LEVEL_COLORS["HN"],
        LEVEL_COLORS["S"],
        MODEL,
    ]


def test_baselines_that_share_a_row_are_named_up_to_two():
    """More are the first name and a number; what stands in brackets is for the table."""
    values = {
        "random": 0.25,
        "all_positive": 0.25,
        "prevalence": 0.25,
        "neighbour": 0.5,
        "film_prior": 0.5,
        "oracle": 1.0,
    }
    records = [
        CellRecord.from_json(baseline(name, ap=ap)) for name, ap in values.items()
    ]
    assert [label for label, _ in _baseline_rows(records, ["ap"])] == [
        "baselines",
        "random and 2 more",
        "neighbour, film_prior",
        "oracle",
    ]
    assert _baseline_rows([], ["ap"]) == []


def test_a_baseline_of_some_tasks_is_named_with_them():
    records = [
        CellRecord.from_json(baseline("prevalence", train="A")),
        CellRecord.from_json(baseline("neighbour", train="B", ap=0.5)),
    ]
    assert [label for label, _ in _baseline_rows(records, ["ap"])] == [
        "baselines",
        "prevalence · A",
        "neighbour · B",
    ]


def test_the_best_model_of_each_store_is_that_of_the_pair_of_tasks():
    """`svm` is best of another pair, and of another store."""
    run = SimpleNamespace(
        primary="ap",
        stores=["clip", "frames", "empty"],
        cells=[
            CellRecord.from_json(record)
            for record in (
                cell("ridge", ap=0.5),
                cell("cav", ap=0.625),
                cell("svm", ap=0.875, train="ENHN_S"),
                cell("svm", ap=0.75, feature="frames"),
            )
        ],
    )
    rows = [
        {
            "clip_id": "a",
            "model": model,
            "feature": store,
            "score": score,
            "decision": score > 0.5,
            "y": 1,
        }
        for model, store, score in (
            ("ridge", "clip", 0.1),
            ("cav", "clip", 0.7),
            ("svm", "frames", 0.3),
        )
    ]
    assert _scores_of_best_models(run, ("HN_S", "EN_S"), rows) == {
        "cav (clip)": {"a": ClipScore(0.7, True)},
        "svm (frames)": {"a": ClipScore(0.3, False)},
    }
