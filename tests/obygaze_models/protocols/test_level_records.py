"""The protocol honest-levels: scores and predicted levels against EN < HN < NS < S."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import somersd
from support.experiments import cell_of, films, planted, quick, run_on, store_of

from obygaze_features.manifest.model import LEVELS
from obygaze_models.protocols.runner.level_records import median_levels, pairs_in_order
from obygaze_models.protocols.runner.records import Run
from obygaze_models.protocols.runner.table import result_text
from obygaze_models.report.lookup import ReportRun
from obygaze_models.report.page import sections_of


def test_pairs_in_order_are_those_of_somers() -> None:
    rng = np.random.default_rng(0)
    ranks, scores = rng.integers(0, 4, 80), rng.integers(0, 9, 80).astype(float)
    won, pairs = pairs_in_order(scores, ranks)
    assert won / pairs == pytest.approx((1 + somersd(ranks, scores).statistic) / 2)


def test_the_median_level_has_half_the_probability_at_or_below_it() -> None:
    rows = [
        [0.5, 0.5, 0, 0],
        [0.4, 0.2, 0.3, 0.1],
        [0.1, 0.1, 0.1, 0.7],
        [0, 0.4, 0.2, 0.4],
    ]
    assert median_levels(np.array(rows)).tolist() == [0, 1, 3, 2]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    """Runs on features with the concepts, whose number grows with the level, and on noise."""
    folder, manifest = tmp_path_factory.mktemp("levels"), films(6, 50, seed=2)
    protocol = quick(
        "honest-levels", "report.compare=false", "models.ordinal.tolerance=0.1"
    )
    protocol = replace(protocol, grid=replace(protocol.grid, train=("levels",)))
    made = []
    for strength in (3.0, 0.0):
        X = planted(manifest, strength=strength)
        store = store_of(folder / f"s{strength}", manifest, X)
        made.append(run_on(folder, protocol, manifest, {"x": store}))
    return made[0], made[1]


@pytest.mark.check("a whole run with levels")
def test_pairs_are_counted_within_films(runs: tuple[Run, Run]) -> None:
    manifest = films(6, 50, seed=2)
    rank = {clip.clip_id: LEVELS.index(clip.level) for clip in manifest}
    found = cell_of(runs[0].of("levels"), model="ridge", test="levels")
    assert found["n_test"] == 300
    won = pairs = 0.0
    rows = [
        r for r in runs[0].predictions if (r["model"], r["test"]) == ("ridge", "levels")
    ]
    for film in {row["movie_id"] for row in rows}:
        own = [row for row in rows if row["movie_id"] == film]
        ranks = np.array([rank[row["clip_id"]] for row in own])
        n = float((ranks[:, None] < ranks).sum())
        won += n * (1 + somersd(ranks, [row["score"] for row in own]).statistic) / 2
        pairs += n
    assert found["concordance"]["value"] == pytest.approx(won / pairs)


@pytest.mark.check("several runs")
def test_an_ordinal_model_finds_the_levels_and_not_in_noise(
    runs: tuple[Run, Run],
) -> None:
    signal, noise = (
        cell_of(run.of("levels"), model="ordinal", test="levels") for run in runs
    )
    assert signal["concordance"]["ci"][0] > 0.75 and signal["macro_error"] < 0.6
    low, high = noise["concordance"]["ci"]
    assert low < 0.5 < high and noise["macro_error"] > 0.9
    # One level for all: HN or NS is 1, 0, 1 and 2 levels away.
    assert signal["blind_error"] == 1.0
    blind = cell_of(runs[0].of("levels"), model="film_prior", test="levels")
    assert blind["concordance"]["value"] == 0.5 and "macro_error" not in blind
    # Beside it the binary tasks, on the same fits.
    assert cell_of(runs[0].cells, model="ordinal", test="EN_S")["ap"]["value"] > 0.9


@pytest.mark.check("a whole run with levels")
def test_terminal_and_report_show_them(runs: tuple[Run, Run]) -> None:
    assert (
        "of pairs of levels in the order of the levels, error in levels 0."
        in result_text(runs[0])
    )
    sections = {s.key: s for s in sections_of(ReportRun.of_run(runs[0]))}
    (table,) = [t for t in sections["results"].tables if t.key == "levels"]
    assert "error in levels" in table.as_csv()
