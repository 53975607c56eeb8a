"""A column that divides the clips of each film: a line says what an interval over films is of."""

from __future__ import annotations

from pathlib import Path

from support.experiments import films, planted, quick, run_on, store_of
from support.tables import differences, models, the_cell

from obygaze_features.manifest.model import Manifest
from obygaze_models.runner.files import Run
from obygaze_models.runner.limits import limits_of
from obygaze_models.runner.text import result_text

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


def test_clips_of_each_film_on_both_sides_are_named_and_their_interval_says_what_it_is_of(
    tmp_path: Path,
) -> None:
    run = run_divided(tmp_path)
    (cell,) = models(run)
    n_clips = cell.n_clips
    assert cell.same_film == n_clips > 30
    assert cell.leaked == 0
    for metric in ("ap", "auc"):
        low, high = cell.ends(metric)
        assert low < cell.value(metric) < high
    # The baseline of neighbours learns, too.
    assert the_cell(run, model="neighbour").basis == cell.basis == "film-seen"
    assert the_cell(run, model="random").basis == "unseen"
    assert len(differences(run)) == 2
    for row in differences(run):
        assert row["basis"] == "film-seen"
        assert row["low"] < row["value"] < row["high"] and 0 < row["p"] <= 1
    (said,) = [w.text for w in limits_of(run) if w.name == BOTH_SIDES]
    assert f"{n_clips} of the {n_clips} test clips of EN_S" in said
    assert "the column part divides films" in said
    text = result_text(run)
    assert said in text
    assert "of the same experiment with other films on both sides" in said
    assert "have no interval" not in text


def test_whole_films_in_the_test_part_have_their_interval(tmp_path: Path) -> None:
    run = run_divided(tmp_path, by_film=True)
    (cell,) = models(run)
    assert cell.same_film == 0
    assert cell.has_interval("ap")
    assert not [w for w in limits_of(run) if w.name == BOTH_SIDES]
    assert "have no interval" not in result_text(run)
