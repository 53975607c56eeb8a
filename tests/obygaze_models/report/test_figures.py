"""Figures: which a run gets, what they hold, and the same bytes each time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.runs import cell, predictions, usual, write_run

from obygaze_features.manifest.io import manifest_sha256, read_manifest, write_manifest
from obygaze_features.manifest.model import Clip, Header, Manifest
from obygaze_models.protocols.runner.records import read_run
from obygaze_models.report.content import sections_of
from obygaze_models.report.figure_films import _said, _scale, _strips, manifest_of
from obygaze_models.report.figure_grids import _folded
from obygaze_models.report.figure_tree import _place
from obygaze_models.report.figures import draw_all
from obygaze_models.report.words import chance_of


def test_every_record_has_its_figure_and_both_spellings(tmp_path):
    run = read_run(write_run(tmp_path / "run", usual()))
    made = draw_all(run, tmp_path / "figures")
    assert [figure.key for figure in made] == [
        "intervals-EN-S",
        "films",
        "timelines",
        "concepts-clip",
        "cosines-clip",
        "interventions-pcbm-dt-clip",
        "weights-pcbm-lr-clip",
        "interventions-pcbm-lr-clip",
        "tree-pcbm-dt-clip-HN-S",
        "factors-ridge-clip-HN-S-EN-S",
        "confusion-clip",
        "calibration-clip",
    ]
    for figure in made:
        assert figure.svg.read_text("utf-8").startswith("<?xml")
        assert figure.png.read_bytes().startswith(b"\x89PNG")
        assert figure.caption and figure.title


def test_figures_are_the_same_bytes_each_time(tmp_path):
    run = read_run(write_run(tmp_path / "run", usual()))
    first, second = (draw_all(run, tmp_path / name) for name in ("one", "two"))
    for one, two in zip(first, second, strict=True):
        assert one.svg.read_bytes() == two.svg.read_bytes(), one.key
        assert one.png.read_bytes() == two.png.read_bytes(), one.key


def test_tasks_tested_on_themselves_are_one_figure(tmp_path):
    names = ("Look", "Body", "Type of shot")
    records = [cell("cav", train=name, test=name) for name in names]
    run = read_run(write_run(tmp_path / "run", records))
    keys = [figure.key for figure in draw_all(run, tmp_path / "figures")]
    assert keys[0] == "intervals"
    svg = (tmp_path / "figures" / "intervals.svg").read_text("utf-8")
    assert all(name in svg for name in names)


def test_a_run_of_baselines_alone_has_no_model_to_draw(tmp_path):
    run = read_run(write_run(tmp_path / "run", usual()[2:6]))
    assert draw_all(run, tmp_path / "figures") == []


@pytest.fixture
def films(tmp_path: Path):
    """A manifest of the run's clips, in an order that their ids do not tell."""
    levels = ("S", "HN", "NS", "EN")
    clips = [
        Clip(
            f"{film}-{i:03d}", film, scene=9 - i, level=levels[i - 1], concepts=("Look",) * (i < 4)
        )
        for film in ("tt1", "tt2", "tt3")
        for i in range(1, 5)
    ]
    path = tmp_path / "films.toml"
    header = Header(dataset="made up", concepts={"Look": "visual"})
    write_manifest(Manifest("films", header, tuple(clips)), path)
    held = read_manifest(path)
    return {"path": str(path), "sha256": manifest_sha256(held), "name": "films", "view": "visual"}


def test_films_are_drawn_in_their_order_with_levels_of_the_manifest(tmp_path, films):
    about = {**films, "n_clips": 12, "n_movies": 3}
    run = read_run(write_run(tmp_path / "run", usual(), manifest=about))
    (first, *_) = _strips(run, ("HN_S", "EN_S"))
    # Scenes count down from the fourth clip to the first.
    assert (first.film, list(first.levels)) == ("tt1", ["EN", "NS", "HN", "S"])
    (said,) = first.models.values()
    assert [one.score for one in said] == [0.25, 0.25, 0.25, 0.75]
    assert [one.right for one in said] == [True, True, True, True]
    # The fifth clip is positive, and the model says no.
    second = _strips(run, ("HN_S", "EN_S"))[1]
    assert [one.right for one in next(iter(second.models.values()))] == [True, True, True, False]
    assert "clips" in [figure.key for figure in draw_all(run, tmp_path / "figures")]


def test_a_manifest_that_has_changed_is_not_drawn(tmp_path, films):
    about = {**films, "sha256": "0" * 64, "n_clips": 12, "n_movies": 3}
    run = read_run(write_run(tmp_path / "run", usual(), manifest=about))
    assert manifest_of(run) is None
    (first, *_) = _strips(run, ("HN_S", "EN_S"))
    assert list(first.levels) == ["S", "EN", "EN", "EN"]


def test_scores_of_several_fits_are_averaged_and_margins_keep_their_zero_in_the_middle():
    rows = [
        {"model": "m", "feature": "f", "clip_id": "a", "score": s, "decision": d, "y": "1"}
        for s, d in (("0.5", "1"), ("0.25", "0"), ("0.75", "1"))
    ]
    found = _said(rows, ("m", "f"))
    assert (found["a"].score, found["a"].right) == (0.5, True)
    assert [_scale([-4.0, 2.0])(s) for s in (-4.0, 0.0, 2.0)] == [0.0, 0.5, 0.75]


def test_a_film_too_long_for_one_screen_and_many_films_are_drawn(tmp_path):
    clips = {f"f{f:02d}-{i:03d}": f"f{f:02d}" for f in range(14) for i in range(8)}
    run = read_run(write_run(tmp_path / "run", [cell()], predictions(clips)))
    keys = [figure.key for figure in draw_all(run, tmp_path / "figures")]
    assert "timelines-1" in keys and "timelines-2" in keys


def test_a_tree_is_cut_at_four_levels_and_questions_stand_over_their_answers():
    # A chain to the left, six questions deep: node 2k asks, 2k + 1 is the answer "yes".
    n = 6
    left = [2 * k + 2 if i % 2 == 0 else -1 for i in range(2 * n) for k in [i // 2]] + [-1]
    right = [i + 1 if i % 2 == 0 else -1 for i in range(2 * n)] + [-1]
    placed = _place({"left": left, "right": right}, 0, 0, [0.0])
    assert max(one.depth for one in placed) == 4
    assert len(placed) == 9
    by_node = {one.node: one for one in placed}
    assert by_node[6].x == (by_node[8].x + by_node[7].x) / 2 == 0.5


def test_a_grid_says_what_it_has_no_room_for(tmp_path):
    few, many = ([cell(f"model-{i}") for i in range(n)] for n in (6, 40))
    for name, records, told in (("few", few, ""), ("many", many, "the first 6 of 40 models")):
        run = read_run(write_run(tmp_path / name, records))
        made = {figure.key: figure for figure in draw_all(run, tmp_path / name / "figures")}
        for key in ("confusion-clip", "calibration-clip"):
            assert ("Shown are" in made[key].caption) == bool(told)
            assert told in made[key].caption


def test_long_names_are_folded_where_they_have_hyphens_and_blanks():
    assert _folded("mlp", 12) == "mlp"
    assert _folded("mlp-with-a-long-name", 12) == "mlp-with-a-\nlong-name"
    assert _folded("mlp (store one)", 12) == "mlp (store\none)"


def test_chance_is_the_mean_of_what_random_orders_score_in_the_folds():
    # Of 4 clips with 2 positive, the 6 orders have AP 1, 5/6, 3/4, 7/12, 1/2, 5/12: mean 49 / 72.
    # Of 2 clips with 1 positive: 1 and 1/2, mean 3/4. A fold without a positive has none.
    folds = [
        {"fold": "a", "n_test": 4, "n_positive": 2},
        {"fold": "b", "n_test": 2, "n_positive": 1},
        {"fold": "c", "n_test": 5, "n_positive": 0},
    ]
    record = cell(folds=folds)
    assert chance_of(record, "ap") == pytest.approx((49 / 72 + 3 / 4) / 2)
    assert chance_of(record, "auc") == 0.5
    assert chance_of(cell(), "ap") == 0.25


def test_intervals_are_called_what_they_are(tmp_path):
    run = read_run(write_run(tmp_path / "run", usual()))
    own = {**run.protocol, "report": {**run.protocol.get("report", {}), "confidence": 0.8}}
    other = replace(run, about={**run.about, "protocol": own})
    draw_all(other, tmp_path / "figures")
    assert "80 % interval over films" in (tmp_path / "figures/intervals-EN-S.svg").read_text()
    words = [text for section in sections_of(other) for text in section.sentences]
    assert any(text.startswith("Small numbers are 80 % intervals") for text in words)
