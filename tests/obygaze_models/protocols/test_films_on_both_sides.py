"""A column that divides the clips of each film: no interval over films, and a line says why."""

from __future__ import annotations

from pathlib import Path

from support.experiments import films, planted, quick, run_on, store_of

from obygaze_features.manifest.model import Manifest
from obygaze_models.runner.tables import Run
from obygaze_models.runner.text import result_text
from obygaze_models.report.compared_runs import compare_runs

CHANGES = (
    "splits.kind=fixed",
    "splits.column=part",
    'splits.test=["0"]',
    'splits.choose=["1"]',
    'grid.models=["ridge"]',
    'grid.train=["EN_S"]',
    'grid.test=["EN_S"]',
    'grid.baselines=["neighbour", "random"]',
    "report.contrast=[]",
    "report.concepts=false",
)
BOTH_SIDES = "films on both sides"


def divided(manifest: Manifest, *, by_film: bool) -> Manifest:
    """Clips in three parts: of single clips, or of whole films."""
    films_in_order = sorted({clip.movie_id for clip in manifest})
    parts = {}
    for n, clip in enumerate(manifest):
        number = films_in_order.index(clip.movie_id) if by_film else n
        parts[clip.clip_id] = str(number % 3)
    return manifest.with_column("part", parts)


def run_divided(folder: Path, *, by_film: bool = False, strength: float = 0.4) -> Run:
    """Run one model on eight films of forty clips."""
    manifest = divided(films(8, 40, seed=2), by_film=by_film)
    folder.mkdir(exist_ok=True)
    store = store_of(folder / "store", manifest, planted(manifest, strength=strength))
    protocol = quick("honest", *CHANGES)
    return run_on(folder, protocol, manifest, {"s": store})


def test_clips_of_each_film_on_both_sides_have_no_interval_and_are_named(
    tmp_path: Path,
) -> None:
    run = run_divided(tmp_path)
    (cell,) = run.of("cell")
    assert cell["same_film"] == cell["n_test"] > 30
    assert cell["leaked"] == 0
    for metric in ("ap", "auc"):
        assert cell[metric]["ci"] == [None, None]
        assert 0 < cell[metric]["value"] <= 1
    by_name = {record["model"]: record for record in run.of("baseline")}
    assert by_name["neighbour"]["ap"]["ci"] == [None, None]  # it learns, too
    assert None not in by_name["random"]["ap"]["ci"]
    for difference in run.of("comparison"):
        assert difference["ci"] == [None, None] and difference["p_sign_flip"] is None
    (remark,) = [r["text"] for r in run.of("remark") if r["about"] == BOTH_SIDES]
    n_test = cell["n_test"]
    assert f"{n_test} of the {n_test} test clips of EN_S -> EN_S" in remark
    assert "the column part of splits.column" in remark
    text = result_text(run)
    assert remark in text
    assert "because films of the test clips train them too" in text


def test_whole_films_in_the_test_part_have_their_interval(tmp_path: Path) -> None:
    run = run_divided(tmp_path, by_film=True)
    (cell,) = run.of("cell")
    assert cell["same_film"] == 0
    assert None not in cell["ap"]["ci"]
    assert not [r for r in run.of("remark") if r["about"] == BOTH_SIDES]
    assert "Models have none" not in result_text(run)


def test_two_such_runs_are_compared_without_an_interval(tmp_path: Path) -> None:
    differences = {}
    for by_film in (False, True):
        first = run_divided(tmp_path / f"first-{by_film}", by_film=by_film)
        second = run_divided(
            tmp_path / f"second-{by_film}", by_film=by_film, strength=0.2
        )
        compared = compare_runs([first, second], "ap")
        differences[by_film] = compared.cells[0].differences[1]
    of_clips, of_films = differences[False], differences[True]
    assert of_clips is not None and of_clips.low is None and of_clips.p is None
    assert of_films is not None and of_films.low is not None
