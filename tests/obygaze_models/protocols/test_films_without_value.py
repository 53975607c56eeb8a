"""Films without a positive clip have no AP and no AUC, and count for neither."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support.experiments import films, planted, quick, run_on, store_of
from support.tables import by_film, differences, models

from obygaze_features.manifest.model import Manifest
from obygaze_models.evaluation.bootstrap import draw_weights
from obygaze_models.report.comparison import compare_runs
from obygaze_models.report.page import write_report
from obygaze_models.runner.files import Run
from obygaze_models.runner.limits import limits_of
from obygaze_models.runner.text import result_text

pytestmark = pytest.mark.check("a run for each number of films")

ONE_TASK = (
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    'grid.models=["ridge"]',
    'grid.baselines=["random"]',
    "report.contrast=[]",
    "report.concepts=false",
    "report.questions=[]",
)
N_FILMS = 12
N_DRAWS = 400


def with_positives_in(n_films: int) -> Manifest:
    """Twelve films; the sure clips of all but some of them are easy negatives."""
    manifest = films(N_FILMS, 14, seed=4, runs_on=0.0)
    names = sorted({clip.movie_id for clip in manifest})
    clips = []
    for clip in manifest:
        if clip.level == "S" and clip.movie_id not in names[:n_films]:
            clip = replace(clip, level="EN", concepts=())
        clips.append(clip)
    return replace(manifest, clips=tuple(clips))


def made_run(folder: Path, n_films: int, seed: int = 1) -> Run:
    folder.mkdir(exist_ok=True)
    manifest = with_positives_in(n_films)
    X = planted(manifest, strength=0.3, seed=seed)
    store = store_of(folder / f"store-{n_films}-{seed}", manifest, X)
    protocol = quick("honest", *ONE_TASK, replicates=N_DRAWS)
    return run_on(folder, protocol, manifest, {"x": store})


@pytest.mark.parametrize("n_films", [2, 3, 5, 8])
def test_an_interval_is_of_the_films_that_have_a_value(
    tmp_path: Path, n_films: int
) -> None:
    run = made_run(tmp_path, n_films)
    (cell,) = models(run)
    assert cell.n_films == N_FILMS
    assert {cell.film_counts(name) for name in ("ap", "auc")} == {(n_films, N_FILMS)}
    (apart,) = differences(run)
    about = {limit.name: limit.text for limit in limits_of(run)}
    text = result_text(run)
    known = f"{n_films} of 12 films have a value"
    if n_films < 3:
        assert not cell.has_interval("ap") and not cell.has_interval("auc")
        assert math.isnan(apart["low"])
        assert about["no interval"] == (
            "1 of 1 cells have no interval: 2 tested films of EN_S have positive clips, and 3 are"
            " needed."
        )
        return
    assert "intervals over 12 films, of other films of the same kind" in text
    assert f"each tested unseen; {known}." in text
    assert (known in about.get("few films", "")) == (n_films < 6)
    # With folds of one film, AP is the mean of the values of films.
    values = np.array([*by_film(cell, "ap").values()])
    is_known = np.isfinite(values)
    assert is_known.sum() == n_films
    (weights,) = draw_weights(np.arange(N_FILMS), N_DRAWS, (0, 0))
    drawn = weights[:, is_known]
    with np.errstate(invalid="ignore"):
        draws = drawn @ values[is_known] / drawn.sum(axis=1)
    draws = draws[np.isfinite(draws)]
    if n_films < 6:
        value = values[is_known].mean()
        inflation = 1 + N_FILMS / (N_FILMS - 1)
        t = stats.t.ppf(0.975, n_films - 1)
        half = t * draws.std() * (inflation * n_films / (n_films - 1)) ** 0.5
        angles = np.arcsin(value**0.5) + np.array([-half, half]) / (
            2 * (value * (1 - value)) ** 0.5
        )
        expected = np.sin(np.clip(angles, 0, np.pi / 2)) ** 2
        assert cell.ends("ap") == pytest.approx(expected, abs=1e-6)


def test_a_comparison_and_the_page_say_how_many_films_have_a_value(
    tmp_path: Path,
) -> None:
    runs = [made_run(tmp_path, 3, seed) for seed in (1, 2)]
    compared = compare_runs(runs)
    assert "In AP, 3 of 12 films have a value." in compared.warnings
    (cell,) = [cell for cell in compared.cells if cell.is_model]
    row = cell.differences[1]
    ours, theirs = (by_film(models(run)[0], "ap") for run in runs[::-1])
    apart = np.array([ours[film] - theirs[film] for film in ours])
    apart = apart[np.isfinite(apart)]
    inflation = 1 + N_FILMS / (N_FILMS - 1)
    half = stats.t.ppf(0.975, 2) * (inflation * apart.var(ddof=1) / 3) ** 0.5
    # Draws of twelve films hold three of them more or less often, which adds to the variance.
    width = row["high"] - row["low"]
    assert 0.9 < width / (2 * half) < 1.6
    (page,) = write_report([runs[0].folder], formats=["html"])
    assert "3 of 12 films have a value" in page.read_text(encoding="utf-8")
